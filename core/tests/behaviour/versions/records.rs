//! Versions in the journal: what records may say, what a snapshot tells, and what an answer waits for.

use rondo_core::control::{Durability, Recovered};
use rondo_core::dispatcher::{
    GetOrCreateJob, Part, Record, Repetitions, Reply, Request, RetiredJob, State,
};
use rondo_core::ids::{DatasetId, Lsn};
use rondo_core::time::{Duration, Time};

use super::{at, job, own, read_to_the_end, replacing, to_read, version};
use crate::driver::{Driver, Journal, answer_of};
use crate::world::short;

fn record_of(name: &str, id: &str, splits: i64) -> Record {
    let made = own(splits);
    Record::ReplaceDataset {
        name: DatasetId::new(name),
        id: DatasetId::new(id),
        at: Time::ZERO,
        definition: made.definition,
        plan: made.plan,
        metadata: made.metadata,
    }
}

/// A dataset with a second version.
fn replaced() -> (State, Lsn) {
    let mut state = State::default();
    let made = own(3);
    let first = Record::RegisterDataset {
        id: DatasetId::new("data"),
        definition: made.definition,
        plan: made.plan,
        metadata: made.metadata,
        at: Time::ZERO,
    };
    state.apply(Lsn::new(1), &first).unwrap();
    state.apply(Lsn::new(2), &record_of("data", &version(4), 4)).unwrap();
    (state, Lsn::new(2))
}

#[test]
fn a_record_that_frees_a_current_version_before_the_others_is_refused() {
    let (mut state, _) = replaced();
    let before = state.clone();
    let error = state.apply(Lsn::new(3), &Record::FreeDataset { id: DatasetId::new(version(4)) });
    assert!(error.unwrap_err().to_string().contains("in use"));
    assert_eq!(state, before);
}

#[test]
fn a_record_of_another_datasets_version_is_refused() {
    let (mut state, last) = replaced();
    let before = state.clone();
    for id in ["other@0505050505050505", "data@x@0505050505050505", "dat@0505050505050505"] {
        let error = state.apply(Lsn::new(last.get() + 1), &record_of("data", id, 5)).unwrap_err();
        assert!(error.to_string().contains("is no version of dataset data"), "{error}");
        assert_eq!(state, before);
    }
}

#[test]
fn a_record_that_gives_a_version_another_definition_is_refused() {
    let (mut state, last) = replaced();
    let before = state.clone();
    let error =
        state.apply(Lsn::new(last.get() + 1), &record_of("data", &version(4), 5)).unwrap_err();
    assert!(error.to_string().contains("exists"), "{error}");
    assert_eq!(state, before);
}

#[test]
fn a_record_that_makes_a_first_version_current_that_is_not_there_is_refused() {
    let mut state = State::default();
    let error = state.apply(Lsn::new(1), &record_of("data", "data", 3)).unwrap_err();
    assert!(error.to_string().contains("data is no version of dataset data"), "{error}");
    assert_eq!(state, State::default());
    let (mut state, last) = replaced();
    let before = state.clone();
    let error = state.apply(Lsn::new(last.get() + 1), &record_of("data", "data", 5)).unwrap_err();
    assert!(error.to_string().contains("exists"), "{error}");
    assert_eq!(state, before);
}

/// A snapshot of a release that kept no definitions.
#[test]
fn a_freed_job_whose_definition_is_not_known_is_compared_by_its_datasets_id() {
    let mut driver = Driver::new();
    driver.register(own(3));
    driver.register(at("other", 3));
    let mut dispatcher = driver.state().clone();
    let freed = RetiredJob {
        name: "train".into(),
        id: None,
        first_id: None,
        dataset: Some(DatasetId::new("data")),
        definition: None,
        parameters: None,
        finished: Repetitions::default(),
        abandoned: Repetitions::default(),
        changed: Lsn::new(1),
    };
    dispatcher.restore(Part::RetiredJob(freed)).unwrap();
    for (dataset, is_there) in [("data", true), ("other", false)] {
        let request = GetOrCreateJob { same_dataset: true, ..job(dataset, "train") };
        let recovered = Recovered {
            dispatcher: dispatcher.clone(),
            applied: Lsn::new(2),
            ..Recovered::default()
        };
        let request = Request::GetOrCreateJob(request);
        let answer = answer_of(Durability::MemoryOnly, recovered, request);
        assert_eq!(answer.is_ok(), is_there, "{answer:?}");
    }
}

