//! Creating and joining iterations.

use rondo_core::control::{self, Durability, Recovery};
use rondo_core::dispatcher::{
    Config, GetOrCreateJob, Record, Request, ShardingPolicy, SplitPlan, SplitSource, TargetWorkers,
};
use rondo_core::ids::{ClientId, DatasetId, JobId, Lsn, TaskId};
use rondo_core::status::Code;
use rondo_core::time::{Duration, Time};

use crate::driver::{Driver, Journal, answer_of};
use crate::world::{dataset, job, listed};

#[test]
fn every_worker_gets_a_task_and_is_told_at_once() {
    let mut driver = Driver::new();
    for address in ["w:1", "w:2"] {
        driver.worker(address, &[]);
    }
    let (_, client) = driver.reading(ShardingPolicy::Off);
    let tasks = [TaskId::new(4000), TaskId::new(4001)];
    assert_eq!(listed(&driver.client(client)), tasks);
    let pushed: Vec<_> = driver.pushes.iter().map(|p| (&*p.worker_address, p.task)).collect();
    assert_eq!(pushed, [("w:1", tasks[0]), ("w:2", tasks[1])]);
}

#[test]
fn workers_are_told_only_of_what_is_durable() {
    let mut driver = Driver::new();
    driver.worker("w:1", &[]);
    let dataset = driver.register(dataset(&[]));
    let job = driver.job(job(&dataset, ShardingPolicy::Off));
    driver.journal = Journal::Slow;
    let call = driver.send(Request::GetOrCreateIteration { job, repetition: 0 });
    assert!(driver.pushes.is_empty() && driver.take(call).is_none());
    driver.sync();
    assert!(driver.pushes.len() == 1 && driver.take(call).is_some());
}

#[test]
fn a_task_is_described_in_full() {
    let config =
        Config { worker_addresses: vec!["a:1".into(), "w:%port%".into()], ..Config::default() };
    for (sharding, providers, workers, index) in [
        (ShardingPolicy::Off, 0, 0, 0),
        (ShardingPolicy::Dynamic, 2, 0, 0),
        (ShardingPolicy::Data, 0, 2, 1),
        (ShardingPolicy::Hint, 0, 2, 1),
    ] {
        let mut driver = Driver::with(config.clone());
        driver.worker("w:77", &[]);
        let registered = dataset(&[SplitSource::counting(3), SplitSource::counting(4)]);
        let id = driver.register(registered.clone());
        let job =
            driver.job(GetOrCreateJob { use_cross_trainer_cache: true, ..job(&id, sharding) });
        driver.join(job, 0);
        let task = driver.pushes.pop().unwrap();
        assert_eq!((task.dataset, task.definition), (id, registered.definition));
        assert_eq!((task.sharding, task.split_providers), (sharding, providers));
        assert_eq!((task.workers, task.worker_index), (workers, index), "{sharding:?}");
        assert_eq!((task.consumers, task.use_cross_trainer_cache), (None, true));
        assert_eq!(&*task.worker_address, "w:77");
    }
}

#[test]
fn a_coordinated_task_names_the_number_of_consumers() {
    let mut driver = Driver::new();
    driver.worker("w:1", &[]);
    driver.reading_together(3);
    assert_eq!(driver.pushes[0].consumers, Some(3));
}

#[test]
fn joining_gives_every_client_an_id_and_makes_no_new_tasks() {
    let mut driver = Driver::new();
    driver.worker("w:1", &[]);
    let (job, first) = driver.reading(ShardingPolicy::Off);
    let second = driver.join(job, 0);
    assert_eq!((first, second), (ClientId::new(3000), ClientId::new(3001)));
    assert_eq!(driver.client(first), driver.client(second));
    assert_eq!(driver.pushes.len(), 1);
}

#[test]
fn each_repetition_is_an_iteration_of_its_own() {
    let mut driver = Driver::new();
    let (job, _) = driver.reading(ShardingPolicy::Off);
    driver.join(job, 1);
    assert_ne!(driver.iteration(job, 0), driver.iteration(job, 1));
}

