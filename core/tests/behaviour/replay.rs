//! Replay of records that no dispatcher wrote: each is taken whole or refused without a trace.

use proptest::prelude::*;
use proptest::sample::select;
use rondo_core::dispatcher::{
    Record, RepetitionRange, Repetitions, SavedRepetition, SavedSplit, ShardingPolicy,
    SourcePosition, SplitProgress, State, TargetWorkers, WorkerProfile,
};
use rondo_core::ids::{ClientId, DatasetId, IterationId, JobId, Lsn, TaskId, WorkerId};
use rondo_core::time::Time;

use crate::world::{dataset, dataset_named};
use rondo_core::dispatcher::SplitSource;

fn id() -> impl Strategy<Value = i64> + Clone {
    select(vec![0, 1, 2, 3, i64::MAX])
}

fn things() -> impl Strategy<Value = Record> {
    let job = (id(), select(vec!["one", "two"]), select(vec![None, Some(1), Some(2)]));
    let profile = |uid| WorkerProfile { uid, ..WorkerProfile::default() };
    prop_oneof![
        select(vec!["a", "1000"]).prop_map(|id| {
            let registered = dataset_named(id);
            Record::RegisterDataset {
                id: DatasetId::new(id),
                definition: registered.definition,
                plan: dataset(&[]).plan,
                metadata: registered.metadata,
                at: Time::ZERO,
            }
        }),
        (select(vec!["a", "b"]), select(vec!["a@1", "b@2", "a"])).prop_map(|(of, id)| {
            let registered = dataset_named(of);
            Record::ReplaceDataset {
                name: DatasetId::new(of),
                id: DatasetId::new(id),
                at: Time::ZERO,
                definition: registered.definition,
                plan: dataset(&[]).plan,
                metadata: registered.metadata,
            }
        }),
        select(vec!["a", "b"])
            .prop_map(|id| Record::DecideCompression { id: DatasetId::new(id), disabled: true }),
        (id(), select(vec!["w:1", "w:2"])).prop_map(move |(id, address)| Record::RegisterWorker {
            id: WorkerId::new(id),
            address: address.into(),
            profile: profile(id),
        }),
        id().prop_map(move |id| Record::UpdateWorker {
            id: WorkerId::new(id),
            profile: profile(7)
        }),
        job.prop_map(|(id, name, consumers)| Record::CreateJob {
            id: JobId::new(id),
            name: name.into(),
            dataset: DatasetId::new("a"),
            sharding: ShardingPolicy::Dynamic,
            consumers,
            use_cross_trainer_cache: false,
            target_workers: TargetWorkers::Auto,
            anonymous: id == 1,
            at: Time::ZERO,
        }),
    ]
}

fn iterations() -> impl Strategy<Value = Record> {
    prop_oneof![
        1 => (id(), id(), 0_i64..2).prop_map(|(id, job, repetition)| Record::CreateIteration {
            id: IterationId::new(id),
            job: JobId::new(job),
            repetition,
            sources: vec![SplitSource::counting(2)],
        }),
        1 => (id(), id()).prop_map(|(id, iteration)| Record::AcquireClient {
            id: ClientId::new(id),
            iteration: IterationId::new(iteration),
            at: Time::ZERO,
        }),
        1 => id().prop_map(|id| Record::ReleaseClient { id: ClientId::new(id), at: Time::ZERO }),
        1 => (id(), 0_u32..3, id(), any::<bool>(), proptest::option::of(id())).prop_map(
            |(id, source, repetition, finished, task)| Record::ProduceSplit {
                iteration: IterationId::new(id),
                source,
                repetition,
                finished,
                task: task.map(TaskId::new),
            }
        ),
        1 => (id(), 0_u32..3, id(), proptest::option::of(id())).prop_map(
            |(id, source, repetition, task)| Record::RepeatSplit {
                iteration: IterationId::new(id),
                source,
                repetition,
                task: task.map(TaskId::new),
            }
        ),
        1 => (id(), 0_u32..2, 0_i64..2, 0_u64..3, proptest::option::of(id())).prop_map(
            |(id, source, repetition, place, task)| Record::TakeBackSplit {
                iteration: IterationId::new(id),
                source,
                repetition,
                place,
                task: task.map(TaskId::new),
            }
        ),
        5 => abandoning(),
        1 => (id(), id()).prop_map(|(id, job)| Record::CreateFinishedIteration {
            id: IterationId::new(id),
            job: JobId::new(job),
            repetition: 1,
        }),
        1 => (id(), id(), 0_i64..2).prop_map(|(id, job, repetition)| Record::ResumeIteration {
            id: IterationId::new(id),
            job: JobId::new(job),
            repetition,
            sources: vec![SourcePosition {
                source: SplitSource::counting(3),
                repetition: 0,
                index: 2,
            }],
            waiting: vec![SavedSplit { place: 1, records: 2 }],
        }),
    ]
}

