//! How much is kept at once: at a bound what is there is used as before, and one more is refused.

use rondo_core::dispatcher::{
    Bounds, Config, GetOrCreateJob, Request, ShardingPolicy, SplitSource, WorkerHeartbeat,
};
use rondo_core::ids::{DatasetId, JobId};
use rondo_core::memory::Memory;
use rondo_core::status::Code;

use crate::driver::Driver;
use crate::world::{dataset_named, job, listed, started, worker};

fn named(name: &str) -> GetOrCreateJob {
    let dataset = DatasetId::new("a");
    GetOrCreateJob { name: Some(name.into()), ..job(&dataset, ShardingPolicy::Dynamic) }
}

fn save(name: &str) -> Request {
    Request::SavePosition { name: name.into(), job: "train".into() }
}

fn restore(name: &str, job: &str) -> Request {
    Request::RestorePosition { name: name.into(), job: job.into(), wanted: None }
}

fn join(job: JobId, repetition: i64) -> Request {
    Request::GetOrCreateIteration { job, repetition }
}

/// One thing of each kind, where `bounds` allow it.
fn one_of_each(bounds: Bounds) -> (Driver, JobId) {
    let mut driver = Driver::with(Config { bounds, ..Config::default() });
    driver.worker("w:1", &[]);
    driver.register(dataset_named("a"));
    let job = driver.job(named("train"));
    driver.join(job, 0);
    driver.ask(save("p")).unwrap();
    (driver, job)
}

const ONE: Bounds = Bounds {
    datasets: 1,
    jobs: 1,
    iterations: 1,
    clients: 1,
    tasks: 1,
    workers: 1,
    positions: 1,
    position_sources: 1,
    waiting_calls: 1,
    expiries_per_step: 1,
};

#[test]
fn one_more_is_refused_and_nothing_is_written() {
    let job = JobId::new(5000);
    let more = [
        ("datasets", ONE, Request::RegisterDataset(dataset_named("b"))),
        ("jobs", ONE, Request::GetOrCreateJob(named("other"))),
        ("clients", ONE, join(job, 0)),
        ("iterations", Bounds { clients: 2, ..ONE }, join(job, 1)),
        ("tasks", Bounds { clients: 2, iterations: 2, ..ONE }, join(job, 1)),
        ("workers", ONE, Request::WorkerHeartbeat(worker("w:2", &[]))),
        ("tasks", Bounds { workers: 2, ..ONE }, Request::WorkerHeartbeat(worker("w:2", &[]))),
        ("positions", ONE, save("q")),
    ];
    for (what, bounds, request) in more {
        let (mut driver, _) = one_of_each(bounds);
        let written = driver.node.last();
        let status = driver.refused(request);
        assert_eq!(status.code, Code::ResourceExhausted, "{what}");
        assert!(status.message.contains(what) && status.message.contains('1'), "{status}");
        assert_eq!(driver.node.last(), written, "{what}");
    }
}

#[test]
fn what_is_there_is_used_as_before() {
    let (mut driver, train) = one_of_each(Bounds { clients: 2, ..ONE });
    driver.register(dataset_named("a"));
    assert_eq!(driver.job(named("train")), train);
    driver.join(train, 0);
    driver.worker("w:1", &[]);
    driver.ask(save("p")).unwrap();
}

#[test]
fn sources_of_all_repetitions_count_in_a_position() {
    let mut driver = Driver::with(Config {
        bounds: Bounds { position_sources: 3, ..Bounds::default() },
        ..Config::default()
    });
    let two = [SplitSource::counting(4), SplitSource::counting(5)];
    let dataset = driver.register(crate::world::dataset(&two));
    let train = driver.job(GetOrCreateJob { dataset, ..named("train") });
    driver.join(train, 0);
    driver.ask(save("p")).unwrap();
    driver.join(train, 1);
    let status = driver.refused(save("p"));
    assert_eq!(status.code, Code::ResourceExhausted);
    assert!(status.message.contains("sources"), "{status}");
}

