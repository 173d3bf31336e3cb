//! Each invariant against a state in which only it was broken.

use alloc::collections::BTreeSet;
use alloc::vec;
use alloc::vec::Vec;

use crate::dispatcher::delivery::HandedOut;
use crate::dispatcher::handed_out::SplitRun;
use crate::dispatcher::position::SavedRepetition;
use crate::dispatcher::record::{Record, WorkerProfile};
use crate::dispatcher::repetitions::Repetitions;
use crate::dispatcher::request::ClientHeartbeat;
use crate::dispatcher::retired::RetiredJob;
use crate::dispatcher::rhythm::WorkerLeases;
use crate::dispatcher::rounds::Rounds;
use crate::dispatcher::state::{PendingTask, State};
use crate::dispatcher::types::{
    Compression, DatasetMetadata, Definition, ShardingPolicy, SplitPlan, SplitSource, TargetWorkers,
};
use crate::dispatcher::{Config, Dispatcher};
use crate::ids::{CallId, ClientId, DatasetId, Digest, IterationId, JobId, Lsn, TaskId, WorkerId};
use crate::invariant;
use crate::time::Time;

const DYNAMIC: IterationId = IterationId::new(2000);
const COORDINATED: IterationId = IterationId::new(2001);
const ACTIVE: TaskId = TaskId::new(4000);
const PENDING: TaskId = TaskId::new(4001);
const WORKER: WorkerId = WorkerId::new(1);
const AT: Time = Time::from_millis(1);

fn dataset() -> Record {
    Record::RegisterDataset {
        id: DatasetId::new("1000"),
        definition: Definition { digest: Digest::new([7; 32]), size_bytes: 0, inline: None },
        plan: SplitPlan::Splittable(vec![SplitSource::counting(3)]),
        metadata: DatasetMetadata {
            encoded: bytes::Bytes::new(),
            structure: Digest::new([1; 32]),
            compression: Compression::Off,
            cardinality: 3,
        },
        at: AT,
    }
}

fn job(id: i64, name: &str, sharding: ShardingPolicy, consumers: Option<i64>) -> Record {
    Record::CreateJob {
        id: JobId::new(id),
        name: name.into(),
        dataset: DatasetId::new("1000"),
        sharding,
        consumers,
        use_cross_trainer_cache: false,
        target_workers: TargetWorkers::Auto,
        anonymous: false,
        at: AT,
    }
}

fn iteration(id: IterationId, job: i64, sources: Vec<SplitSource>) -> Record {
    Record::CreateIteration { id, job: JobId::new(job), repetition: 0, sources }
}

fn client(id: i64, iteration: IterationId) -> Record {
    Record::AcquireClient { id: ClientId::new(id), iteration, at: Time::ZERO }
}

/// A dynamic iteration with an active task and a coordinated one with a pending task, on one
/// worker, with one client each.
fn state() -> State {
    let records = [
        dataset(),
        Record::RegisterWorker {
            id: WORKER,
            address: "w:1".into(),
            profile: WorkerProfile::default(),
        },
        job(5000, "dynamic", ShardingPolicy::Dynamic, None),
        job(5001, "coordinated", ShardingPolicy::Off, Some(2)),
        iteration(DYNAMIC, 5000, vec![SplitSource::counting(3)]),
        iteration(COORDINATED, 5001, Vec::new()),
        Record::CreateTask { id: ACTIVE, iteration: DYNAMIC, worker: WORKER },
        Record::CreatePendingTask {
            id: PENDING,
            iteration: COORDINATED,
            worker: WORKER,
            target_round: 1,
        },
        client(3000, DYNAMIC),
        client(3001, COORDINATED),
    ];
    let mut state = State::default();
    for (at, record) in (1..).zip(&records) {
        state.apply(Lsn::new(at), record).unwrap();
    }
    assert_eq!(invariant::check_state(&state), Ok(()));
    state
}