#[test]
fn a_finished_iteration_can_be_joined_and_is_over() {
    let mut driver = Driver::new();
    driver.worker("w:1", &[]);
    let (job, _) = driver.reading(ShardingPolicy::Off);
    driver.finish("w:1", TaskId::new(4000));
    let late = driver.join(job, 0);
    assert!(driver.client(late).iteration_finished);
}

#[test]
fn a_collected_iteration_is_begun_anew() {
    let mut driver = Driver::new();
    driver.worker("w:1", &[]);
    let (job, client) = driver.reading(ShardingPolicy::Off);
    let first = driver.iteration(job, 0);
    driver.release(client);
    driver.advance(Duration::from_secs(700));
    assert!(driver.state().iterations()[&first].collected);
    driver.worker("w:1", &[]);
    let again = driver.join(job, 0);
    assert_ne!(driver.iteration(job, 0), first);
    let reply = driver.client(again);
    assert_eq!((listed(&reply), reply.iteration_finished), (vec![TaskId::new(4001)], false));
    driver.restart();
    assert_ne!(driver.iteration(job, 0), first, "after a restart too");
}

#[test]
fn an_unknown_job_is_not_found() {
    let mut driver = Driver::new();
    let request = Request::GetOrCreateIteration { job: JobId::new(1), repetition: 0 };
    let status = driver.refused(request);
    assert_eq!((status.code, &*status.message), (Code::NotFound, "Job with id 1 not found"));
}

/// Former releases created such jobs, and their journals have them.
#[test]
fn a_job_of_an_unknown_dataset_is_refused_when_it_is_read() {
    let job = Record::CreateJob {
        id: JobId::new(5000),
        name: "old".into(),
        dataset: DatasetId::new("77"),
        sharding: ShardingPolicy::Off,
        consumers: None,
        use_cross_trainer_cache: false,
        target_workers: TargetWorkers::Auto,
        anonymous: false,
        at: Time::ZERO,
    };
    let mut recovery = Recovery::new();
    recovery.apply(Lsn::new(1), &control::Record::Dispatcher(job)).unwrap();
    let request = Request::GetOrCreateIteration { job: JobId::new(5000), repetition: 0 };
    let status = answer_of(Durability::Journal, recovery.finish(), request).unwrap_err();
    assert_eq!((status.code, &*status.message), (Code::NotFound, "Dataset id 77 not found"));
}

#[test]
fn a_negative_repetition_is_refused() {
    let mut driver = Driver::new();
    let (job, _) = driver.reading(ShardingPolicy::Off);
    let status = driver.refused(Request::GetOrCreateIteration { job, repetition: -1 });
    assert_eq!(status.code, Code::InvalidArgument);
    assert_eq!(status.message, "repetition is -1; it must be at least 0");
}

#[test]
fn what_cannot_be_split_is_refused_with_its_own_status_under_dynamic_only() {
    let mut driver = Driver::new();
    let text = "Splitting is not implemented for snapshot datasets.";
    let mut request = dataset(&[]);
    request.plan = SplitPlan::Unsplittable { code: Code::Unimplemented, message: text.into() };
    let id = driver.register(request);
    let whole = driver.job(job(&id, ShardingPolicy::Off));
    driver.join(whole, 0);
    let split = driver.job(job(&id, ShardingPolicy::Dynamic));
    let status = driver.refused(Request::GetOrCreateIteration { job: split, repetition: 0 });
    assert_eq!((status.code, &*status.message), (Code::Unimplemented, text));
    assert_eq!(driver.state().iterations().len(), 1, "nothing is recorded of the refused one");
}

#[test]
fn static_sharding_needs_a_list_of_workers() {
    for sharding in [ShardingPolicy::File, ShardingPolicy::FileOrData] {
        for with_worker in [false, true] {
            let mut driver = Driver::new();
            if with_worker {
                driver.worker("w:1", &[]);
            }
            let id = driver.register(dataset(&[]));
            let job = driver.job(job(&id, sharding));
            let status = driver.refused(Request::GetOrCreateIteration { job, repetition: 0 });
            assert_eq!(status.code, Code::NotFound);
            assert!(status.message.contains(" is not in the workers list."), "{status}");
            assert!(driver.state().iterations().is_empty() && driver.state().clients().is_empty());
        }
    }
}
