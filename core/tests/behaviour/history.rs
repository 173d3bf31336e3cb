//! Random histories, drawn small so that things collide.

use proptest::prelude::*;
use proptest::sample::select;

use rondo_core::dispatcher::Group;

use crate::happening::{At, Happening, Round, Tasks};

fn at() -> impl Strategy<Value = At> {
    any::<u64>().prop_map(At)
}

fn round() -> impl Strategy<Value = Round> {
    prop_oneof![
        2 => Just(Round::Absent),
        6 => (-2_i64..2).prop_map(Round::NearTarget),
        1 => select(vec![0, 1, 7, -3, i64::MAX]).prop_map(Round::At),
    ]
}

fn tasks() -> impl Strategy<Value = Tasks> {
    prop_oneof![
        3 => Just(Tasks::Right),
        2 => Just(Tasks::None),
        1 => prop::collection::vec(at(), 0..4).prop_map(Tasks::Some),
    ]
}

fn clients_and_jobs() -> impl Strategy<Value = Happening> {
    let names = || select(vec![None, None, Some("one"), Some("two")]);
    let consumers = select(vec![None, None, None, Some(1), Some(2), Some(2), Some(0)]);
    let job = (at(), 0_u8..8, names(), any::<bool>(), consumers, prop::bool::weighted(0.1));
    prop_oneof![
        2 => job.prop_map(|(dataset, sharding, name, same_dataset, consumers, cached)| {
            Happening::Job { dataset, sharding, name, same_dataset, consumers, cached }
        }),
        5 => (at(), select(vec![0, 0, 0, 1, -1]))
            .prop_map(|(job, repetition)| Happening::Join { job, repetition }),
        10 => (at(), round(), round())
            .prop_map(|(client, current, blocked)| Happening::Client { client, current, blocked }),
        2 => at().prop_map(|client| Happening::Release { client }),
    ]
}

fn datasets() -> impl Strategy<Value = Happening> {
    let wished = select(vec![None, None, Some("a"), Some("1001")]);
    let bools = (prop::bool::weighted(0.8), prop::bool::weighted(0.4));
    let register = (wished, 0_u8..7, select(vec![0_u8, 0, 0, 1]), bools);
    let job = select(vec![None, Some("one"), Some("two")]);
    let position = select(vec![None, None, Some("p")]);
    prop_oneof![
        2 => register.prop_map(|(wished, content, structure, (compressed, replaces))| {
            Happening::Register { wished, content, structure, compressed, replaces }
        }),
        1 => (at(), job, position).prop_map(|(dataset, job, position)| {
            Happening::Version { dataset, job, position }
        }),
        1 => (at(), 0_u8..4).prop_map(|(dataset, what)| Happening::Read { dataset, what }),
    ]
}

fn work() -> impl Strategy<Value = Happening> {
    let address = select(vec!["w0:1", "w1:1", "w1:2", "w2:1"]);
    let worker = (address, tasks(), select(vec![1_i64, 1, -1, 2, -1]));
    let update = prop::collection::vec((at(), prop::bool::weighted(0.7)), 0..6);
    let split = (
        at(),
        select(vec![0_i64, 0, 0, 0, 1, 2, -1, i64::MAX]),
        select(vec![0_i64, 0, 0, 1, 2]),
        select(vec![None, Some("w0:1"), Some("w1:1"), Some("w1:1"), Some("w2:1")]),
    );
    let removal = (at(), 0_i64..3, select(vec![5_i64, 5, 5, 6]));
    prop_oneof![
        6 => worker.prop_map(|(address, tasks, uid)| Happening::Worker { address, tasks, uid }),
        2 => update.prop_map(|tasks| Happening::Update { tasks }),
        8 => split.prop_map(|(iteration, repetition, source, asker)| Happening::Split {
            iteration, repetition, source, asker,
        }),
        4 => removal.prop_map(|(task, consumer, round)| Happening::Remove {
            task, consumer, round,
        }),
        1 => at().prop_map(|call| Happening::Cancel { call }),
        1 => Just(Happening::Workers),
    ]
}