#[track_caller]
fn assert_violates(number: &str, plant: impl FnOnce(&mut State)) {
    let mut state = state();
    plant(&mut state);
    let violation = invariant::check_state(&state).unwrap_err();
    assert_eq!(violation.number, number, "{violation}");
}

#[track_caller]
fn assert_dispatcher_violates(number: &str, plant: impl FnOnce(&mut Dispatcher)) {
    let mut dispatcher = Dispatcher::start(Config::default(), state(), Time::ZERO);
    assert_eq!(invariant::check_dispatcher(&dispatcher), Ok(()));
    plant(&mut dispatcher);
    let violation = invariant::check_dispatcher(&dispatcher).unwrap_err();
    assert_eq!(violation.number, number, "{violation}");
}

#[test]
fn d1_sees_a_task_of_no_worker() {
    assert_violates("D1", |state| {
        state.tasks.get_mut(&ACTIVE).unwrap().worker = WorkerId::new(9);
    });
}

#[test]
fn d1_sees_a_client_of_no_iteration() {
    assert_violates("D1", |state| {
        let client = state.clients.get_mut(&ClientId::new(3000)).unwrap();
        client.iteration = IterationId::new(9);
    });
}

#[test]
fn d2_sees_a_task_listed_twice() {
    assert_violates("D2", |state| {
        let iteration = state.iterations.get_mut(&COORDINATED).unwrap();
        iteration.tasks.push(PENDING);
    });
}

#[test]
fn d2_sees_a_task_listed_nowhere() {
    assert_violates("D2", |state| {
        state.iterations.get_mut(&DYNAMIC).unwrap().tasks.clear();
    });
}

#[test]
fn d3_sees_a_worker_without_its_task() {
    assert_violates("D3", |state| {
        state.workers.get_mut(&WORKER).unwrap().tasks.remove(&ACTIVE);
    });
}

#[test]
fn d4_sees_an_open_iteration_left_out() {
    assert_violates("D4", |state| {
        state.index.open_coordinated.remove(&COORDINATED);
    });
}

#[test]
fn d5_sees_a_client_its_iteration_does_not_know() {
    assert_violates("D5", |state| {
        state.iterations.get_mut(&DYNAMIC).unwrap().clients.clear();
    });
}

#[test]
fn d6_sees_a_finished_iteration_with_an_unfinished_task() {
    assert_violates("D6", |state| {
        state.iterations.get_mut(&DYNAMIC).unwrap().finished = true;
        state.index.open_iterations.remove(&DYNAMIC);
    });
}

#[test]
fn d6_sees_a_collected_iteration_that_goes_on() {
    assert_violates("D6", |state| {
        state.iterations.get_mut(&DYNAMIC).unwrap().collected = true;
    });
}

#[test]
fn d7_sees_a_position_past_the_end() {
    assert_violates("D7", |state| {
        let iteration = state.iterations.get_mut(&DYNAMIC).unwrap();
        iteration.sources[0].index = 4;
    });
}

#[test]
fn d7_sees_positions_without_dynamic_sharding() {
    assert_violates("D7", |state| {
        state.jobs.get_mut(&JobId::new(5000)).unwrap().sharding = ShardingPolicy::Off;
    });
}

#[test]
fn d8_sees_a_counter_that_fell_behind() {
    assert_violates("D8", |state| state.counters.task = PENDING);
    assert_violates("D8", |state| state.counters.dataset = 1000);
}

#[test]
fn d9_sees_a_stranger_that_is_ready() {
    assert_violates("D9", |state| {
        let iteration = state.iterations.get_mut(&COORDINATED).unwrap();
        iteration.pending[0].ready.insert(ClientId::new(3000));
    });
}

