//! The parts of the golden snapshot, in its order.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use rondo_core::control;
use rondo_core::coordination::{
    Arrival, Barrier, BarrierKey, Change, ChangeKind, Dialect, Entry, Head, Kept, Outcome,
    Part as CoordinationPart, Participants, Phase, Relay, Task as CoordinationTask,
};
use rondo_core::dispatcher::{
    BySplit, Client, Compression, Counters, Dataset, DatasetVersions, DepartedReader, Doubt,
    Iteration, IterationSplits, Job, JobParameters, Part, PendingTask, Position, RepetitionRange,
    Repetitions, Restoration, RetiredJob, SavedSplit, ShardingPolicy, SplitRun, SplitSet,
    TargetWorkers, Task, TaskSplits, Worker,
};
use rondo_core::ids::{Digest, Lsn};

use super::values::*;

pub(super) fn all() -> Vec<control::Part> {
    let dispatcher = [
        datasets_and_workers(),
        jobs(),
        iterations(),
        clients_and_tasks(),
        saved(),
        departed_readers(),
        abandoned_and_retired(),
        known_of_what_is_gone(),
        versions(),
        definitions_read(),
        continued_jobs(),
    ];
    let dispatcher = dispatcher.into_iter().flatten().map(control::Part::Dispatcher);
    let coordination = [heads(), tasks(), barriers(), keys(), relays()];
    let coordination = coordination.into_iter().flatten().map(control::Part::Coordination);
    dispatcher.chain(coordination).collect()
}

fn datasets_and_workers() -> Vec<Part> {
    vec![
        Part::Counters(Counters {
            dataset: 1001,
            worker: worker(13),
            job: job(5001),
            iteration: iteration(2003),
            client: client(3001),
            task: task(4002),
        }),
        Part::Dataset(Dataset {
            id: dataset("first"),
            definition: definition_inline(),
            plan: splittable(),
            metadata: metadata(Compression::Snappy, -1),
            compression_disabled: Some(true),
            used: at(1101),
            changed: lsn(202),
        }),
        Part::Dataset(Dataset {
            id: dataset("second"),
            definition: definition_blob(),
            plan: unsplittable(),
            metadata: metadata(Compression::Unspecified, 8),
            compression_disabled: None,
            used: at(1102),
            changed: lsn(203),
        }),
        Part::Worker(Worker {
            id: worker(11),
            address: "worker:1".into(),
            profile: profile(),
            tasks: BTreeSet::new(),
            lost: true,
            changed: lsn(204),
        }),
    ]
}

fn jobs() -> Vec<Part> {
    vec![
        Part::Job(Job {
            id: job(5000),
            first_id: None,
            name: "job".into(),
            dataset: dataset("dataset"),
            sharding: ShardingPolicy::Hint,
            consumers: Some(4),
            use_cross_trainer_cache: true,
            target_workers: TargetWorkers::Any,
            anonymous: false,
            asked: at(1103),
            idle_since: at(1104),
            finished: ranges(),
            departed: BTreeMap::new(),
            abandoned: Repetitions::default(),
            changed: lsn(205),
        }),
        Part::Job(Job {
            id: job(5001),
            first_id: None,
            name: "other".into(),
            dataset: dataset("first"),
            sharding: ShardingPolicy::Off,
            consumers: None,
            use_cross_trainer_cache: false,
            target_workers: TargetWorkers::Unspecified,
            anonymous: true,
            asked: at(1105),
            idle_since: at(1106),
            finished: Repetitions::default(),
            departed: BTreeMap::new(),
            abandoned: Repetitions::default(),
            changed: lsn(206),
        }),
    ]
}

fn runs() -> SplitSet {
    let runs = [(1, 6, 90, 5), (2, 7, 91, 3)];
    let run = |(source, repetition, first, count)| SplitRun { source, repetition, first, count };
    runs.into_iter().map(run).collect()
}