fn abandoning() -> impl Strategy<Value = Record> {
    prop_oneof![
        id().prop_map(|id| Record::CollectIteration { id: IterationId::new(id), at: Time::ZERO }),
        id().prop_map(|id| Record::AbandonIteration { id: IterationId::new(id), at: Time::ZERO }),
        id().prop_map(|id| Record::RetireJob { id: JobId::new(id), at: Time::ZERO }),
        id().prop_map(|id| Record::FreeWorker { id: WorkerId::new(id) }),
        select(vec!["one", "two"])
            .prop_map(|name| Record::DeleteJob { name: name.into(), at: Time::ZERO }),
        (-1_i64..3).prop_map(|above| Record::RaiseIds { above }),
    ]
}

fn by_split() -> impl Strategy<Value = Record> {
    let progress = (0_u64..3, 0_u64..3, any::<bool>());
    let progress =
        progress.prop_map(|(place, records, finished)| SplitProgress { place, records, finished });
    let holding = (
        id(),
        proptest::collection::vec(progress, 0..2),
        proptest::collection::vec(0_u64..4, 0..3),
    );
    prop_oneof![
        3 => holding.prop_map(|(id, progress, taken)| Record::HoldSplits {
            client: ClientId::new(id),
            progress,
            taken,
            group_size: 1,
        }),
        1 => (id(), 0_u64..3, proptest::option::of(id())).prop_map(|(id, place, task)| {
            Record::HandOutWaiting {
                iteration: IterationId::new(id),
                place,
                task: task.map(TaskId::new),
            }
        }),
        1 => id().prop_map(|id| Record::FinishIteration { id: IterationId::new(id) }),
    ]
}

fn freeing() -> impl Strategy<Value = Record> {
    let at = Time::from_millis(5);
    let dataset = || select(vec!["a", "1000"]).prop_map(DatasetId::new);
    prop_oneof![
        id().prop_map(move |id| Record::FreeIteration { id: IterationId::new(id), at }),
        id().prop_map(move |id| Record::FreeJob { id: JobId::new(id), at }),
        id().prop_map(move |id| Record::UseJob { id: JobId::new(id), at }),
        dataset().prop_map(|id| Record::FreeDataset { id }),
        dataset().prop_map(move |id| Record::UseDataset { id, at }),
    ]
}

fn positions() -> impl Strategy<Value = Record> {
    let name = || select(vec!["p", "q"]);
    let job = || select(vec!["one", "two"]);
    let reading = prop::collection::vec(0_i64..2, 0..2);
    prop_oneof![
        (name(), job(), reading).prop_map(|(name, job, reading)| Record::SavePosition {
            name: name.into(),
            job: job.into(),
            at: Time::ZERO,
            finished: Repetitions::of(vec![RepetitionRange { first: 2, last: 4 }]),
            abandoned: Repetitions::of(vec![RepetitionRange { first: 7, last: 7 }]),
            reading: reading
                .into_iter()
                .map(|repetition| SavedRepetition {
                    repetition,
                    sources: Vec::new(),
                    splits: Vec::new()
                })
                .collect(),
        }),
        (name(), job()).prop_map(|(name, job)| Record::RestorePosition {
            name: name.into(),
            job: job.into(),
            at: Time::ZERO,
        }),
        name().prop_map(|name| Record::DeletePosition { name: name.into() }),
    ]
}

fn tasks() -> impl Strategy<Value = Record> {
    let of = (id(), id(), id());
    prop_oneof![
        of.clone().prop_map(|(id, iteration, worker)| Record::CreateTask {
            id: TaskId::new(id),
            iteration: IterationId::new(iteration),
            worker: WorkerId::new(worker),
        }),
        of.prop_map(|(id, iteration, worker)| Record::CreatePendingTask {
            id: TaskId::new(id),
            iteration: IterationId::new(iteration),
            worker: WorkerId::new(worker),
            target_round: 1,
        }),
        id().prop_map(|id| Record::RejectRound {
            iteration: IterationId::new(id),
            target_round: 3,
        }),
        (id(), id()).prop_map(|(id, client)| Record::AcceptRound {
            iteration: IterationId::new(id),
            client: ClientId::new(client),
        }),
        id().prop_map(|id| Record::FinishTask { id: TaskId::new(id) }),
        (id(), any::<bool>())
            .prop_map(|(id, again)| Record::RemoveTask { id: TaskId::new(id), again }),
        (id(), any::<bool>())
            .prop_map(|(id, again)| Record::LoseWorker { id: WorkerId::new(id), again }),
        (id(), any::<bool>())
            .prop_map(|(id, reborn)| Record::ReturnWorker { id: WorkerId::new(id), reborn }),
        (id(), any::<bool>())
            .prop_map(|(id, again)| Record::RestartTasks { worker: WorkerId::new(id), again }),
    ]
}

fn any_record() -> impl Strategy<Value = Record> {
    prop_oneof![things(), iterations(), tasks(), freeing(), positions(), by_split()]
}

proptest! {
    #[test]
    fn a_record_that_does_not_fit_leaves_no_trace(
        records in prop::collection::vec(any_record(), 0..80),
    ) {
        let mut state = State::default();
        for (lsn, record) in (1..).zip(&records) {
            let before = state.clone();
            if state.apply(Lsn::new(lsn), record).is_err() {
                prop_assert_eq!(&state, &before, "{:?}", record);
            }
        }
    }
}