#[test]
fn d9_sees_a_full_agreement_that_was_not_carried_out() {
    assert_violates("D9", |state| {
        state.jobs.get_mut(&JobId::new(5001)).unwrap().consumers = Some(1);
        let iteration = state.iterations.get_mut(&COORDINATED).unwrap();
        iteration.pending[0].ready.insert(ClientId::new(3001));
    });
}

#[test]
fn d10_sees_a_name_that_leads_nowhere() {
    assert_violates("D10", |state| {
        state.index.job_by_name.insert("gone".into(), JobId::new(1));
    });
}

#[test]
fn d10_sees_a_key_that_leads_nowhere() {
    assert_violates("D10", |state| {
        let key = (JobId::new(5000), 0, IterationId::new(1));
        state.index.iteration_by_key.insert(key);
    });
}

#[test]
fn d11_sees_two_live_iterations_of_one_key() {
    assert_violates("D11", |state| {
        let record = iteration(IterationId::new(2002), 5000, Vec::new());
        state.apply(Lsn::new(99), &record).unwrap();
    });
}

#[test]
fn d12_sees_a_pending_task_outside_coordinated_reads() {
    assert_violates("D12", |state| {
        let record = Record::CreatePendingTask {
            id: TaskId::new(4002),
            iteration: DYNAMIC,
            worker: WORKER,
            target_round: 1,
        };
        state.apply(Lsn::new(99), &record).unwrap();
    });
}

#[test]
fn d12_sees_a_negotiation_out_of_turn() {
    assert_violates("D12", |state| {
        let id = TaskId::new(4002);
        let record = Record::CreatePendingTask {
            id,
            iteration: COORDINATED,
            worker: WORKER,
            target_round: 1,
        };
        state.apply(Lsn::new(99), &record).unwrap();
        let iteration = state.iterations.get_mut(&COORDINATED).unwrap();
        iteration.pending[1] =
            PendingTask { task: id, target_round: 3, failures: 1, ready: BTreeSet::new() };
    });
}

#[test]
fn d13_sees_a_read_without_consumers() {
    assert_violates("D13", |state| {
        let record = job(5002, "nobody", ShardingPolicy::Off, Some(0));
        state.apply(Lsn::new(99), &record).unwrap();
    });
}

#[test]
fn d14_sees_an_unshared_definition() {
    assert_violates("D14", |state| {
        let dataset = state.datasets.get_mut(&DatasetId::new("1000")).unwrap();
        dataset.definition.size_bytes = 1;
    });
}

#[test]
fn d14_sees_a_definition_that_nobody_has() {
    assert_violates("D14", |state| {
        let shared = state.index.definitions.values().next().unwrap().clone();
        let digest = Digest::new([8; 32]);
        state.index.definitions.insert(digest, shared);
    });
}

#[test]
fn d18_sees_an_idle_thing_left_out() {
    assert_violates("D18", |state| {
        let record = Record::ReleaseClient { id: ClientId::new(3000), at: AT };
        state.apply(Lsn::new(99), &record).unwrap();
        let record = Record::FinishTask { id: ACTIVE };
        state.apply(Lsn::new(100), &record).unwrap();
        assert_eq!(state.index.idle.iterations.len(), 1);
        state.index.idle.iterations.clear();
    });
}

#[test]
fn d18_sees_a_time_that_is_wrong() {
    assert_violates("D18", |state| {
        let job = Record::CreateJob {
            id: JobId::new(5002),
            name: "idle".into(),
            dataset: DatasetId::new("none"),
            sharding: ShardingPolicy::Off,
            consumers: None,
            use_cross_trainer_cache: false,
            target_workers: TargetWorkers::Auto,
            anonymous: true,
            at: AT,
        };
        state.apply(Lsn::new(99), &job).unwrap();
        state.jobs.get_mut(&JobId::new(5002)).unwrap().asked = Time::ZERO;
    });
}