fn iterations() -> Vec<Part> {
    let pending = |id, target_round, failures, ready: &[i64]| PendingTask {
        task: task(id),
        target_round,
        failures,
        ready: ready.iter().copied().map(client).collect(),
    };
    let bare = |id, of, repetition, [changed, splits_changed]: [u64; 2]| Iteration {
        id: iteration(id),
        job: job(of),
        repetition,
        sources: Vec::new(),
        tasks: Vec::new(),
        pending: [].into(),
        clients: BTreeSet::new(),
        last_release: None,
        finished: false,
        collected: false,
        changed: lsn(changed),
        splits_changed: lsn(splits_changed),
        splits: IterationSplits::default(),
        by_split: BySplit::default(),
    };
    let first = Iteration {
        sources: positions(),
        tasks: vec![task(4000), task(4001)],
        pending: [pending(4002, 17, 2, &[3000, 3001]), pending(4003, 18, 1, &[])].into(),
        last_release: Some(at(1107)),
        finished: true,
        splits: IterationSplits {
            unattributed: 301,
            doubt: Doubt { from: 302, upto: 309, count: 4 },
            lost: 303,
            again: runs(),
            tried: Some(8),
            strays: BTreeMap::from([(worker(11), 304), (worker(12), 305)]),
        },
        by_split: BySplit { waiting: places(), held: 0, group_size: Some(2), acknowledged: 306 },
        ..bare(2000, 5000, 6, [207, 208])
    };
    let second = Iteration {
        collected: true,
        splits: IterationSplits { unattributed: 311, lost: 312, ..IterationSplits::default() },
        by_split: BySplit { acknowledged: 307, ..BySplit::default() },
        ..bare(2001, 5001, 7, [209, 210])
    };
    [first, second, bare(2002, 5002, 8, [211, 212])].map(Part::Iteration).to_vec()
}

fn clients_and_tasks() -> Vec<Part> {
    vec![
        Part::Client(Client {
            id: client(3000),
            iteration: iteration(2000),
            acquired: at(1108),
            splits: places(),
            has_held: false,
            changed: lsn(213),
        }),
        Part::Task(Task {
            id: task(4000),
            iteration: iteration(2000),
            worker: worker(11),
            starting_round: 17,
            finished: false,
            splits: TaskSplits { remembered: runs(), forgotten: 321, unattributed_before: 322 },
        }),
        Part::Task(Task {
            id: task(4001),
            iteration: iteration(2001),
            worker: worker(12),
            starting_round: 0,
            finished: true,
            splits: TaskSplits::default(),
        }),
    ]
}

fn saved() -> Vec<Part> {
    vec![
        Part::Position(Position {
            name: "best".into(),
            job: "job".into(),
            dataset: None,
            definition: None,
            saved: at(1109),
            finished: ranges(),
            abandoned: Repetitions::default(),
            reading: vec![saved_repetition()],
            changed: lsn(214),
        }),
        Part::Restoration(Restoration {
            job: "job".into(),
            position: "best".into(),
            dataset: None,
            definition: None,
            finished: ranges(),
            abandoned: Repetitions::default(),
            waiting: vec![saved_repetition()],
            changed: lsn(215),
        }),
    ]
}

fn abandoned_and_retired() -> Vec<Part> {
    let alone = |number| vec![RepetitionRange { first: number, last: number }];
    vec![
        Part::Job(Job {
            id: job(5004),
            first_id: None,
            name: "fourth".into(),
            dataset: dataset("first"),
            sharding: ShardingPolicy::Off,
            consumers: None,
            use_cross_trainer_cache: false,
            target_workers: TargetWorkers::Unspecified,
            anonymous: false,
            asked: at(1113),
            idle_since: rondo_core::time::Time::ZERO,
            finished: Repetitions::default(),
            departed: BTreeMap::new(),
            abandoned: ranges(),
            changed: lsn(219),
        }),
        Part::RetiredJob(RetiredJob {
            name: "freed".into(),
            id: None,
            first_id: None,
            dataset: None,
            definition: None,
            parameters: None,
            finished: ranges(),
            abandoned: Repetitions::of(alone(9)),
            changed: lsn(220),
        }),
    ]
}

/// Parts with the fields that later releases added.
fn known_of_what_is_gone() -> Vec<Part> {
    let left = DepartedReader { left: lsn(228), ..departed(2005, 11, Vec::new()) };
    vec![
        Part::Position(Position {
            name: "given up".into(),
            job: "job".into(),
            dataset: None,
            definition: None,
            saved: at(1114),
            finished: Repetitions::default(),
            abandoned: ranges(),
            reading: Vec::new(),
            changed: lsn(224),
        }),
        Part::Restoration(Restoration {
            job: "job".into(),
            position: "given up".into(),
            dataset: None,
            definition: None,
            finished: Repetitions::default(),
            abandoned: ranges(),
            waiting: Vec::new(),
            changed: lsn(225),
        }),
        Part::RetiredJob(RetiredJob {
            name: "freed again".into(),
            id: None,
            first_id: None,
            dataset: None,
            definition: None,
            parameters: Some(JobParameters {
                sharding: ShardingPolicy::File,
                use_cross_trainer_cache: true,
                target_workers: TargetWorkers::Local,
            }),
            finished: Repetitions::default(),
            abandoned: Repetitions::default(),
            changed: lsn(226),
        }),
        Part::Job(Job {
            id: job(5005),
            first_id: None,
            name: "fifth".into(),
            dataset: dataset("first"),
            sharding: ShardingPolicy::Dynamic,
            consumers: None,
            use_cross_trainer_cache: false,
            target_workers: TargetWorkers::Unspecified,
            anonymous: false,
            asked: at(1115),
            idle_since: rondo_core::time::Time::ZERO,
            finished: Repetitions::default(),
            abandoned: Repetitions::default(),
            departed: BTreeMap::from([(client(3005), left)]),
            changed: lsn(227),
        }),
    ]
}

