//! What nobody uses is freed, what somebody uses is not, and nothing freed is mistaken for something
//! else.

use rondo_core::control::{self, Durability, Effect, Effects, Input, Node, Recovered, Recovery};
use rondo_core::dispatcher::{
    Config, GetOrCreateJob, Record, RegisterDataset, Reply, Request, ShardingPolicy, SplitSource,
};
use rondo_core::ids::{CallId, ClientId, DatasetId, IterationId, JobId, Lsn, TaskId};
use rondo_core::invariant;
use rondo_core::limits::EXPIRIES_PER_STEP_MAX;
use rondo_core::status::Code;
use rondo_core::time::{Duration, Time};

use crate::driver::{Driver, Journal};
use crate::world::{client, dataset, dataset_named, job, removal, split, update};

const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3600);
const WORKER: &str = "w:1";

/// Maintenance every second; a GC timeout of 30 s, an hour for named jobs and three for datasets.
fn config() -> Config {
    Config {
        job_gc_check_interval: SECOND,
        job_gc_timeout: Some(Duration::from_secs(30)),
        named_job_retention: Some(HOUR),
        dataset_retention: Some(Duration::from_secs(3 * 3600)),
        worker_timeout: None,
        ..Config::default()
    }
}

fn driver() -> Driver {
    let mut driver = Driver::with(config());
    driver.worker(WORKER, &[]);
    driver
}

fn named(dataset: &DatasetId, name: &str) -> GetOrCreateJob {
    GetOrCreateJob { name: Some(name.into()), ..job(dataset, ShardingPolicy::Dynamic) }
}

/// A dataset whose definition is a blob.
fn large() -> RegisterDataset {
    let mut request = dataset(&[SplitSource::counting(9)]);
    request.definition.inline = None;
    request
}

/// Reads an iteration to its end and leaves it.
fn read_out(driver: &mut Driver, client: ClientId) {
    let tasks = driver.client(client).tasks;
    for task in &*tasks {
        driver.finish(WORKER, task.task);
    }
    assert!(driver.client(client).iteration_finished);
    driver.release(client);
}

#[test]
fn a_finished_iteration_goes_with_its_tasks_after_the_gc_timeout() {
    let mut driver = driver();
    let (job, id) = driver.reading(ShardingPolicy::Dynamic);
    let iteration = driver.iteration(job, 0);
    read_out(&mut driver, id);
    driver.advance(Duration::from_secs(29));
    assert_eq!((driver.state().iterations().len(), driver.state().tasks().len()), (1, 1));
    driver.advance(SECOND);
    assert_eq!((driver.state().iterations().len(), driver.state().tasks().len()), (0, 0));
    // Whoever still talks of it hears what of any unknown thing.
    assert_eq!(driver.refused(client(id)).code, Code::NotFound);
    assert_eq!(driver.refused(split(iteration, 0, 0)).code, Code::NotFound);
    let task = TaskId::new(4000);
    assert_eq!(driver.worker(WORKER, &[task]).tasks_to_delete, [task]);
    assert_eq!(driver.ask(update(WORKER, &[(task, true)])), Ok(Reply::WorkerUpdated));
    driver.restart();
    assert_eq!(driver.state().iterations().len(), 0);
}

#[test]
fn an_iteration_with_a_client_is_kept_however_long_it_is_finished() {
    let mut driver = driver();
    let (_, id) = driver.reading(ShardingPolicy::Off);
    driver.finish(WORKER, TaskId::new(4000));
    for _ in 0..200 {
        assert!(driver.client(id).iteration_finished);
        driver.advance(Duration::from_secs(60));
    }
}

#[test]
fn an_iteration_whose_task_consumers_vote_on_is_kept() {
    let mut driver = driver();
    let (_, clients) = driver.reading_together(2);
    driver.finish(WORKER, TaskId::new(4000));
    clients.into_iter().for_each(|client| driver.release(client));
    driver.advance(Duration::from_secs(25));
    let call = driver.send(removal(TaskId::new(4000), 0, 5));
    driver.advance(Duration::from_secs(9));
    assert_eq!(driver.state().iterations().len(), 1, "34 s after its last client left");
    driver.advance(Duration::from_secs(2));
    assert_eq!(driver.take(call), Some(Ok(Reply::TaskRemoved(false))));
    assert_eq!(driver.state().iterations().len(), 0);
}

#[test]
fn a_collected_iteration_is_kept_until_its_workers_can_have_been_told() {
    let mut driver = driver();
    let (job, id) = driver.reading(ShardingPolicy::Off);
    driver.release(id);
    driver.advance(Duration::from_secs(31));
    assert!(driver.state().iteration_of(job, 0).unwrap().collected);
    driver.advance(Duration::from_secs(28));
    assert!(driver.state().iteration_of(job, 0).is_some());
    driver.advance(Duration::from_secs(3));
    assert!(driver.state().iteration_of(job, 0).is_none());
    // It was given up, not finished: a named or a patient reader begins anew.
    let again = driver.join(job, 0);
    assert!(!driver.client(again).iteration_finished);
}