#[test]
fn d19_sees_a_job_that_waits_at_no_position() {
    assert_violates("D19", |state| {
        let save = Record::SavePosition {
            name: "p".into(),
            job: "dynamic".into(),
            at: AT,
            finished: Repetitions::default(),
            abandoned: Repetitions::default(),
            reading: vec![SavedRepetition {
                repetition: 0,
                sources: Vec::new(),
                splits: Vec::new(),
            }],
        };
        let restore = Record::RestorePosition { name: "p".into(), job: "elsewhere".into(), at: AT };
        state.apply(Lsn::new(99), &save).unwrap();
        state.apply(Lsn::new(100), &restore).unwrap();
        assert_eq!(invariant::check_state(state), Ok(()));
        state.positions.clear();
    });
}

#[test]
fn d20_sees_a_task_that_is_not_counted() {
    assert_violates("D20", |state| {
        state.index.tasks_on.clear();
    });
}

#[test]
fn d20_sees_a_freed_job_that_is_there() {
    assert_violates("D20", |state| {
        state.retired.insert(RetiredJob {
            definition: None,
            id: None,
            first_id: None,
            name: "dynamic".into(),
            dataset: None,
            parameters: None,
            finished: Repetitions::default(),
            abandoned: Repetitions::default(),
            changed: Lsn::new(99),
        });
    });
}

#[test]
fn d20_sees_a_job_that_continues_a_later_one() {
    assert_violates("D20", |state| {
        let job = state.jobs.values_mut().next().unwrap();
        job.first_id = Some(job.id.next());
    });
}

#[test]
fn d15_sees_a_sign_of_life_of_nobody() {
    assert_dispatcher_violates("D15", |dispatcher| {
        dispatcher.leases.hear_client(ClientId::new(9), Time::ZERO);
    });
    assert_dispatcher_violates("D15", |dispatcher| {
        dispatcher.rounds.insert(IterationId::new(9), Rounds::default());
    });
    assert_dispatcher_violates("D15", |dispatcher| {
        let heartbeat = ClientHeartbeat {
            client: ClientId::new(9),
            current_round: None,
            blocked_round: Some(1),
            target_processing_time_ns: 0,
        };
        dispatcher.note_let_go(DYNAMIC, &heartbeat, None);
    });
    assert_dispatcher_violates("D15", |dispatcher| {
        let (call, task) = (CallId::new(1), Some(TaskId::new(99)));
        let (iteration, source, repetition, place) = (DYNAMIC, 0, 0, 0);
        let split = HandedOut { iteration, source, repetition, place, task };
        dispatcher.deliveries.remember_answer(call, split);
    });
}

#[test]
fn d16_sees_a_stale_list() {
    assert_dispatcher_violates("D16", |dispatcher| {
        let version = dispatcher.list_version(&dispatcher.state.iterations[&DYNAMIC]);
        dispatcher.views.insert(DYNAMIC, (version, Vec::new().into()));
    });
}

#[test]
fn d17_sees_a_waiting_call_without_a_deadline() {
    assert_dispatcher_violates("D17", |dispatcher| {
        let call = CallId::new(1);
        dispatcher.removals.add(PENDING, 0, call, 0, Time::ZERO);
        dispatcher.removals.deadlines.clear();
    });
}

#[test]
fn d40_sees_a_worker_that_nobody_looks_at() {
    assert_dispatcher_violates("D40", |dispatcher| {
        let timeout = dispatcher.config.worker_timeout;
        let nobody = State::default();
        dispatcher.leases.workers = WorkerLeases::of_survivors(&nobody, timeout, Time::ZERO);
    });
    assert_dispatcher_violates("D40", |dispatcher| {
        let lost = Record::LoseWorker { id: WORKER, again: false };
        dispatcher.state.apply(Lsn::new(99), &lost).unwrap();
    });
}

#[test]
fn d41_sees_a_task_that_a_lost_worker_kept() {
    assert_violates("D41", |state| {
        state.workers.get_mut(&WORKER).unwrap().lost = true;
    });
}

