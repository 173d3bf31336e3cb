//! Nothing is acknowledged, shown or passed on before it is durable; and what happens when the
//! journal takes no records, or fails.

use rondo_core::control::{Durability, Health, Part, Recovered, Recovery, Timer};
use rondo_core::dispatcher::{self, Config, Counters, Reply, Request, ShardingPolicy};
use rondo_core::ids::{ClientId, DatasetId, IterationId, JobId, TaskId};
use rondo_core::status::Code;
use rondo_core::time::Duration;

use crate::driver::{Answer, Driver, Journal, answer_of};
use crate::world::{client, dataset, dataset_named, job, removal, rounds, split, update, worker};

const TASK: TaskId = TaskId::new(4000);
const CLIENT: ClientId = ClientId::new(3000);
const ITERATION: IterationId = IterationId::new(2000);

/// A worker, and a client that reads with dynamic sharding.
fn reading() -> (Driver, JobId) {
    let mut driver = Driver::new();
    driver.worker("w:1", &[]);
    let (job, _) = driver.reading(ShardingPolicy::Dynamic);
    driver.client(CLIENT);
    (driver, job)
}

fn unavailable(answer: &Option<Answer>) -> bool {
    matches!(answer, Some(Err(status)) if status.code == Code::Unavailable)
}

/// Requests that change something in the world of [`reading`].
fn mutations(job_id: JobId) -> Vec<Request> {
    let changed = dispatcher::WorkerHeartbeat { uid: 9, ..worker("w:1", &[TASK]) };
    vec![
        Request::RegisterDataset(dataset(&[])),
        Request::DisableCompression { dataset: DatasetId::new("1000"), disable: true },
        Request::GetOrCreateJob(job(&DatasetId::new("1000"), ShardingPolicy::Off)),
        Request::GetOrCreateIteration { job: job_id, repetition: 0 },
        Request::GetOrCreateIteration { job: job_id, repetition: 1 },
        Request::WorkerHeartbeat(worker("w:2", &[])),
        Request::WorkerHeartbeat(changed),
        Request::WorkerUpdate { worker_address: "w:1".into(), progress: vec![(TASK, true)] },
        split(ITERATION, 0, 0),
        Request::ReleaseClient { client: CLIENT },
    ]
}

#[test]
fn every_mutation_waits_for_the_journal() {
    let (_, job) = reading();
    for request in mutations(job) {
        let (mut driver, _) = reading();
        driver.journal = Journal::Slow;
        let call = driver.send(request.clone());
        assert_eq!(driver.take(call), None, "{request:?}");
        driver.sync();
        assert!(matches!(driver.take(call), Some(Ok(_))), "{request:?}");
    }
}

#[test]
fn an_unchanged_heartbeat_waits_for_nobody() {
    let (mut driver, _) = reading();
    driver.journal = Journal::Slow;
    driver.send(Request::RegisterDataset(dataset(&[])));
    driver.client(CLIENT);
    driver.worker("w:1", &[TASK]);
    assert_eq!(driver.ask(Request::GetConfig), Ok(Reply::Config(Default::default())));
    let metadata = Request::GetMetadata { dataset: DatasetId::new("1000") };
    assert!(driver.ask(metadata).is_ok());
}

#[test]
fn a_heartbeat_that_shows_an_update_waits_for_it() {
    let (mut driver, _) = reading();
    driver.journal = Journal::Slow;
    driver.send(update("w:1", &[(TASK, true)]));
    for request in [client(CLIENT), Request::WorkerHeartbeat(worker("w:1", &[TASK]))] {
        let call = driver.send(request.clone());
        assert_eq!(driver.take(call), None, "{request:?}");
    }
    driver.sync();
    assert_eq!(driver.take_all().len(), 3);
}