fn holding() -> impl Strategy<Value = Happening> {
    let group = |index, size| Group { index, size };
    let groups =
        select(vec![Group::ALL, Group::ALL, Group::ALL, group(0, 2), group(1, 2), group(2, 3)]);
    let progress = prop::collection::vec((at(), 0_u64..4, any::<bool>()), 0..4);
    let held = (at(), select(vec![0_usize, 1, 1, 2, 3, 5]), progress, groups);
    let held = held.prop_map(|(client, hold, progress, group)| Happening::Hold {
        client,
        hold,
        progress,
        group,
    });
    let ended = (at(), select(vec!["one", "one", "two"]));
    let ended = ended.prop_map(|(client, job)| Happening::EndReader { client, job });
    prop_oneof![8 => held, 1 => ended]
}

fn positions() -> impl Strategy<Value = Happening> {
    let name = || select(vec!["p", "p", "q"]);
    let job = || select(vec!["one", "one", "two"]);
    prop_oneof![
        3 => (name(), job()).prop_map(|(name, job)| Happening::Save { name, job }),
        3 => (name(), job(), prop::option::of(at())).prop_map(|(name, job, wanted)| {
            Happening::Restore { name, job, wanted }
        }),
        1 => name().prop_map(|name| Happening::Delete { name }),
        1 => Just(Happening::Positions),
    ]
}

fn deletions() -> impl Strategy<Value = Happening> {
    let address = select(vec!["w0:1", "w1:1", "w1:2", "w2:1"]);
    prop_oneof![
        2 => select(vec!["one", "one", "two"]).prop_map(|name| Happening::DeleteJob { name }),
        2 => at().prop_map(|dataset| Happening::DeleteDataset { dataset }),
        3 => address.prop_map(|address| Happening::RemoveWorker { address }),
    ]
}

/// What makes jobs come to an end and begin again.
fn epochs() -> impl Strategy<Value = Happening> {
    let every_task = prop::collection::vec((at(), Just(true)), 12);
    prop_oneof![
        2 => every_task.prop_map(|tasks| Happening::Update { tasks }),
        1 => Just(Happening::Advance { millis: 31_000 }),
        2 => at().prop_map(|job| Happening::Join { job, repetition: 0 }),
    ]
}

fn weather() -> impl Strategy<Value = Happening> {
    prop_oneof![
        6 => select(vec![0, 10, 1_000, 6_000, 11_000, 31_000, 61_000, 71_000, 121_000])
            .prop_map(|millis| Happening::Advance { millis }),
        4 => select(vec![10, 1_000, 6_000, 11_000, 61_000])
            .prop_map(|millis| Happening::Wait { millis }),
        4 => at().prop_map(|upto| Happening::Sync { upto }),
        3 => (0_u8..6).prop_map(|kind| Happening::Journal { kind }),
        2 => Just(Happening::MakeRoom),
        2 => at().prop_map(|upto| Happening::Crash { upto }),
        1 => at().prop_map(|upto| Happening::FailSync { upto }),
    ]
}

/// A history. Most begin with something to work on.
pub(crate) fn history() -> impl Strategy<Value = Vec<Happening>> {
    let happening = prop_oneof![
        1 => datasets(),
        5 => clients_and_jobs(),
        6 => work(),
        4 => holding(),
        3 => weather(),
        1 => positions(),
        1 => epochs(),
        1 => deletions(),
    ];
    let rest = prop::collection::vec(happening, 0..90);
    let beginning = prop_oneof![
        9 => beginning(),
        3 => bereavement(),
        1 => retirement(),
        1 => rounds_of_splits(),
    ];
    (beginning, rest).prop_map(|(mut history, rest)| {
        history.extend(rest);
        history
    })
}

fn register(wished: Option<&'static str>, content: u8) -> Happening {
    Happening::Register { wished, content, structure: 0, compressed: true, replaces: false }
}

fn job(dataset: At, sharding: u8, name: Option<&'static str>, consumers: Option<i64>) -> Happening {
    Happening::Job { dataset, sharding, name, same_dataset: false, consumers, cached: false }
}