const REASON: &str = "80 of 100 bytes are in use";

fn short_of_memory(driver: &mut Driver) {
    driver.learn(Memory::Short(REASON.into()));
}

/// The worker that is there, with a tag of so many bytes.
fn tagged(bytes: usize) -> WorkerHeartbeat {
    WorkerHeartbeat { tags: vec!["t".repeat(bytes)], ..worker("w:1", &[]) }
}

/// The same with many empty tags: each takes memory.
fn many_tags() -> WorkerHeartbeat {
    WorkerHeartbeat { tags: vec![String::new(); 100], ..worker("w:1", &[]) }
}

#[test]
fn nothing_is_added_while_memory_is_short() {
    let (mut driver, _) = one_of_each(Bounds::default());
    let refused = [
        ("datasets", Request::RegisterDataset(dataset_named("b"))),
        ("jobs", Request::GetOrCreateJob(named("other"))),
        ("workers", Request::WorkerHeartbeat(worker("w:2", &[]))),
        ("tags and addresses of workers", Request::WorkerHeartbeat(tagged(1001))),
        ("tags and addresses of workers", Request::WorkerHeartbeat(many_tags())),
        ("positions", save("q")),
        ("jobs that wait at a position", restore("p", "other")),
    ];
    short_of_memory(&mut driver);
    for (what, request) in refused.clone() {
        let written = driver.node.last();
        let status = driver.refused(request);
        assert_eq!(status.code, Code::ResourceExhausted, "{what}");
        assert_eq!(status.message, format!("there is no memory for more {what}: {REASON}"));
        assert_eq!(driver.node.last(), written, "{what}");
    }
    driver.learn(Memory::Enough);
    for (what, request) in refused {
        driver.ask(request).unwrap_or_else(|status| panic!("{what}: {status}"));
    }
}

/// The next epoch of a job that runs, and a reader that comes back.
#[test]
fn clients_and_iterations_are_added_while_there_is_any_memory() {
    let (mut driver, train) = one_of_each(Bounds::default());
    short_of_memory(&mut driver);
    driver.join(train, 0);
    driver.join(train, 1);
    driver.learn(Memory::None(REASON.into()));
    for repetition in [1, 2] {
        let status = driver.refused(join(train, repetition));
        assert_eq!(status.code, Code::ResourceExhausted);
        assert_eq!(status.message, format!("there is no memory for more clients: {REASON}"));
    }
}

/// Heartbeats, splits, and all that frees memory.
#[test]
fn a_job_that_runs_goes_on_while_memory_is_short() {
    let (mut driver, train) = one_of_each(Bounds::default());
    let client = *driver.state().clients().keys().next().unwrap();
    let iteration = driver.iteration(train, 0);
    for memory in [Memory::Short(REASON.into()), Memory::None(REASON.into())] {
        driver.learn(memory);
        driver.register(dataset_named("a"));
        assert_eq!(driver.job(named("train")), train);
        driver.ask(save("p")).unwrap();
        let tasks = listed(&driver.client(client));
        assert_eq!(tasks.len(), 1);
        driver.worker("w:1", &tasks);
        assert!(driver.split(iteration, 0, 0).is_some());
    }
    driver.release(client);
    driver.ask(Request::DeletePosition { name: "p".into() }).unwrap();
}

/// A process that takes a worker's place takes no more memory, but for a longer address.
#[test]
fn a_worker_may_restart_while_memory_is_short() {
    let (mut driver, train) = one_of_each(Bounds::default());
    short_of_memory(&mut driver);
    driver.ask(Request::WorkerHeartbeat(tagged(1000))).unwrap();
    let started = started(&driver.worker("w:1", &[]));
    assert_eq!(started.len(), 1, "{:?}", driver.iteration(train, 0));
}

#[test]
fn memory_is_looked_at_anew_after_a_restart() {
    let (mut driver, _) = one_of_each(Bounds::default());
    short_of_memory(&mut driver);
    driver.restart();
    driver.register(dataset_named("b"));
}