#[test]
fn d41_sees_a_task_that_is_not_found() {
    assert_violates("D41", |state| state.index.task_of.clear());
}

fn run(first: u64, count: u64) -> SplitRun {
    SplitRun { source: 0, repetition: 0, first, count }
}

#[test]
fn d42_sees_a_split_in_two_places() {
    assert_violates("D42", |state| {
        let split = Record::ProduceSplit {
            iteration: DYNAMIC,
            source: 0,
            repetition: 0,
            finished: false,
            task: Some(ACTIVE),
        };
        state.apply(Lsn::new(99), &split).unwrap();
        let iteration = state.iterations.get_mut(&DYNAMIC).unwrap();
        iteration.splits.again = [run(0, 1)].into_iter().collect();
    });
}

#[test]
fn d42_sees_a_split_that_was_never_handed_out() {
    assert_violates("D42", |state| {
        let task = state.tasks.get_mut(&ACTIVE).unwrap();
        task.splits.remembered = [run(0, 1)].into_iter().collect();
    });
}

#[test]
fn d43_sees_an_iteration_that_waits_for_nothing() {
    assert_violates("D43", |state| {
        state.tasks.get_mut(&ACTIVE).unwrap().finished = true;
        state.workers.get_mut(&WORKER).unwrap().tasks.remove(&ACTIVE);
        state.index.task_of.remove(&(WORKER, DYNAMIC));
    });
}

#[test]
fn d43_sees_splits_left_over_at_the_end() {
    assert_violates("D43", |state| {
        let finish = Record::FinishTask { id: ACTIVE };
        state.apply(Lsn::new(99), &finish).unwrap();
        let iteration = state.iterations.get_mut(&DYNAMIC).unwrap();
        iteration.splits.strays.insert(WORKER, 0);
    });
}

#[test]
fn d44_sees_a_doubt_about_splits_that_are_none() {
    assert_violates("D44", |state| {
        let iteration = state.iterations.get_mut(&DYNAMIC).unwrap();
        iteration.splits.doubt.widen(0, 1);
    });
}

/// The client of the dynamic iteration holds its first split.
fn hold(state: &mut State) {
    let record = Record::HoldSplits {
        client: ClientId::new(3000),
        progress: Vec::new(),
        taken: vec![0],
        group_size: 1,
    };
    state.apply(Lsn::new(90), &record).unwrap();
    assert_eq!(invariant::check_state(state), Ok(()));
}

#[test]
fn d43_sees_a_split_held_at_the_end() {
    assert_violates("D43", |state| {
        state.apply(Lsn::new(89), &Record::FinishTask { id: ACTIVE }).unwrap();
        state.iterations.get_mut(&DYNAMIC).unwrap().by_split.waiting.insert(0, 0);
    });
}

#[test]
fn d45_sees_a_split_in_two_places() {
    assert_violates("D45", |state| {
        hold(state);
        state.iterations.get_mut(&DYNAMIC).unwrap().by_split.waiting.insert(0, 0);
    });
    assert_violates("D45", |state| {
        hold(state);
        let task = state.tasks.get_mut(&ACTIVE).unwrap();
        task.splits.remembered = [run(0, 1)].into_iter().collect();
    });
}

#[test]
fn d45_sees_a_split_that_was_never_handed_out_or_is_miscounted() {
    assert_violates("D45", |state| {
        hold(state);
        state.clients.get_mut(&ClientId::new(3000)).unwrap().splits.insert(1, 0);
        state.iterations.get_mut(&DYNAMIC).unwrap().by_split.held = 2;
    });
    assert_violates("D45", |state| {
        hold(state);
        state.iterations.get_mut(&DYNAMIC).unwrap().by_split.held = 0;
    });
}

#[test]
fn d46_sees_a_reader_that_nobody_looks_at() {
    assert_dispatcher_violates("D46", |dispatcher| hold(&mut dispatcher.state));
}