/// A snapshot is taken half-way.
#[test]
fn a_snapshot_tells_the_versions() {
    let mut driver = Driver::new();
    driver.register(own(3));
    driver.register(replacing(4));
    for name in ["a", "b", "c", "d"] {
        driver.register(at(name, 3));
    }
    driver.restart();
    assert_eq!(to_read(&mut driver, "data", None), Ok(version(4)));
}

#[test]
fn who_registers_the_current_version_again_waits_until_it_is_surely_current() {
    let mut driver = Driver::new();
    for splits in [3, 4, 5] {
        driver.register(replacing(splits));
    }
    driver.journal = Journal::Slow;
    let first = driver.send(Request::RegisterDataset(replacing(4)));
    let second = driver.send(Request::RegisterDataset(replacing(4)));
    assert_eq!([driver.take(first), driver.take(second)], [None, None]);
    driver.sync();
    assert!([first, second].iter().all(|call| matches!(driver.take(*call), Some(Ok(_)))));
}

#[test]
fn what_a_reader_is_to_read_is_said_when_it_is_durable() {
    let mut driver = Driver::with(short());
    driver.register(own(3));
    let ask = |job: Option<&str>| {
        let job = job.map(Into::into);
        Request::GetVersionToRead { dataset: DatasetId::new("data"), job, position: None }
    };
    driver.journal = Journal::Slow;
    driver.send(Request::GetOrCreateJob(job("data", "train")));
    let of_job = driver.send(ask(Some("train")));
    assert_eq!(driver.take(of_job), None);
    driver.send(Request::RegisterDataset(replacing(4)));
    let current = driver.send(ask(None));
    assert_eq!(driver.take(current), None);
    driver.sync();
    assert!(matches!(driver.take(of_job), Some(Ok(Reply::Dataset(id))) if id.as_str() == "data"));
    assert!(driver.take(current).is_some_and(|answer| answer.is_ok()));
}

#[test]
fn what_a_freed_job_read_is_said_when_it_is_durable() {
    let (mut driver, reader) = read_to_the_end(short());
    driver.release(reader);
    driver.journal = Journal::Slow;
    for _ in 0..2000 {
        driver.advance(Duration::from_secs(1));
        if driver.state().retired().get("train").is_some() {
            break;
        }
    }
    let (dataset, job) = (DatasetId::new("data"), Some("train".into()));
    let call = driver.send(Request::GetVersionToRead { dataset, job, position: None });
    assert_eq!(driver.take(call), None);
    driver.sync();
    assert!(matches!(driver.take(call), Some(Ok(Reply::Dataset(id))) if id.as_str() == "data"));
}

/// The reader would be told another version if the job were there after all.
#[test]
fn that_a_job_is_not_there_is_said_when_it_is_durable() {
    let mut driver = Driver::new();
    driver.register(own(3));
    driver.job(job("data", "train"));
    driver.register(replacing(4));
    driver.journal = Journal::Slow;
    driver.send(Request::DeleteJob { name: "train".into() });
    let (dataset, job) = (DatasetId::new("data"), Some("train".into()));
    let call = driver.send(Request::GetVersionToRead { dataset, job, position: None });
    assert_eq!(driver.take(call), None);
    driver.sync();
    let told = driver.take(call);
    assert!(matches!(told, Some(Ok(Reply::Dataset(id))) if id.as_str() == version(4)));
}
