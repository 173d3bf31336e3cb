//! A report reaches the reader of `rondo.v1.Admin/GetStatus` as the core made it.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use prost::Message;
use rondo_core::dispatcher::{
    ClientReport, DatasetReport, FreedJobReport, IterationReport, JobReport, Report, SourceReport,
    TaskReport, WorkerReport,
};
use rondo_proto::admin::{DispatcherStatus, GetStatusResponse};
use rondo_proto::convert::{dispatcher_status, report};

fn dataset(unsplittable: Option<String>, decided: Option<bool>) -> DatasetReport {
    DatasetReport {
        id: "1000".into(),
        digest: "ab".repeat(32),
        size_bytes: 7,
        cardinality: -2,
        split_sources: unsplittable.is_none().then_some(0),
        unsplittable,
        compression_disabled: decided,
        version_of: Some("data".into()),
        current: true,
    }
}

fn iteration(round: Option<i64>) -> IterationReport {
    IterationReport {
        id: 2000,
        job: "job".into(),
        repetition: 1,
        state: "running".into(),
        clients: 2,
        tasks: 3,
        tasks_finished: 4,
        tasks_pending: 5,
        round,
        block_round: round.map(|round| round + 1),
        sources: vec![SourceReport { repetition: 6, produced: 7, total: 8 }],
        splits_lost: 9,
        splits_again: 10,
        splits_in_doubt: 11,
        splits_held: 12,
        splits_waiting: 13,
        records_acknowledged: 14,
    }
}

fn full() -> Report {
    let worker = |silent_ms, lost| WorkerReport {
        address: "host:1".into(),
        uid: -1,
        tags: vec!["a".into(), String::new()],
        tasks: 9,
        silent_ms,
        lost,
    };
    let job = |consumers| JobReport {
        id: 5000,
        first_id: Some(4999),
        name: "job".into(),
        dataset: "1000".into(),
        sharding: "DYNAMIC".into(),
        consumers,
        target_workers: "AUTO".into(),
        use_cross_trainer_cache: true,
        finished: vec!["0-1".into()],
        abandoned: vec!["2".into(), "4".into()],
    };
    Report {
        datasets: vec![dataset(None, Some(false)), dataset(Some("why".into()), None)],
        workers: vec![worker(None, false), worker(Some(0), true)],
        jobs: vec![job(None), job(Some(2))],
        freed_jobs: vec![FreedJobReport {
            name: "freed".into(),
            id: Some(5009),
            first_id: Some(5002),
            finished: vec!["0-4".into(), "7".into()],
            abandoned: vec!["5".into()],
        }],
        iterations: vec![iteration(None), iteration(Some(0))],
        tasks: vec![TaskReport {
            id: 4000,
            iteration: 2000,
            worker: "host:1".into(),
            state: "pending".into(),
            starting_round: 10,
        }],
        clients: vec![ClientReport {
            id: 3000,
            iteration: 2000,
            silent_ms: Some(11),
            splits_held: 2,
            first_split: Some(0),
            records_acknowledged: 15,
        }],
    }
}

#[test]
fn nothing_is_lost_on_the_wire() {
    let response =
        GetStatusResponse { dispatcher: Some(dispatcher_status(full())), ..Default::default() };
    let received = GetStatusResponse::decode(&response.encode_to_vec()[..]).unwrap();
    assert_eq!(report(received.dispatcher.unwrap()), full());
}

#[test]
fn an_empty_report_is_no_bytes() {
    assert_eq!(dispatcher_status(Report::default()).encode_to_vec(), []);
    assert_eq!(report(DispatcherStatus::default()), Report::default());
}