#[test]
fn a_late_consumer_of_a_freed_repetition_sees_it_finished_and_empty() {
    let mut driver = driver();
    let dataset = driver.register(dataset(&[SplitSource::counting(3)]));
    let job = driver.job(named(&dataset, "shared"));
    let first = driver.join(job, 0);
    read_out(&mut driver, first);
    driver.advance(Duration::from_secs(40));
    assert_eq!(driver.state().iterations().len(), 0);
    driver.restart();
    assert_eq!(driver.job(named(&dataset, "shared")), job);
    let late = driver.join(job, 0);
    let reply = driver.client(late);
    assert!(reply.iteration_finished && reply.tasks.is_empty());
    assert!(!driver.worker(WORKER, &[]).new_tasks.iter().any(|task| task.iteration.get() > 2000));
    let next = driver.join(job, 1);
    assert!(!driver.client(next).iteration_finished);
    driver.release(late);
    driver.advance(Duration::from_secs(40));
    assert!(driver.state().iteration_of(job, 0).is_none(), "the empty one is freed again");
}

#[test]
fn jobs_go_when_nobody_uses_them_for_their_retention() {
    let mut driver = driver();
    let dataset = driver.register(dataset(&[SplitSource::counting(3)]));
    let never_read = driver.job(job(&dataset, ShardingPolicy::Off));
    let anonymous = driver.job(job(&dataset, ShardingPolicy::Off));
    let kept = driver.job(named(&dataset, "kept"));
    for job in [anonymous, kept] {
        let client = driver.join(job, 0);
        read_out(&mut driver, client);
    }
    driver.advance(Duration::from_secs(89));
    assert!(driver.state().jobs().contains_key(&never_read));
    driver.advance(Duration::from_secs(2));
    let left: Vec<JobId> = driver.state().jobs().keys().copied().collect();
    assert_eq!(left, [kept], "30 s and the minute for whoever is on its way");
    driver.advance(HOUR);
    assert!(driver.state().jobs().is_empty());
    let again = driver.job(named(&dataset, "kept"));
    assert!(again > kept, "an id is used once");
    let client = driver.join(again, 0);
    assert!(driver.client(client).iteration_finished, "what was read stays read");
    let client = driver.join(again, 1);
    assert!(!driver.client(client).iteration_finished);
    let refused = driver.refused(Request::GetOrCreateIteration { job: kept, repetition: 0 });
    assert_eq!(refused.code, Code::NotFound);
}

#[test]
fn whoever_asks_for_a_named_job_keeps_it() {
    let mut driver = driver();
    let dataset = driver.register(dataset(&[]));
    let job = driver.job(named(&dataset, "asked for"));
    for _ in 0..5 {
        driver.advance(Duration::from_secs(3500));
        assert_eq!(driver.job(named(&dataset, "asked for")), job);
    }
    driver.restart();
    driver.advance(Duration::from_secs(3500));
    driver.join(job, 0);
}

#[test]
fn datasets_go_when_no_job_reads_them_for_their_retention() {
    let mut driver = driver();
    let unread = driver.register(dataset(&[]));
    let read = driver.register(dataset(&[SplitSource::counting(3)]));
    let again = driver.register(dataset_named("again"));
    for _ in 0..5 {
        let job = driver.job(job(&read, ShardingPolicy::Off));
        let client = driver.join(job, 0);
        read_out(&mut driver, client);
        driver.advance(HOUR);
        driver.register(dataset_named("again"));
    }
    let left: Vec<DatasetId> = driver.state().datasets().keys().cloned().collect();
    assert_eq!(left, [read.clone(), again]);
    let refused = driver.refused(Request::GetMetadata { dataset: unread });
    assert_eq!(refused.code, Code::NotFound);
    driver.advance(Duration::from_secs(4 * 3600));
    assert!(driver.state().datasets().is_empty());
    assert_ne!(driver.register(dataset(&[])), read, "an id is used once");
}

#[test]
fn an_id_of_somebodys_wish_is_never_given_to_other_data() {
    let mut driver = driver();
    let wished = driver.register(dataset_named("1002"));
    driver.advance(Duration::from_secs(4 * 3600));
    let given: Vec<DatasetId> = (0..4).map(|_| driver.register(dataset(&[]))).collect();
    assert!(!given.contains(&wished), "{given:?}");
    driver.advance(Duration::from_secs(4 * 3600));
    assert!(driver.state().datasets().is_empty(), "passed over, it may go");
    assert_ne!(driver.register(dataset(&[])), wished);
}

