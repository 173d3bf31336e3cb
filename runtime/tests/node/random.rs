//! Random calls and random ends: whatever was acknowledged is found by every later node.

use std::sync::{Arc, Mutex};

use bytes::Bytes;
use proptest::prelude::*;
use rondo::node::RunningNode;
use rondo::store::StoreKind;
use rondo_core::dispatcher::Report;
use rondo_core::ids::{ClientId, IterationId, JobId};

use super::calls::{client_heartbeat, job, join, register, report, split, worker_heartbeat};
use super::model_disk::{Left, ModelDisk};
use super::world::{Life, World};

/// One call; numbers choose among few, so that calls meet each other.
#[derive(Clone, Debug)]
enum Call {
    Register(u8, usize),
    Worker(u8),
    Job(u8),
    Join,
    Split,
}

/// How a life ends.
#[derive(Clone, Copy, Debug)]
enum End {
    Stop,
    /// The process dies.
    Crash,
    /// The computer loses power, where the disk can show that.
    PowerCut(u64),
}

/// Calls made one after the other, then some at once, and turns of the node until the end.
#[derive(Clone, Debug)]
struct Plan {
    calls: Vec<Call>,
    at_once: Vec<Call>,
    turns: usize,
    end: End,
}

fn call() -> impl Strategy<Value = Call> {
    prop_oneof![
        1 => (0_u8..4, prop_oneof![Just(10_usize), Just(70_000)])
            .prop_map(|(n, size)| Call::Register(n, size)),
        1 => (0_u8..4).prop_map(Call::Worker),
        3 => any::<u8>().prop_map(Call::Job),
        2 => Just(Call::Join),
        5 => Just(Call::Split),
    ]
}

fn plan() -> impl Strategy<Value = Plan> {
    let end = prop_oneof![
        1 => Just(End::Stop),
        2 => Just(End::Crash),
        2 => any::<u64>().prop_map(End::PowerCut),
    ];
    let calls = || prop::collection::vec(call(), 0..20);
    (calls(), calls(), 0_usize..200, end).prop_map(|(calls, at_once, turns, end)| Plan {
        calls,
        at_once,
        turns,
        end,
    })
}

/// What was acknowledged.
#[derive(Debug, Default)]
struct Acknowledged {
    jobs: Vec<(String, JobId)>,
    datasets: Vec<String>,
    workers: Vec<String>,
    clients: Vec<ClientId>,
    splits: Vec<i64>,
}

type Ledger = Arc<Mutex<Acknowledged>>;

async fn perform(node: &RunningNode, what: Call, ledger: &Ledger) {
    match what {
        Call::Register(n, size) => {
            let bytes = Bytes::from(vec![n; size]);
            let id = register(node, &format!("dataset {n} {size}"), bytes, 9).await.unwrap();
            ledger.lock().unwrap().datasets.push(id.to_string());
        }
        Call::Worker(n) => {
            let address = format!("worker{n}:1");
            worker_heartbeat(node, &address, Vec::new()).await.unwrap();
            ledger.lock().unwrap().workers.push(address);
        }
        Call::Job(n) => {
            let name = format!("job {n}");
            let id = job(node, &name).await.unwrap();
            ledger.lock().unwrap().jobs.push((name, id));
        }
        Call::Join => {
            let main = job(node, "main").await.unwrap();
            let client = join(node, main).await.unwrap();
            ledger.lock().unwrap().clients.push(client);
        }
        Call::Split => {
            let given = split(node, IterationId::new(MAIN_ITERATION)).await.unwrap();
            ledger.lock().unwrap().splits.push(given.unwrap());
        }
    }
}

/// The iteration that splits are asked of.
const MAIN_ITERATION: i64 = 2000;

async fn set_up(node: &RunningNode) {
    register(node, "data", Bytes::from_static(b"graph"), i64::MAX).await.unwrap();
    worker_heartbeat(node, "worker:1", Vec::new()).await.unwrap();
    let main = job(node, "main").await.unwrap();
    let client = join(node, main).await.unwrap();
    let tasks = client_heartbeat(node, client).await.unwrap().tasks;
    assert_eq!(tasks[0].iteration.get(), MAIN_ITERATION);
}

