//! A service that runs for months keeps what is in use or was used of late, and names of freed jobs.

use rondo_core::dispatcher::{Config, Part, RegisterDataset, ShardingPolicy, SplitSource};
use rondo_core::ids::{DatasetId, JobId, TaskId};
use rondo_core::time::Duration;

use crate::driver::Driver;
use crate::world::{dataset, job, listed, named};

const PODS: usize = 5;
const DAYS: u64 = 30;

/// All retentions as by default.
fn config() -> Config {
    Config { job_gc_check_interval: Duration::from_secs(600), ..Config::default() }
}

/// How many parts of each kind a snapshot has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Size {
    datasets: usize,
    workers: usize,
    jobs: usize,
    iterations: usize,
    clients: usize,
    tasks: usize,
    freed_names: usize,
}

fn size(driver: &Driver) -> Size {
    let mut size = Size::default();
    for part in driver.state().parts() {
        match part {
            Part::Dataset(_) => size.datasets += 1,
            Part::Worker(_) => size.workers += 1,
            Part::Job(_) => size.jobs += 1,
            Part::Iteration(_) => size.iterations += 1,
            Part::Client(_) => size.clients += 1,
            Part::Task(_) => size.tasks += 1,
            Part::RetiredJob(_) => size.freed_names += 1,
            Part::Counters(_) => {}
            other => panic!("nobody made {other:?}"),
        }
    }
    size
}

/// The day's workers, which are new ones.
struct Pods(Vec<String>);

impl Pods {
    fn start(driver: &mut Driver, day: u64) -> Self {
        let pods: Vec<_> = (0..PODS).map(|pod| format!("pod-{day}-{pod}:1")).collect();
        pods.iter().for_each(|pod| drop(driver.worker(pod, &[])));
        Self(pods)
    }

    /// Reads a repetition of a job to its end, or a part of it.
    fn read(&self, driver: &mut Driver, job: JobId, repetition: i64, to_the_end: bool) {
        let client = driver.join(job, repetition);
        let iteration = driver.iteration(job, repetition);
        while driver.split(iteration, repetition, 0).is_some() && to_the_end {}
        let tasks: Vec<TaskId> = listed(&driver.client(client));
        assert_eq!(tasks.len(), PODS);
        for task in tasks.iter().filter(|_| to_the_end) {
            let worker = driver.state().tasks()[task].worker;
            let pod = driver.state().workers()[&worker].address.to_string();
            assert!(self.0.contains(&pod), "a task went to a pod of another day");
            driver.finish(&pod, *task);
        }
        driver.release(client);
    }
}

/// Five new pods, a new dataset, a job with two epochs, an anonymous job, and a job that is left in the
/// middle. The rest of the day nothing happens.
fn live_a_day(driver: &mut Driver, day: u64) {
    let pods = Pods::start(driver, day);
    let data = dataset(&[SplitSource::counting(3 + day as i64)]);
    let id = DatasetId::new(format!("data-{day}"));
    let data = driver.register(RegisterDataset { wished: Some(id), ..data });
    let train = driver.job(named(&data, &format!("train-{day}")));
    pods.read(driver, train, 0, true);
    pods.read(driver, train, 1, true);
    let anonymous = driver.job(job(&data, ShardingPolicy::Dynamic));
    pods.read(driver, anonymous, 0, true);
    let left = driver.job(named(&data, &format!("left-{day}")));
    pods.read(driver, left, 0, false);
    // In small steps, so that the machine was never held up.
    for _ in 0..24 * 3600 / 20 {
        driver.advance(Duration::from_secs(20));
    }
}

#[test]
fn a_month_of_new_pods_datasets_and_jobs_every_day_keeps_a_state_of_bounded_size() {
    let mut driver = Driver::with(config());
    let mut sizes = Vec::new();
    for day in 0..DAYS {
        live_a_day(&mut driver, day);
        sizes.push(Size { freed_names: 0, ..size(&driver) });
    }
    // docs/operations.md states these sizes.
    let stated = Size { datasets: 15, workers: PODS, jobs: 9, iterations: 7, ..Size::default() };
    assert_eq!(sizes[15..], vec![stated.clone(); DAYS as usize - 15]);
    // Of two named jobs a day each is there or has left its name.
    let freed_names = 2 * DAYS as usize - stated.jobs;
    let stated = Size { freed_names, ..stated };
    assert_eq!(size(&driver), stated);
    driver.restart();
    assert_eq!(size(&driver), stated);
}