#[test]
fn a_read_of_something_new_waits_for_it() {
    let (mut driver, _) = reading();
    driver.journal = Journal::Slow;
    let first = driver.send(Request::RegisterDataset(dataset_named("mine")));
    let mine = DatasetId::new("mine");
    let calls = [
        Request::RegisterDataset(dataset_named("mine")),
        Request::GetMetadata { dataset: mine.clone() },
        Request::GetDefinition { dataset: mine },
    ]
    .map(|request| driver.send(request));
    assert!(calls.iter().chain([&first]).all(|call| driver.take(*call).is_none()));
    driver.sync();
    assert!(calls.iter().all(|call| matches!(driver.take(*call), Some(Ok(_)))));
}

#[test]
fn a_later_answer_about_splits_waits_for_the_earlier_one() {
    let (mut driver, _) = reading();
    for _ in 0..3 {
        driver.split(ITERATION, 0, 0);
    }
    driver.journal = Journal::Slow;
    let end = driver.send(split(ITERATION, 0, 0));
    let also = driver.send(split(ITERATION, 0, 0));
    assert_eq!((driver.take(end), driver.take(also)), (None, None));
}

#[test]
fn the_end_of_a_collected_iteration_waits_for_the_journal() {
    let config = Config { gc_dynamic_sharding_jobs: true, ..Config::default() };
    let mut driver = Driver::with(config);
    driver.worker("w:1", &[]);
    let (job, reader) = driver.reading(ShardingPolicy::Dynamic);
    let iteration = driver.iteration(job, 0);
    driver.release(reader);
    driver.journal = Journal::Slow;
    for _ in 0..600 {
        driver.advance(Duration::from_secs(1));
        if driver.state().iterations()[&iteration].collected {
            break;
        }
        driver.worker("w:1", &[]);
    }
    let end = driver.send(split(iteration, 0, 0));
    assert_eq!(driver.take(end), None, "the iteration may not have been collected");
    driver.sync();
    assert_eq!(driver.take(end), Some(Ok(Reply::Split(None))));
}

#[test]
fn a_refusal_waits_for_what_it_may_rest_on() {
    let (mut driver, _) = reading();
    driver.journal = Journal::Slow;
    driver.send(Request::ReleaseClient { client: CLIENT });
    let call = driver.send(client(CLIENT));
    assert_eq!(driver.take(call), None);
    driver.sync();
    assert!(matches!(driver.take(call), Some(Err(status)) if status.code == Code::NotFound));
}

#[test]
fn answers_leave_in_the_order_in_which_they_become_durable() {
    let (mut driver, _) = reading();
    driver.journal = Journal::Slow;
    let first = driver.send(Request::RegisterDataset(dataset(&[])));
    let upto = driver.written_upto();
    let second = driver.send(Request::RegisterDataset(dataset(&[])));
    driver.sync_upto(upto);
    assert!(driver.take(first).is_some() && driver.take(second).is_none());
    driver.sync();
    assert!(driver.take(second).is_some());
}

#[test]
fn what_was_not_durable_is_lost_in_a_crash_and_was_not_acknowledged() {
    let (mut driver, job) = reading();
    driver.journal = Journal::Slow;
    let call = driver.send(Request::GetOrCreateIteration { job, repetition: 1 });
    assert_eq!(driver.take(call), None);
    driver.restart();
    assert!(driver.state().iteration_of(job, 1).is_none());
}

#[test]
fn without_a_journal_nothing_waits() {
    let mut driver = Driver::start(Config::default(), Durability::MemoryOnly);
    driver.worker("w:1", &[]);
    let (job, _) = driver.reading(ShardingPolicy::Dynamic);
    for request in mutations(job) {
        assert!(driver.ask(request).is_ok());
    }
    assert_eq!(driver.written_upto().get(), 0, "and nothing is written");
}

/// A node whose journal refused the registration of a dataset.
fn refusing() -> (Driver, JobId) {
    let (mut driver, job) = reading();
    driver.journal = Journal::Full;
    let call = driver.send(Request::RegisterDataset(dataset_named("mine")));
    assert!(unavailable(&driver.take(call)));
    assert!(matches!(driver.node.health(), Health::RefusingUpdates(_)));
    (driver, job)
}

