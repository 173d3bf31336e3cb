//! `kill -9` at random moments under load, again and again: after every restart the server stands by
//! everything it has acknowledged.
//!
//! `RONDO_KILLS` is the number of kills on each store (200), `RONDO_SEED` repeats a run's choices.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a failed unwrap is a failed test"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rondo_tests::dispatcher::Dispatcher;
use rondo_tests::ledger::{Ledger, Sample};
use rondo_tests::load::Load;
use rondo_tests::random::{self, Random};
use rondo_tests::server::{Options, Server};

const LOADS: u64 = 4;
const KILLS: u64 = 200;
/// However busy the machine is.
const LIFE_MAX: Duration = Duration::from_secs(10);
/// Old datasets, jobs and clients asked about after each restart, besides all new ones.
const OLD_ONES_ASKED: u64 = 10;

#[test]
fn segment_keeps_every_acknowledged_update() {
    kill_again_and_again("segment");
}

#[test]
fn sled_keeps_every_acknowledged_update() {
    kill_again_and_again("sled");
}

fn kill_again_and_again(store: &'static str) {
    let mut random = Random::new(random::seed());
    let kills = env::var("RONDO_KILLS").map_or(KILLS, |kills| kills.parse().unwrap());
    let began = Instant::now();
    // Nothing expires: whatever goes, goes against a promise.
    let options = Options::store(store)
        .flag("--job-gc-timeout=-1ms")
        .flag("--segment-size-max=65536")
        .flag("--free-space-reserve=1MiB");
    let mut server = Server::start(&options);
    let loads = (0..LOADS).map(|index| Load::new(format!("load{index}"), random.below(u64::MAX)));
    let mut loads: Vec<Load> = loads.collect();
    for kill in 1..=kills {
        let before: Vec<Ledger> = loads.iter().map(|load| load.ledger.clone()).collect();
        live_and_die(&mut server, &mut loads, random.below(200));
        if random.one_in(8) {
            server.start_and_kill_after(Duration::from_millis(random.below(100)));
        }
        server.start_again();
        let wrong = check(&server.dispatcher(), &loads, &before, &mut random);
        assert!(wrong.is_empty(), "after kill {kill}:\n{}", wrong.join("\n"));
    }
    let everything = Sample::default();
    let wrong: Vec<String> = loads
        .iter()
        .flat_map(|load| load.ledger.check_answers(&server.dispatcher(), &everything))
        .collect();
    assert!(wrong.is_empty(), "at the end:\n{}", wrong.join("\n"));
    let updates: u64 = loads.iter().map(|load| load.ledger.updates).sum();
    println!("{store}: {kills} kills, {updates} answers remembered, {:?}", began.elapsed());
    assert!(updates > kills * LOADS, "there was no load: {updates} answers");
    let snapshot = server.dispatcher().status().unwrap().journal.unwrap().snapshot_lsn;
    assert!(snapshot > 0 || kills < KILLS / 4, "no snapshot was built, so none was under a kill");
    assert_eq!(server.terminate().status.code(), Some(0));
}

/// Lets all loads work for a while, on a busy machine until there were answers for them all, then
/// kills the server under them.
fn live_and_die(server: &mut Server, loads: &mut [Load], life_ms: u64) {
    let (dying, answers) = (AtomicBool::new(false), AtomicU64::new(0));
    let address = server.address();
    thread::scope(|scope| {
        for load in loads.iter_mut() {
            scope.spawn(|| load.run(&Dispatcher::connect(&address), &dying, &answers));
        }
        thread::sleep(Duration::from_millis(life_ms));
        let at_most = Instant::now() + LIFE_MAX;
        while answers.load(Ordering::SeqCst) < 2 * LOADS && Instant::now() < at_most {
            thread::sleep(Duration::from_millis(1));
        }
        dying.store(true, Ordering::SeqCst);
        server.kill();
    });
}

/// Compares everything with the server's picture of itself, and what is new since `before` and some
/// of the old with its answers.
fn check(
    dispatcher: &Dispatcher,
    loads: &[Load],
    before: &[Ledger],
    random: &mut Random,
) -> Vec<String> {
    let picture = dispatcher.status().unwrap().dispatcher.unwrap();
    let mut wrong = two_of_one_id(loads);
    for (load, before) in loads.iter().zip(before) {
        let told = |reason: &String| format!("while it lived: {reason}");
        wrong.extend(load.ledger.broken.iter().map(told));
        wrong.extend(load.ledger.check_picture(&picture));
        let sample = Sample {
            datasets: Some(sample(&load.ledger.datasets, &before.datasets, random)),
            jobs: Some(sample(&load.ledger.jobs, &before.jobs, random)),
            clients: Some(sample(&load.ledger.clients, &before.clients, random)),
        };
        wrong.extend(load.ledger.check_answers(dispatcher, &sample));
    }
    wrong
}

/// Keys that are new, and some that are not.
fn sample<K: Ord + Clone, V>(
    now: &BTreeMap<K, V>,
    before: &BTreeMap<K, V>,
    random: &mut Random,
) -> BTreeSet<K> {
    let mut keys: BTreeSet<K> =
        now.keys().filter(|key| !before.contains_key(key)).cloned().collect();
    let old = (0..OLD_ONES_ASKED).filter_map(|_| random.pick(before.keys()).cloned());
    keys.extend(old);
    keys
}

/// Ids that were given to two loads.
fn two_of_one_id(loads: &[Load]) -> Vec<String> {
    let mut seen = BTreeSet::new();
    let ids = loads.iter().flat_map(|load| {
        let clients = load.ledger.clients.keys().map(|id| format!("client {id}"));
        let jobs = load.ledger.jobs.values().map(|job| format!("job {}", job.id));
        let tasks = load.ledger.tasks.keys().map(|id| format!("task {id}"));
        clients
            .chain(jobs)
            .chain(tasks)
            .chain(load.ledger.datasets.keys().map(|id| format!("dataset {id}")))
    });
    ids.filter(|id| !seen.insert(id.clone())).map(|id| format!("{id} was given twice")).collect()
}