#[test]
fn what_does_not_fit_is_named() {
    let mut state = State::default();
    let finish = Record::FinishTask { id: TaskId::new(7) };
    let error = state.apply(Lsn::new(1), &finish).unwrap_err();
    assert_eq!(error.to_string(), "task 7 does not exist");
    let register = Record::RegisterWorker {
        id: WorkerId::new(1),
        address: "w:1".into(),
        profile: WorkerProfile::default(),
    };
    state.apply(Lsn::new(1), &register).unwrap();
    let again = Record::RegisterWorker {
        id: WorkerId::new(2),
        address: "w:1".into(),
        profile: WorkerProfile::default(),
    };
    let error = state.apply(Lsn::new(2), &again).unwrap_err();
    assert_eq!(error.to_string(), "worker with address w:1 exists already");
}

/// Two tasks read two sources of three splits. Of the first source a pass is over, and of the next one the
/// first split is with the first task; the second task has ended.
fn read_by_two_tasks() -> State {
    let registered = dataset_named("a");
    let mut records = vec![
        Record::RegisterDataset {
            id: DatasetId::new("a"),
            definition: registered.definition,
            plan: dataset(&[]).plan,
            metadata: registered.metadata,
            at: Time::ZERO,
        },
        Record::CreateJob {
            id: JobId::new(1),
            name: "job".into(),
            dataset: DatasetId::new("a"),
            sharding: ShardingPolicy::Dynamic,
            consumers: None,
            use_cross_trainer_cache: false,
            target_workers: TargetWorkers::Auto,
            anonymous: false,
            at: Time::ZERO,
        },
        Record::CreateIteration {
            id: IterationId::new(1),
            job: JobId::new(1),
            repetition: 0,
            sources: vec![SplitSource::counting(3); 2],
        },
    ];
    for id in [1, 2] {
        records.push(Record::RegisterWorker {
            id: WorkerId::new(id),
            address: format!("w:{id}").into(),
            profile: WorkerProfile::default(),
        });
        let (iteration, worker) = (IterationId::new(1), WorkerId::new(id));
        records.push(Record::CreateTask { id: TaskId::new(id), iteration, worker });
    }
    let split = |task: i64, repetition, finished| Record::ProduceSplit {
        iteration: IterationId::new(1),
        source: 0,
        repetition,
        finished,
        task: Some(TaskId::new(task)),
    };
    let first_pass = [split(1, 0, false), split(2, 0, false), split(2, 0, false)];
    records.extend(first_pass);
    records.extend([split(1, 0, true), split(1, 1, false)]);
    records.push(Record::FinishTask { id: TaskId::new(2) });
    let mut state = State::default();
    for (lsn, record) in (1..).zip(&records) {
        state.apply(Lsn::new(lsn), record).unwrap();
    }
    state
}

fn take_back(source: u32, repetition: i64, place: u64, task: Option<i64>) -> Record {
    let (iteration, task) = (IterationId::new(1), task.map(TaskId::new));
    Record::TakeBackSplit { iteration, source, repetition, place, task }
}

#[test]
fn only_a_split_that_was_handed_out_is_taken_back() {
    let apply = |record: &Record| read_by_two_tasks().apply(Lsn::new(100), record).is_ok();
    for (what, record, fits) in [
        ("with the task", take_back(0, 1, 0, Some(1)), true),
        ("of the pass before", take_back(0, 0, 0, Some(1)), true),
        ("the last of the pass before", take_back(0, 0, 2, None), true),
        ("of a task that ended", take_back(0, 0, 1, Some(2)), true),
        ("not produced yet", take_back(0, 1, 1, None), false),
        ("of no place of the pass before", take_back(0, 0, 3, None), false),
        ("of a later pass", take_back(0, 2, 0, None), false),
        ("of a pass before the first", take_back(0, -1, 0, None), false),
        ("of a source not begun", take_back(1, 0, 0, None), false),
        ("of no source", take_back(2, 0, 0, None), false),
        ("with the other task", take_back(0, 0, 1, Some(1)), false),
        ("of no task", take_back(0, 1, 0, Some(7)), false),
    ] {
        assert_eq!(apply(&record), fits, "{what}");
    }
}

#[test]
fn an_iteration_ends_once() {
    let mut state = read_by_two_tasks();
    let finish = Record::FinishIteration { id: IterationId::new(1) };
    state.apply(Lsn::new(100), &finish).unwrap();
    let again = state.apply(Lsn::new(101), &finish).unwrap_err();
    assert_eq!(again.to_string(), "iteration 1 is over already, or not yet");
}

#[test]
fn a_split_is_taken_back_once() {
    let mut state = read_by_two_tasks();
    state.apply(Lsn::new(100), &take_back(0, 1, 0, Some(1))).unwrap();
    for task in [Some(1), None] {
        let again = state.apply(Lsn::new(101), &take_back(0, 1, 0, task));
        let error = again.unwrap_err().to_string();
        assert_eq!(error, "split to be taken back at place 0 does not exist", "{task:?}");
    }
}