#[test]
fn a_full_journal_refuses_mutations() {
    let (_, job) = reading();
    for request in mutations(job) {
        let (mut driver, _) = refusing();
        let call = driver.send(request.clone());
        let answer = driver.take(call);
        assert!(unavailable(&answer), "{request:?}: {answer:?}");
    }
}

#[test]
fn a_full_journal_does_not_stop_unchanged_heartbeats() {
    let (mut driver, _) = refusing();
    driver.client(CLIENT);
    driver.worker("w:1", &[TASK]);
    assert!(driver.ask(Request::GetMetadata { dataset: DatasetId::new("1000") }).is_ok());
}

#[test]
fn a_full_journal_still_shows_the_picture_to_people() {
    let (mut driver, _) = refusing();
    assert!(matches!(driver.ask(Request::Report), Ok(Reply::Report(_))));
}

/// A refused caller may choose another update. It must know that the journal may still make the first one.
#[test]
fn who_asked_for_an_update_is_told_that_it_may_still_be_made() {
    let (mut driver, job) = reading();
    driver.journal = Journal::Full;
    let kept = driver.send(Request::RegisterDataset(dataset_named("mine")));
    let status = driver.take(kept).unwrap().unwrap_err();
    let keeps = "the server keeps updates that this answer may rest on";
    assert!(status.message.contains(keeps), "{status}");
    // The same request again, and reads of what is there and what is not: their answers would depend on the
    // update that waits.
    let metadata = |of| Request::GetMetadata { dataset: DatasetId::new(of) };
    let again = Request::RegisterDataset(dataset_named("mine"));
    for request in [again, metadata("mine"), metadata("nobody's")] {
        let status = driver.ask(request).unwrap_err();
        assert!(status.message.contains(keeps), "{status}");
    }
    let status = driver.ask(Request::GetOrCreateIteration { job, repetition: 1 }).unwrap_err();
    assert!(!status.message.contains(keeps), "{status}");
    driver.make_room();
    assert!(driver.ask(metadata("mine")).is_ok());
    assert!(driver.state().iteration_of(job, 1).is_none(), "what was refused is not made");
}

#[test]
fn what_was_refused_is_not_shown() {
    let (mut driver, _) = refusing();
    let call = driver.send(Request::GetMetadata { dataset: DatasetId::new("mine") });
    assert!(unavailable(&driver.take(call)));
}

#[test]
fn what_was_written_before_the_refusal_is_still_acknowledged() {
    let (mut driver, _) = reading();
    driver.journal = Journal::Slow;
    let early = driver.send(Request::RegisterDataset(dataset(&[])));
    driver.journal = Journal::Full;
    let late = driver.send(Request::RegisterDataset(dataset(&[])));
    assert_eq!(driver.take(early), None);
    assert!(unavailable(&driver.take(late)));
    driver.sync();
    assert!(matches!(driver.take(early), Some(Ok(_))));
}

#[test]
fn the_node_asks_for_another_try_every_second() {
    let (mut driver, _) = refusing();
    let due = driver.now.after(Duration::from_secs(1));
    assert_eq!(driver.deadline_of(Timer::AppendRetry), Some(due));
    driver.advance(Duration::from_secs(3));
    assert_eq!(driver.retries, 3);
}

#[test]
fn all_goes_on_when_there_is_room_again() {
    let (mut driver, job) = refusing();
    driver.make_room();
    assert_eq!(*driver.node.health(), Health::Serving);
    assert_eq!(driver.deadline_of(Timer::AppendRetry), None);
    assert_eq!(driver.register(dataset_named("mine")).as_str(), "mine");
    for request in mutations(job) {
        assert!(driver.ask(request).is_ok());
    }
}