/// What came with versions of datasets.
fn versions() -> Vec<Part> {
    vec![
        Part::RetiredJob(RetiredJob {
            name: "freed at last".into(),
            id: None,
            first_id: None,
            dataset: Some(dataset("first")),
            definition: None,
            parameters: None,
            finished: Repetitions::default(),
            abandoned: Repetitions::default(),
            changed: lsn(230),
        }),
        Part::DatasetVersions(DatasetVersions {
            name: dataset("first"),
            current: dataset("first@3"),
            later: BTreeSet::from([dataset("first@2"), dataset("first@3")]),
        }),
    ]
}

/// Parts with the digest of the definition that a job or a position read.
fn definitions_read() -> Vec<Part> {
    let definition = Some(Digest::new([7; 32]));
    vec![
        Part::RetiredJob(RetiredJob {
            name: "freed for good".into(),
            id: None,
            first_id: None,
            dataset: Some(dataset("first@2")),
            definition,
            parameters: None,
            finished: Repetitions::default(),
            abandoned: Repetitions::default(),
            changed: lsn(231),
        }),
        Part::Position(Position {
            name: "of a version".into(),
            job: "job".into(),
            dataset: Some(dataset("first@2")),
            definition,
            saved: at(1116),
            finished: Repetitions::default(),
            abandoned: Repetitions::default(),
            reading: Vec::new(),
            changed: lsn(232),
        }),
        Part::Restoration(Restoration {
            job: "job".into(),
            position: "of a version".into(),
            dataset: Some(dataset("first@2")),
            definition,
            finished: Repetitions::default(),
            abandoned: Repetitions::default(),
            waiting: Vec::new(),
            changed: lsn(233),
        }),
    ]
}

/// What came with the numbers of jobs that continue each other.
fn continued_jobs() -> Vec<Part> {
    vec![
        Part::Job(Job {
            id: job(5007),
            first_id: Some(job(5002)),
            name: "sixth".into(),
            dataset: dataset("first"),
            sharding: ShardingPolicy::Off,
            consumers: None,
            use_cross_trainer_cache: false,
            target_workers: TargetWorkers::Unspecified,
            anonymous: false,
            asked: at(1117),
            idle_since: rondo_core::time::Time::ZERO,
            finished: Repetitions::default(),
            abandoned: Repetitions::default(),
            departed: BTreeMap::new(),
            changed: lsn(234),
        }),
        Part::RetiredJob(RetiredJob {
            name: "freed twice".into(),
            id: Some(job(5008)),
            first_id: Some(job(5006)),
            dataset: None,
            definition: None,
            parameters: None,
            finished: Repetitions::default(),
            abandoned: Repetitions::default(),
            changed: lsn(235),
        }),
    ]
}

fn departed(of: i64, repetition: i64, splits: Vec<SavedSplit>) -> DepartedReader {
    DepartedReader { iteration: iteration(of), repetition, splits, left: Lsn::NONE }
}

fn departed_readers() -> Vec<Part> {
    let splits = places().into_iter().map(|(place, records)| SavedSplit { place, records });
    let first = departed(2003, 9, splits.collect());
    let second = departed(2004, 10, Vec::new());
    vec![
        Part::Job(Job {
            id: job(5003),
            first_id: None,
            name: "third".into(),
            dataset: dataset("first"),
            sharding: ShardingPolicy::Dynamic,
            consumers: None,
            use_cross_trainer_cache: false,
            target_workers: TargetWorkers::Unspecified,
            anonymous: false,
            asked: at(1110),
            idle_since: at(1111),
            finished: Repetitions::default(),
            abandoned: Repetitions::default(),
            departed: BTreeMap::from([(client(3002), first), (client(3003), second)]),
            changed: lsn(217),
        }),
        Part::Client(Client {
            id: client(3004),
            iteration: iteration(2002),
            acquired: at(1112),
            splits: BTreeMap::new(),
            has_held: true,
            changed: lsn(218),
        }),
    ]
}