/// One of two workers takes splits and falls silent, the other may have finished by then.
fn bereavement() -> impl Strategy<Value = Vec<Happening>> {
    let worker = |address| Happening::Worker { address, tasks: Tasks::Right, uid: 1 };
    let wait = |millis| Happening::Wait { millis };
    prop::collection::vec(at(), 5).prop_map(move |at| {
        let split = |asker| Happening::Split {
            iteration: at[0],
            repetition: 0,
            source: 0,
            asker: Some(asker),
        };
        let mut history = vec![register(None, 0), job(at[1], 1, None, None)];
        for _ in 0..3 {
            history.extend([worker("w0:1"), worker("w1:1"), wait(1_000)]);
        }
        history.extend([
            Happening::Join { job: at[2], repetition: 0 },
            split("w1:1"),
            split("w0:1"),
            split("w1:1"),
            Happening::Update { tasks: vec![(at[3], true)] },
            wait(6_000),
            worker("w0:1"),
            wait(6_000),
            Happening::Update { tasks: vec![(at[4], true)] },
        ]);
        history
    })
}

/// Consumers read by rounds what workers read by split; some callers of those leave.
fn rounds_of_splits() -> impl Strategy<Value = Vec<Happening>> {
    let worker = |address| Happening::Worker { address, tasks: Tasks::Right, uid: 1 };
    let happening = prop_oneof![
        6 => (at(), select(vec!["w0:1", "w1:1"])).prop_map(|(iteration, asker)| {
            Happening::Split { iteration, repetition: 0, source: 0, asker: Some(asker) }
        }),
        3 => at().prop_map(|call| Happening::Cancel { call }),
        2 => at().prop_map(|task| Happening::Update { tasks: vec![(task, true)] }),
        2 => select(vec!["w0:1", "w1:1", "w2:1"]).prop_map(worker),
        4 => (at(), round(), round())
            .prop_map(|(client, current, blocked)| Happening::Client { client, current, blocked }),
        1 => select(vec![1_000, 11_000]).prop_map(|millis| Happening::Wait { millis }),
        1 => Just(Happening::Journal { kind: 2 }),
    ];
    let rest = prop::collection::vec(happening, 0..30);
    (prop::collection::vec(at(), 3), rest).prop_map(move |(at, rest)| {
        let mut history = vec![
            register(None, 0),
            worker("w0:1"),
            worker("w1:1"),
            job(at[0], 1, None, Some(2)),
            Happening::Join { job: at[1], repetition: 0 },
            Happening::Join { job: at[2], repetition: 0 },
            Happening::Journal { kind: 2 },
        ];
        history.extend(rest);
        history
    })
}

/// A named job is read to its end or left, freed, and asked for again.
fn retirement() -> impl Strategy<Value = Vec<Happening>> {
    let job = |at| job(at, 1, Some("one"), None);
    let wait = |millis| Happening::Wait { millis };
    (any::<bool>(), prop::collection::vec(at(), 3)).prop_map(move |(is_read, at)| {
        let mut history = vec![
            register(Some("a"), 0),
            Happening::Worker { address: "w0:1", tasks: Tasks::None, uid: 1 },
            job(at[0]),
            Happening::Join { job: at[1], repetition: 0 },
        ];
        if is_read {
            history.push(Happening::Update { tasks: vec![(at[2], true)] });
        }
        history.extend([Happening::Release { client: At(0) }, Happening::Sync { upto: At(0) }]);
        history.extend([wait(61_000), wait(61_000), wait(61_000), job(At(0))]);
        history.push(Happening::Join { job: At(0), repetition: 0 });
        history
    })
}

fn beginning() -> impl Strategy<Value = Vec<Happening>> {
    let worker = |address| Happening::Worker { address, tasks: Tasks::None, uid: 1 };
    let join = |job| Happening::Join { job, repetition: 0 };
    let indexes = prop::collection::vec(at(), 5);
    let begins = (any::<bool>(), prop::bool::weighted(0.8));
    let content = select(vec![0_u8, 1, 2, 3, 4, 0, 1, 2, 3, 4, 5, 6, 6, 6]);
    (begins, content, indexes).prop_map(move |((named, begin), content, at)| {
        if !begin {
            return Vec::new();
        }
        vec![
            register(None, content),
            worker("w0:1"),
            job(at[0], 1, named.then_some("one"), None),
            job(at[1], 0, None, Some(2)),
            join(at[2]),
            join(at[3]),
            join(at[4]),
            worker("w1:1"),
            Happening::Wait { millis: 1_000 },
            worker("w1:1"),
            Happening::Wait { millis: 1_000 },
            worker("w1:1"),
        ]
    })
}
