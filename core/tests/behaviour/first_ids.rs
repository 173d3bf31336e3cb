//! Where the ids of a journal begin.

use rondo_core::control::Durability;
use rondo_core::dispatcher::{
    Bounds, Config, GetOrCreateJob, Record, Request, ShardingPolicy, SplitSource, State,
};
use rondo_core::ids::{ClientId, DatasetId, Lsn};
use rondo_core::limits::IDS_ABOVE_MAX;
use rondo_core::status::Code;
use rondo_core::time::Duration;

use crate::driver::Driver;
use crate::world::{client, dataset, dataset_named, job, named, short, worker};

fn above(number: Option<i64>) -> Config {
    Config { ids_above: number, ..Config::default() }
}

/// A dispatcher whose first dataset comes after some other calls, and so with other entropy.
fn after_calls(count: usize, config: Config) -> (Driver, DatasetId) {
    let mut driver = Driver::with(config);
    for _ in 0..count {
        driver.ask(Request::GetWorkers).unwrap();
    }
    let dataset = driver.register(dataset(&[SplitSource::counting(3)]));
    (driver, dataset)
}

/// The same, with a reader of the job "train".
fn reading(calls: usize) -> (Driver, ClientId) {
    let (mut driver, dataset) = after_calls(calls, above(None));
    let job = driver.job(named(&dataset, "train"));
    let reader = driver.join(job, 0);
    (driver, reader)
}

#[test]
fn a_reader_of_a_lost_journal_is_not_taken_for_one_of_the_next() {
    let (_lost, former) = reading(0);
    let (mut driver, present) = reading(5);
    assert_ne!(former, present);
    let end = Request::EndReader { client: former, job: "train".into() };
    assert_eq!(driver.refused(end).code, Code::NotFound);
    assert_eq!(driver.refused(client(former)).code, Code::NotFound);
    driver.client(present);
}

#[test]
fn drawn_ids_end_as_those_of_tensorflow() {
    let (mut driver, dataset) = after_calls(3, above(None));
    let number: i64 = dataset.as_str().parse().unwrap();
    let above = number - 1000;
    assert!(above > 0 && above % 10_000 == 0, "{number}");
    driver.worker("w:1", &[]);
    let job = driver.job(job(&dataset, ShardingPolicy::Dynamic));
    let reader = driver.join(job, 0);
    let iteration = *driver.state().iterations().keys().next().unwrap();
    let task = *driver.state().tasks().keys().next().unwrap();
    let ids = [job.get(), reader.get(), iteration.get(), task.get()];
    assert_eq!(ids.map(|id| id - above), [5000, 3000, 2000, 4000]);
}

#[test]
fn a_journal_begins_its_ids_once() {
    let (mut driver, first) = after_calls(0, above(None));
    driver.restart();
    let second = driver.register(dataset(&[SplitSource::counting(4)]));
    let number = |id: &DatasetId| id.as_str().parse::<i64>().unwrap();
    assert_eq!(number(&second), number(&first) + 1);
}

/// An upgrade leaves ids where they were.
#[test]
fn a_journal_that_has_given_out_ids_goes_on_from_there() {
    let (mut driver, first) = after_calls(0, above(Some(0)));
    assert_eq!(first, DatasetId::new("1000"));
    driver.config.ids_above = None;
    driver.restart();
    let second = driver.register(dataset(&[SplitSource::counting(4)]));
    assert_eq!(second, DatasetId::new("1001"));
}

#[test]
fn a_number_may_be_given() {
    let (_, first) = after_calls(7, above(Some(30)));
    assert_eq!(first, DatasetId::new("1030"));
}

#[test]
fn a_refused_registration_raises_nothing() {
    let bounds = Bounds { datasets: 0, ..Bounds::default() };
    let mut driver = Driver::with(Config { bounds, ..above(None) });
    let refused = driver.refused(Request::RegisterDataset(dataset(&[])));
    assert_eq!(refused.code, Code::ResourceExhausted);
    assert_eq!(driver.written_upto(), Lsn::NONE);
}

#[test]
fn a_worker_that_registers_first_does_not_keep_ids_low() {
    let mut driver = Driver::with(above(Some(30)));
    driver.ask(Request::WorkerHeartbeat(worker("w:1", &[]))).unwrap();
    assert_eq!(driver.register(dataset(&[])), DatasetId::new("1030"));
}

/// A client of a lost journal must not take a job's name: nobody could read that job.
#[test]
fn a_job_on_a_dataset_that_is_not_there_is_refused() {
    let mut driver = Driver::with(above(None));
    let stale = named(&DatasetId::new("1000"), "train");
    let refused = driver.refused(Request::GetOrCreateJob(stale));
    assert_eq!(refused.code, Code::NotFound);
    assert_eq!(refused.message, "Dataset id 1000 not found");
    assert_eq!(driver.written_upto(), Lsn::NONE);
    let dataset = driver.register(dataset(&[SplitSource::counting(3)]));
    let job = driver.job(named(&dataset, "train"));
    driver.join(job, 0);
}