#[test]
fn a_blob_goes_with_the_last_dataset_that_has_it() {
    let mut driver = driver();
    let (first, second) = (driver.register(large()), driver.register(large()));
    let job = driver.job(named(&second, "reader"));
    driver.advance(Duration::from_secs(4 * 3600 - 100));
    assert!(!driver.state().datasets().contains_key(&first));
    assert_eq!(driver.blobs.len(), 1);
    driver.advance(Duration::from_secs(4 * 3600));
    assert!(!driver.state().jobs().contains_key(&job) && driver.state().datasets().is_empty());
    assert_eq!(driver.blobs.len(), 0);
}

#[test]
fn a_blob_stays_until_its_end_is_durable_and_if_it_is_named_anew_meanwhile() {
    let mut driver = driver();
    driver.register(large());
    driver.journal = Journal::Slow;
    driver.advance(Duration::from_secs(4 * 3600));
    assert!(driver.state().datasets().is_empty());
    assert_eq!(driver.blobs.len(), 1, "a crash now would bring the dataset back");
    let call = driver.send(Request::RegisterDataset(large()));
    driver.sync();
    assert!(driver.take(call).unwrap().is_ok());
    assert_eq!(driver.blobs.len(), 1, "another dataset has it");
    driver.restart();
}

/// Freed, registered and freed again before the first of these is durable: only the last may take
/// the blob.
#[test]
fn a_blob_named_between_two_ends_stays_until_the_second_is_durable() {
    let config = Config { dataset_retention: Some(SECOND), ..config() };
    let mut driver = Driver::with(config);
    driver.register(large());
    driver.journal = Journal::Slow;
    driver.advance(Duration::from_secs(70));
    let first_end = driver.written_upto();
    let call = driver.send(Request::RegisterDataset(large()));
    let registered = driver.written_upto();
    driver.advance(Duration::from_secs(70));
    assert!(driver.state().datasets().is_empty() && registered > first_end);
    driver.sync_upto(registered);
    assert!(driver.take(call).unwrap().is_ok());
    assert_eq!(driver.blobs.len(), 1);
    driver.restart();
    assert_eq!(driver.state().datasets().len(), 1);
}

#[test]
fn retentions_that_are_off_keep_for_ever() {
    let off = Config { named_job_retention: None, dataset_retention: None, ..config() };
    let mut driver = Driver::with(off);
    driver.worker(WORKER, &[]);
    let dataset = driver.register(dataset(&[]));
    let job = driver.job(named(&dataset, "for ever"));
    let client = driver.join(job, 0);
    read_out(&mut driver, client);
    driver.advance(Duration::from_secs(100_000));
    assert_eq!(driver.state().iterations().len(), 0);
    let late = driver.join(job, 0);
    assert!(driver.client(late).iteration_finished);
    driver.register(dataset_named("unread"));
    driver.advance(Duration::from_secs(100_000));
    assert_eq!(driver.state().datasets().len(), 2);
}

#[test]
fn a_mass_of_finished_iterations_is_freed_in_slices() {
    let mut driver = driver();
    let dataset = driver.register(dataset(&[]));
    let job = driver.job(job(&dataset, ShardingPolicy::Off));
    let many = EXPIRIES_PER_STEP_MAX + 3;
    for repetition in 0..many {
        let client = driver.join(job, repetition as i64);
        read_out(&mut driver, client);
    }
    driver.now = driver.now.after(Duration::from_secs(31));
    driver.tick();
    assert_eq!(driver.state().iterations().len(), 3);
    driver.tick();
    assert_eq!(driver.state().iterations().len(), 0);
    assert_eq!(driver.state().jobs()[&job].finished.ranges().len(), 1);
    let report = driver.node.dispatcher().report(driver.now);
    let reported = report.jobs.iter().find(|it| it.id == job.get()).unwrap();
    assert_eq!(
        (reported.finished.as_slice(), reported.abandoned.as_slice()),
        (&["0-258".into()][..], &[][..])
    );
}