fn check(found: &Report, acknowledged: &Acknowledged, in_flight: usize) {
    for (name, id) in &acknowledged.jobs {
        let named = found.jobs.iter().filter(|job| job.name == *name);
        let ids: Vec<_> = named.map(|job| job.id).collect();
        assert_eq!(ids, [id.get()], "{name}");
    }
    for id in &acknowledged.datasets {
        assert!(found.datasets.iter().any(|dataset| dataset.id == *id), "{id}");
    }
    for address in &acknowledged.workers {
        assert!(found.workers.iter().any(|worker| worker.address == *address), "{address}");
    }
    for id in &acknowledged.clients {
        assert!(found.clients.iter().any(|client| client.id == id.get()), "client {id}");
    }
    let main = found.iterations.iter().find(|it| it.id == MAIN_ITERATION).unwrap();
    let (given, produced) = (acknowledged.splits.len(), main.sources[0].produced as usize);
    assert!((given..=given + in_flight).contains(&produced), "{produced} splits, {given} given");
    let mut splits = acknowledged.splits.clone();
    splits.sort_unstable();
    assert!(splits.windows(2).all(|pair| pair[0] < pair[1]), "a split was given twice");
}

/// Where the lives are led.
enum Place {
    Real(Box<World>),
    Model(ModelDisk),
}

impl Place {
    fn begin(&self) -> Life {
        match self {
            Self::Real(world) => Life::begin(world),
            Self::Model(disk) => Life::begin(&small(World::model(disk))),
        }
    }

    fn end(&mut self, life: Life, end: End) {
        match end {
            End::Stop => life.stop(),
            End::Crash | End::PowerCut(_) => life.crash(),
        }
        if let Self::Model(disk) = self {
            *disk = disk.after_the_cut(match end {
                End::Stop | End::Crash => Left::Everything,
                End::PowerCut(seed) => Left::Some(seed),
            });
        }
    }
}

fn lead(mut place: Place, plans: &[Plan]) {
    let life = place.begin();
    life.run(set_up(&life.node));
    place.end(life, End::Stop);
    let ledger = Ledger::default();
    let mut in_flight = 0;
    for plan in plans {
        let life = place.begin();
        let found = life.run(report(&life.node)).unwrap();
        check(&found, &ledger.lock().unwrap(), in_flight);
        life.run(async {
            for what in &plan.calls {
                perform(&life.node, what.clone(), &ledger).await;
            }
            for what in plan.at_once.iter().cloned() {
                let (node, ledger) = (Arc::clone(&life.node), Arc::clone(&ledger));
                tokio::spawn(async move { perform(&node, what, &ledger).await });
            }
            for _ in 0..plan.turns {
                tokio::task::yield_now().await;
            }
        });
        in_flight += plan.at_once.len();
        place.end(life, plan.end);
    }
    let life = place.begin();
    let found = life.run(report(&life.node)).unwrap();
    check(&found, &ledger.lock().unwrap(), in_flight);
}

/// A snapshot every few calls.
fn small(mut world: World) -> World {
    world.store.segment_bytes_max = 2 << 10;
    world.store.preallocate_bytes = 1 << 10;
    world
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]
    #[test]
    fn on_sled(plans in prop::collection::vec(plan(), 1..5)) {
        lead(Place::Real(Box::new(small(World::new(StoreKind::Sled)))), &plans);
    }

    #[test]
    fn on_plain_files(plans in prop::collection::vec(plan(), 1..6)) {
        lead(Place::Real(Box::new(small(World::new(StoreKind::Segment)))), &plans);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn on_a_disk_that_loses_power(plans in prop::collection::vec(plan(), 1..8)) {
        lead(Place::Model(ModelDisk::new()), &plans);
    }
}