#[test]
fn a_record_never_lowers_ids_and_has_its_bounds() {
    let mut state = State::default();
    for above in [0, -1, i64::MIN, IDS_ABOVE_MAX + 1, i64::MAX] {
        let error = state.apply(Lsn::new(1), &Record::RaiseIds { above }).unwrap_err();
        assert!(error.to_string().contains(&above.to_string()), "{error}");
        assert_eq!(state, State::default());
    }
    state.apply(Lsn::new(1), &Record::RaiseIds { above: IDS_ABOVE_MAX }).unwrap();
    let counters = state.counters().clone();
    state.apply(Lsn::new(2), &Record::RaiseIds { above: 5 }).unwrap();
    assert_eq!(*state.counters(), counters);
}

#[test]
fn raised_ids_pass_over_those_that_users_took() {
    let mut driver = Driver::with(above(Some(0)));
    driver.register(dataset_named("1030"));
    driver.config.ids_above = Some(30);
    driver.restart();
    assert_eq!(driver.register(dataset(&[])), DatasetId::new("1031"));
}

#[test]
fn a_job_on_a_dataset_of_a_wished_id_counts_as_an_id_given_out() {
    let mut driver = Driver::with(above(Some(0)));
    let wished = driver.register(dataset_named("data"));
    let former = driver.job(named(&wished, "train"));
    driver.config.ids_above = None;
    driver.restart();
    assert_eq!(driver.register(dataset(&[])), DatasetId::new("1000"));
    assert_eq!(driver.job(named(&wished, "other")), former.next());
}

#[test]
fn ids_of_workers_stay_where_they_are() {
    let mut driver = Driver::with(above(Some(30)));
    driver.register(dataset(&[]));
    driver.worker("w:1", &[]);
    let workers: Vec<_> = driver.state().workers().keys().map(|id| id.get()).collect();
    assert_eq!(workers, [1]);
}

#[test]
fn ids_begin_above_a_number_without_a_journal_too() {
    let config = Config { fault_tolerant: false, ..above(Some(30)) };
    let mut driver = Driver::start(config, Durability::MemoryOnly);
    assert_eq!(driver.register(dataset(&[])), DatasetId::new("1030"));
}

#[test]
fn an_unknown_dataset_is_named_where_there_is_no_room_either() {
    let bounds = Bounds { jobs: 0, ..Bounds::default() };
    let mut driver = Driver::with(Config { bounds, ..Config::default() });
    let stale = named(&DatasetId::new("1000"), "train");
    assert_eq!(driver.refused(Request::GetOrCreateJob(stale)).code, Code::NotFound);
}

#[test]
fn a_job_that_waits_at_a_position_needs_its_dataset_too() {
    let mut driver = Driver::new();
    let known = driver.register(dataset(&[SplitSource::counting(3)]));
    driver.job(named(&known, "train"));
    driver.ask(Request::SavePosition { name: "p".into(), job: "train".into() }).unwrap();
    driver
        .ask(Request::RestorePosition { name: "p".into(), job: "later".into(), wanted: None })
        .unwrap();
    let written = driver.written_upto();
    let stale = named(&DatasetId::new("77"), "later");
    assert_eq!(driver.refused(Request::GetOrCreateJob(stale)).code, Code::NotFound);
    assert_eq!(driver.written_upto(), written);
}

#[test]
fn ids_begin_once_even_when_everything_was_deleted() {
    let (mut driver, first) = after_calls(0, above(None));
    driver.ask(Request::DeleteDataset { dataset: first.clone() }).unwrap();
    let second = driver.register(dataset(&[SplitSource::counting(4)]));
    let number = |id: &DatasetId| id.as_str().parse::<i64>().unwrap();
    assert_eq!(number(&second), number(&first) + 1);
}

#[test]
fn ids_begin_above_a_number_for_a_dataset_of_a_wished_id_too() {
    let mut driver = Driver::with(above(Some(30)));
    let wished = driver.register(dataset_named("data"));
    assert_eq!(driver.job(named(&wished, "train")).get(), 5030);
}

#[test]
fn the_lowest_number_counts() {
    let mut driver = Driver::with(above(Some(1)));
    assert_eq!(driver.register(dataset(&[])), DatasetId::new("1001"));
}

#[test]
fn a_job_without_a_name_or_that_was_freed_needs_its_dataset_too() {
    let mut driver = Driver::with(short());
    let known = driver.register(dataset(&[SplitSource::counting(3)]));
    driver.worker("w:1", &[]);
    let job_id = driver.job(named(&known, "train"));
    let reader = driver.join(job_id, 0);
    let task = *driver.state().tasks().keys().next().unwrap();
    driver.finish("w:1", task);
    driver.ask(Request::ReleaseClient { client: reader }).unwrap();
    driver.advance(Duration::from_secs(3600));
    assert!(driver.state().retired().get("train").is_some());
    let unknown = DatasetId::new("77");
    let freed = Request::GetOrCreateJob(named(&unknown, "train"));
    assert_eq!(driver.refused(freed).code, Code::NotFound);
    let anonymous = Request::GetOrCreateJob(job(&unknown, ShardingPolicy::Dynamic));
    assert_eq!(driver.refused(anonymous).code, Code::NotFound);
    // The dispatcher compares the parameters before the dataset.
    let other = GetOrCreateJob { sharding: ShardingPolicy::Off, ..named(&unknown, "train") };
    assert_eq!(driver.refused(Request::GetOrCreateJob(other)).code, Code::InvalidArgument);
}