/// What journals of before the retentions say of times: nothing. Their things are new then.
#[test]
fn what_has_no_time_is_kept_for_its_retention_from_now_on() {
    let registered = dataset(&[]);
    let records = [
        Record::RegisterDataset {
            id: DatasetId::new("1000"),
            definition: registered.definition,
            plan: registered.plan,
            metadata: registered.metadata,
            at: Time::ZERO,
        },
        Record::CreateJob {
            id: JobId::new(5000),
            name: "old".into(),
            dataset: DatasetId::new("elsewhere"),
            sharding: ShardingPolicy::Off,
            consumers: None,
            use_cross_trainer_cache: false,
            target_workers: rondo_core::dispatcher::TargetWorkers::Auto,
            anonymous: false,
            at: Time::ZERO,
        },
    ];
    let mut recovery = Recovery::new();
    for (lsn, record) in (1..).zip(records) {
        recovery.apply(Lsn::new(lsn), &control::Record::Dispatcher(record)).unwrap();
    }
    let start = Time::from_millis(1_000_000);
    let mut node = Node::start(Durability::MemoryOnly, config(), recovery.finish(), start);
    let live = |node: &mut Node, until: Duration| {
        let mut effects = Effects::new();
        while let Some((at, _)) = node.deadline().filter(|(at, _)| *at <= start.after(until)) {
            node.step(at, Input::Tick, &mut effects);
        }
    };
    live(&mut node, Duration::from_secs(3600));
    let state = node.dispatcher().state();
    assert_eq!((state.jobs().len(), state.datasets().len()), (1, 1));
    live(&mut node, Duration::from_secs(7 * 3600));
    let state = node.dispatcher().state();
    assert_eq!((state.jobs().len(), state.datasets().len()), (0, 0));
}

/// A node without the driver's checks after every step, for many of them.
struct Busy {
    node: Node,
    now: Time,
    calls: u64,
    replayed: Recovery,
}

impl Busy {
    fn step(&mut self, input: Input) -> Option<Reply> {
        let mut effects = Effects::new();
        self.node.step(self.now, input, &mut effects);
        let mut reply = None;
        for effect in effects.drain() {
            match effect {
                Effect::Append { lsn, record } => self.replayed.apply(lsn, &record).unwrap(),
                Effect::Sync { upto } => reply = reply.or(self.step(Input::Synced { upto })),
                Effect::Reply { result, .. } => {
                    let answer = crate::driver::of_dispatcher(result.unwrap());
                    reply = Some(answer);
                }
                _ => {}
            }
        }
        reply
    }

    fn ask(&mut self, request: Request) -> Reply {
        self.calls += 1;
        let call = CallId::new(self.calls);
        let request = control::Request::Dispatcher(request);
        self.step(Input::Request { call, request, entropy: self.calls }).unwrap()
    }

    fn advance(&mut self, span: Duration) {
        let until = self.now.after(span);
        while let Some((at, _)) = self.node.deadline().filter(|(at, _)| *at <= until) {
            self.now = self.now.max(at);
            self.step(Input::Tick);
        }
        self.now = until;
    }

    fn read_anonymously(&mut self) {
        let Reply::Dataset(dataset) = self.ask(Request::RegisterDataset(large())) else {
            panic!("no dataset")
        };
        let job = job(&dataset, ShardingPolicy::Dynamic);
        let Reply::Job(job) = self.ask(Request::GetOrCreateJob(job)) else { panic!("no job") };
        let joined = self.ask(Request::GetOrCreateIteration { job, repetition: 0 });
        let Reply::Client(client) = joined else { panic!("no client") };
        let iteration: IterationId =
            self.node.dispatcher().state().iteration_of(job, 0).unwrap().id;
        self.ask(split(iteration, 0, 0));
        let tasks = self.node.dispatcher().state().iterations()[&iteration].tasks.clone();
        let done: Vec<_> = tasks.into_iter().map(|task| (task, true)).collect();
        self.ask(update(WORKER, &done));
        self.ask(Request::ReleaseClient { client });
    }
}

#[test]
fn ten_thousand_anonymous_jobs_leave_almost_nothing_behind() {
    let config = Config { job_gc_check_interval: Duration::from_secs(10), ..config() };
    let now = Time::from_millis(1_000_000);
    let node = Node::start(Durability::Journal, config.clone(), Recovered::default(), now);
    let mut busy = Busy { node, now, calls: 0, replayed: Recovery::new() };
    busy.ask(Request::WorkerHeartbeat(crate::world::worker(WORKER, &[])));
    let mut most = 0;
    for _ in 0..100 {
        (0..100).for_each(|_| busy.read_anonymously());
        busy.advance(Duration::from_secs(600));
        most = most.max(busy.replayed.parts().len());
    }
    // Datasets are kept for three hours, of which there are sixteen; the rest is gone at once.
    assert!(most < 4000, "{most} parts at once");
    busy.advance(Duration::from_secs(5 * 3600));
    let parts = busy.replayed.parts();
    assert_eq!(parts.len(), 2, "the counters and the worker: {parts:?}");
    let mut restored = Recovery::new();
    parts.into_iter().for_each(|part| restored.restore(part).unwrap());
    restored.restored_upto(busy.replayed.applied());
    let recovered = restored.finish();
    assert_eq!(recovered.dispatcher, *busy.node.dispatcher().state(), "in memory as well");
    let node = Node::start(Durability::Journal, config, recovered, busy.now);
    invariant::check_all(&node).unwrap();
    busy.node = node;
    busy.read_anonymously();
    assert!(busy.node.dispatcher().state().jobs().contains_key(&JobId::new(15_000)));
}