fn heads() -> Vec<CoordinationPart> {
    let first = Head {
        id: namespace(1),
        name: "trainers".into(),
        life: 4,
        incarnation: life(51),
        begun: at(2104),
        size: Some(8),
        version: 401,
        polled: true,
        sticky: Some(shared_fault()),
        revision: revision(402),
        forgotten: revision(403),
        former: BTreeMap::from([(index(3), incarnation(61)), (index(4), incarnation(62))]),
        changed: lsn(216),
        keys_changed: lsn(217),
    };
    let second = Head {
        id: namespace(2),
        name: "others".into(),
        life: 5,
        incarnation: life(52),
        begun: at(2105),
        size: None,
        version: 404,
        polled: false,
        sticky: None,
        revision: revision(405),
        forgotten: revision(406),
        former: BTreeMap::new(),
        changed: lsn(218),
        keys_changed: lsn(219),
    };
    [first, second].map(CoordinationPart::Namespace).to_vec()
}

fn tasks() -> Vec<CoordinationPart> {
    let bare = |number, of, phase, since, changed| CoordinationTask {
        index: index(number),
        incarnation: incarnation(of),
        recoverable: false,
        dialect: Dialect::T,
        phase,
        fault: None,
        since: at(since),
        devices: None,
        changed: lsn(changed),
    };
    let tasks = [
        CoordinationTask { recoverable: true, ..bare(3, 61, Phase::Registering, 2106, 220) },
        CoordinationTask {
            dialect: Dialect::X,
            fault: Some(shared_fault()),
            devices: Some(Bytes::from_static(b"devices")),
            ..bare(4, 62, Phase::Error, 2107, 221)
        },
        CoordinationTask {
            dialect: Dialect::Rondo,
            devices: Some(Bytes::new()),
            ..bare(5, 63, Phase::Connected, 2108, 222)
        },
        bare(6, 64, Phase::Disconnected, 2109, 223),
    ];
    tasks.map(|task| CoordinationPart::Task(namespace(1), task)).to_vec()
}

fn barriers() -> Vec<CoordinationPart> {
    let first = Arrival { at: at(2102), stamp: Some(stamp()) };
    let second = Arrival { at: at(2103), stamp: None };
    let open = Barrier {
        key: BarrierKey::Named("epoch".into()),
        counter: 5,
        participants: Some(Participants::Some([index(3), index(4)].into())),
        opened: at(2101),
        timeout: span(60_000),
        initiator: Some(index(3)),
        arrived: BTreeMap::from([(index(3), first), (index(4), second)]),
        outcome: None,
        changed: lsn(201),
    };
    let failed = Barrier {
        key: BarrierKey::Shutdown,
        counter: 6,
        participants: Some(Participants::All),
        opened: at(2110),
        timeout: span(61_000),
        initiator: Some(index(4)),
        arrived: BTreeMap::new(),
        outcome: Some(Outcome::Failed(shared_fault())),
        changed: lsn(224),
    };
    let passed = Barrier {
        key: BarrierKey::Devices,
        counter: 7,
        participants: None,
        opened: at(2111),
        timeout: span(62_000),
        initiator: None,
        arrived: BTreeMap::new(),
        outcome: Some(Outcome::Passed),
        changed: lsn(225),
    };
    let part = |barrier| CoordinationPart::Barrier(namespace(1), barrier);
    [open, failed, passed].map(part).to_vec()
}

fn keys() -> Vec<CoordinationPart> {
    let leased = Entry {
        key: "a/b".into(),
        value: inline(),
        revision: revision(407),
        lease: Some(index(3)),
        changed: lsn(226),
    };
    let plain = Entry {
        key: "a/c".into(),
        value: blob(),
        revision: revision(408),
        lease: None,
        changed: lsn(227),
    };
    let change = |key: &str, kind, at| Change { key: key.into(), kind, revision: revision(at) };
    let changes = [
        change("a/b", ChangeKind::Put(inline()), 409),
        change("a/d", ChangeKind::Deleted, 410),
        change("a", ChangeKind::DeletedWithAllUnder, 411),
    ];
    let entries = [leased, plain].map(|entry| CoordinationPart::Key(namespace(1), entry));
    let changes = changes.map(|change| CoordinationPart::Change(namespace(1), change));
    entries.into_iter().chain(changes).collect()
}

fn relays() -> Vec<CoordinationPart> {
    let results = BTreeMap::from([(73, Kept::Put(revision(81))), (78, Kept::Done)]);
    let known = Relay { acknowledged: 72, results, alive: BTreeMap::new() };
    vec![
        CoordinationPart::Relay(namespace(1), relay(71), known),
        CoordinationPart::Alive(namespace(1), alive_answer()),
    ]
}
