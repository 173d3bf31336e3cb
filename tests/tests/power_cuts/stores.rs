//! Both stores by themselves, under everything that a node does with one.

use std::collections::BTreeMap;
use std::env;
use std::io::BufRead;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use rondo::store::Store;
use rondo_core::ids::Lsn;
use rondo_core::journal::{End, GroupHeader, Scan, Verdict};
use rondo_proto::frame;
use rondo_tests::process::Process;
use rondo_tests::random::{self, Random};
use rondo_tests::recorder::disk::{Disk, Kept};
use rondo_tests::recorder::states::{Promises, States};
use rondo_tests::recorder::strace::{self, finished};
use rondo_tests::recorder::trace::{Moment, parse};
use tokio::runtime::Runtime;

use super::driver::{Content, NEEDLE_BEGIN, REOPENED_SLED, TOLD_BY, open};

/// Where the first lives make few states, others follow.
const LIVES_MAX: u64 = 6;
const PATIENCE: Duration = Duration::from_secs(120);
/// After one start in so many, the store is worked with and opened once more.
const WORKED_WITH_ONE_IN: u64 = 8;

#[test]
fn segment_keeps_its_word_whenever_the_power_goes() {
    keeps_its_word(Work {
        kind: "segment",
        steps: 110,
        looked_at: 2500,
        draws: 5,
        lives_min: 2,
        states_min: 1000,
        records_min: 50,
    });
}

#[test]
fn sled_keeps_its_word_whenever_the_power_goes() {
    keeps_its_word(Work {
        kind: "sled",
        steps: 45,
        looked_at: 850,
        draws: 3,
        lives_min: 2,
        states_min: 1000,
        records_min: 50,
    });
}

/// sled changes its log when it opens it: here that is most of what it does.
#[test]
fn sled_keeps_its_word_whenever_the_power_goes_while_it_opens() {
    keeps_its_word(Work {
        kind: REOPENED_SLED,
        steps: 8,
        looked_at: u64::MAX,
        draws: 1,
        lives_min: 6,
        states_min: 500,
        records_min: 5,
    });
}

/// The work that the test records, and how closely the test looks at its states.
struct Work {
    kind: &'static str,
    /// Of each life; at most so many, if sled is opened again and again.
    steps: u64,
    /// States of each life.
    looked_at: u64,
    /// States drawn by chance at each moment.
    draws: u64,
    lives_min: u64,
    /// States that must be checked, all different.
    states_min: u64,
    /// Records that must be promised.
    records_min: u64,
}

fn keeps_its_word(
    Work { kind, steps, looked_at, draws, lives_min, states_min, records_min }: Work,
) {
    let Some(strace) = strace::strace() else {
        return;
    };
    let (seed, began) = (random::seed(), Instant::now());
    let folder = tempfile::tempdir().unwrap();
    let [dir, said] = ["journal", "promises"].map(|name| folder.path().join(name));
    let mut disk = Disk::empty(&dir);
    std::fs::create_dir(&dir).unwrap();
    let mut states = States::new(looked_at, draws, seed);
    let mut store = StorePromises::new(kind, said.clone(), seed);
    for life in 1..=LIVES_MAX {
        if life > lives_min && states.checked >= states_min {
            break;
        }
        let trace = folder.path().join(format!("trace{life}"));
        let words = strace.words(&trace);
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).arg(env::current_exe().unwrap());
        command.args(["--exact", "driver::a_store_at_work", "--ignored", "--nocapture"]);
        let told = [kind, dir.to_str().unwrap(), said.to_str().unwrap()];
        command.env(TOLD_BY, format!("{} {life} {seed} {steps}", told.join(" ")));
        let mut process = Process::start("the driver of a store", &mut command);
        let ended = process.wait(PATIENCE);
        assert!(ended.status.success(), "{}", ended.log);
        let calls = parse(&finished(&trace, process.id()));
        let followed = states.follow(&calls, &mut disk, &mut store);
        followed.unwrap_or_else(|error| panic!("{kind}, life {life}: {error}"));
        disk.process_ended()
            .unwrap_or_else(|error| panic!("{kind} does more than is seen: {error}"));
    }
    let States { candidates, checked, .. } = states;
    let StorePromises { durable, worked_with, .. } = store;
    println!(
        "{kind}: {durable} records promised, {checked} of {candidates} states checked, \
         {worked_with} worked with, {:?}",
        began.elapsed()
    );
    assert!(checked >= states_min, "only {checked} states");
    assert!(
        durable > records_min && worked_with > 50,
        "{durable} records, {worked_with} worked with"
    );
}

/// What the driver said.
struct StorePromises {
    kind: &'static str,
    said: PathBuf,
    runtime: Runtime,
    random: Random,
    /// What each record may be.
    begun: BTreeMap<u64, Vec<Content>>,
    /// Records up to this one are promised, each as it was begun last.
    durable: u64,
    /// Records before this one are in what stands for a snapshot.
    start: u64,
    worked_with: u64,
}