#[test]
fn workers_are_told_of_tasks_once_their_records_were_taken_after_all() {
    let (mut driver, job) = reading();
    let before = driver.pushes.len();
    driver.journal = Journal::Full;
    driver.send(Request::GetOrCreateIteration { job, repetition: 1 });
    assert_eq!(driver.pushes.len(), before);
    driver.make_room();
    assert_eq!(driver.pushes.len(), before + 1);
}

#[test]
fn consumers_agreeing_on_a_removal_are_refused_while_the_journal_is_full() {
    let mut driver = Driver::new();
    driver.worker("w:1", &[]);
    driver.reading_together(2);
    let early = driver.send(removal(TASK, 0, 1));
    driver.journal = Journal::Full;
    driver.send(Request::RegisterDataset(dataset(&[])));
    let late = driver.send(removal(TASK, 1, 1));
    assert!([early, late].iter().all(|call| unavailable(&driver.take(*call))));
    assert_eq!(driver.state().tasks().len(), 1);
}

/// Waiting calls of every kind, then a failed sync.
fn halted() -> (Driver, Vec<Option<Answer>>) {
    let mut driver = Driver::new();
    driver.worker("w:1", &[]);
    let (job, clients) = driver.reading_together(2);
    driver.worker("w:2", &[]);
    driver.journal = Journal::Slow;
    let calls = [
        removal(TASK, 0, 1),
        Request::RegisterDataset(dataset(&[])),
        rounds(clients[0], Some(0), Some(1)),
        Request::GetOrCreateIteration { job, repetition: 1 },
    ]
    .map(|request| driver.send(request));
    driver.fail_sync();
    let answers = calls.iter().map(|call| driver.take(*call)).collect();
    (driver, answers)
}

#[test]
fn a_failed_sync_stops_the_node_and_tells_everybody_who_waits() {
    let (driver, answers) = halted();
    assert!(driver.halted.is_some());
    assert!(answers.iter().all(unavailable), "{answers:?}");
    assert!(driver.node.deadline().is_none());
}

#[test]
fn a_stopped_node_answers_nothing_but_unavailable() {
    let (mut driver, _) = halted();
    driver.sync_upto(driver.written_upto());
    assert!(driver.take_all().is_empty());
    for request in [Request::GetConfig, Request::GetWorkers, client(CLIENT), split(ITERATION, 0, 0)]
    {
        let call = driver.send(request);
        assert!(unavailable(&driver.take(call)));
    }
    driver.advance(Duration::from_secs(10_000));
    driver.tick();
    assert!(driver.take_all().is_empty());
}

#[test]
fn a_stopped_node_leaves_what_was_acknowledged_to_its_successor() {
    let (mut driver, _) = halted();
    driver.restart();
    assert_eq!(driver.state().workers().len(), 2);
    assert_eq!(driver.ask(Request::GetConfig), Ok(Reply::Config(Default::default())));
}

/// A defect of ours: the snapshot's counter is behind the jobs in it.
fn inconsistent() -> Recovered {
    let mut driver = Driver::new();
    driver.reading(ShardingPolicy::Off);
    let mut recovery = Recovery::new();
    for part in driver.state().parts() {
        recovery.restore(Part::Dispatcher(part)).unwrap();
    }
    let counters = Counters { job: JobId::new(5000), ..driver.state().counters().clone() };
    let part = Part::Dispatcher(dispatcher::Part::Counters(counters));
    recovery.restore(part).unwrap();
    recovery.finish()
}

#[test]
fn whoever_hits_a_defect_is_told_that_the_node_stops() {
    let request = Request::GetOrCreateJob(job(&DatasetId::new("1000"), ShardingPolicy::Off));
    for durability in [Durability::Journal, Durability::MemoryOnly] {
        let status = answer_of(durability, inconsistent(), request.clone()).unwrap_err();
        assert_eq!(status.code, Code::Unavailable);
        assert!(status.message.contains("job 5000 exists already"), "{status}");
    }
}