impl Promises for StorePromises {
    fn take(&mut self, moment: Moment<'_>, disk: &Disk) -> Result<bool, String> {
        let Moment::Begins(call) = moment else {
            return Ok(false);
        };
        let argument = call.arguments.first();
        let path = argument.and_then(|argument| argument.descriptor()).map(Path::new);
        if call.name != "write" || path != Some(&self.said) {
            return Ok(false);
        }
        let text = call.arguments[1].text();
        let words: Vec<&str> = text.split_whitespace().collect();
        let numbers: Vec<u64> = words[1..].iter().map(|word| word.parse().unwrap()).collect();
        match (words[0], &numbers[..]) {
            ("begun", [lsn, life, generation, bytes]) => {
                let content =
                    Content { lsn: *lsn, life: *life, generation: *generation, bytes: *bytes };
                self.begun.entry(*lsn).or_default().push(content);
                return Ok(false);
            }
            ("durable", [upto]) => {
                if *upto < self.durable {
                    return Err(format!("record {} was promised and is lost", self.durable));
                }
                let new = self.durable + 1..=*upto;
                self.durable = *upto;
                return self.check_order(new, disk).map(|()| true);
            }
            ("removing", [next]) => self.start = *next,
            ("cut", [from]) => drop(self.begun.split_off(from)),
            _ => panic!("{text}"),
        }
        Ok(true)
    }

    fn check(&mut self, folder: &Path) -> Result<(), String> {
        let is_worked_with = self.random.one_in(WORKED_WITH_ONE_IN);
        self.worked_with += u64::from(is_worked_with);
        let _ = std::fs::create_dir_all(folder);
        self.runtime.block_on(async {
            let mut store = open(self.kind, folder).await?;
            let end = self.read(&*store).await?;
            if !is_worked_with {
                return Ok(());
            }
            store.truncate(end.next).await.map_err(|error| error.to_string())?;
            let added = Content { lsn: end.next.get(), life: 0, generation: 0, bytes: 100 };
            let header = GroupHeader { first: end.next, count: 1, durable_upto: Lsn::NONE };
            let group = frame::encode(&header, &added.payload()).unwrap();
            store.append(end.next, group).await.map_err(|error| error.to_string())?;
            store.sync().await.map_err(|error| error.to_string())?;
            drop(store);
            let store = open(self.kind, folder).await?;
            let mut with_added = self.begun.clone();
            with_added.insert(added.lsn, vec![added]);
            let again = read(&*store, self.start, &with_added).await?;
            match again.next == end.next.next() {
                true => Ok(()),
                false => Err(format!("record {} was added and is lost", end.next)),
            }
        })
    }
}

impl StorePromises {
    fn new(kind: &'static str, said: PathBuf, seed: u64) -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.expect("a thread can have a runtime");
        let (random, begun) = (Random::new(seed), BTreeMap::new());
        Self { kind, said, runtime, random, begun, durable: 0, start: 1, worked_with: 0 }
    }

    /// Looks for records that are promised in what is durable, byte for byte and without the store.
    fn check_order(&self, new: impl Iterator<Item = u64>, disk: &Disk) -> Result<(), String> {
        let tree = disk.left(Kept::Synced);
        for lsn in new {
            let content = self.begun[&lsn].last().expect("it was begun");
            let needle = content.needle();
            let is_there = tree.values().flatten().any(|bytes| contains(bytes, &needle));
            if !is_there {
                return Err(format!("record {lsn} is promised and in no file that is durable"));
            }
        }
        Ok(())
    }

    async fn read(&self, store: &dyn Store) -> Result<End, String> {
        let end = read(store, self.start, &self.begun).await?;
        if end.next.get() <= self.durable {
            return Err(format!("record {} was promised and is lost", end.next));
        }
        Ok(end)
    }
}

/// Recovers as a node does, and compares what is found with what may be there.
async fn read(
    store: &dyn Store,
    start: u64,
    begun: &BTreeMap<u64, Vec<Content>>,
) -> Result<End, String> {
    let mut scan = Scan::starting_at(Lsn::new(start));
    for segment in store.segments() {
        scan.segment(segment.first);
        let found = store.read(segment.first).await.map_err(|error| error.to_string())?;
        for found in found {
            let Ok(frame) = found.frame else {
                scan.damaged(&found.place, &found.frame.unwrap_err());
                continue;
            };
            let (header, payload) = frame::decode(&frame).map_err(|error| error.to_string())?;
            let verdict = scan.group(&header, &found.place).map_err(|error| error.to_string())?;
            if verdict == Verdict::Skip {
                continue;
            }
            let allowed = begun.get(&header.first.get()).and_then(|contents| contents.last());
            if allowed.is_none_or(|content| content.payload() != payload) {
                return Err(format!("record {} is not what was written", header.first));
            }
        }
    }
    scan.finish().map_err(|error| error.to_string())
}

/// Whether the bytes hold the needle, which begins with [`NEEDLE_BEGIN`].
fn contains(mut bytes: &[u8], needle: &[u8]) -> bool {
    while bytes.skip_until(NEEDLE_BEGIN).is_ok_and(|skipped| skipped > 0) {
        if bytes.starts_with(&needle[1..]) {
            return true;
        }
    }
    false
}
