//! The codes and texts of refusals, all in one table: what TensorFlow's clients, workers and tests
//! look for, and what ours say beyond that.

use rondo_core::dispatcher::Refusal;
use rondo_core::ids::{ClientId, DatasetId, IterationId, JobId};
use rondo_core::status::{Code, Status};

/// Every refusal with its code and a part of its text.
fn table() -> Vec<(Refusal, Code, &'static str)> {
    let mut table = of_things_unknown();
    table.extend(of_wrong_requests());
    table.extend(of_wrong_moments());
    table
}

fn of_things_unknown() -> Vec<(Refusal, Code, &'static str)> {
    vec![
        (Refusal::UnknownDataset(DatasetId::new("x")), Code::NotFound, "Dataset id x not found"),
        (Refusal::UnknownJob(JobId::new(1)), Code::NotFound, "Job with id 1 not found"),
        (
            Refusal::UnknownIteration(IterationId::new(2)),
            Code::NotFound,
            "Iteration id 2 not found",
        ),
        (
            Refusal::UnknownClient(ClientId::new(3)),
            Code::NotFound,
            "Iteration client id not found: 3",
        ),
        (
            Refusal::ForgottenClient(ClientId::new(4)),
            Code::NotFound,
            "Unknown iteration client id 4. The dispatcher is not configured to be fault tolerant",
        ),
        (
            Refusal::WorkerNotListed { address: "w:1".into(), configured: "a, b".into() },
            Code::NotFound,
            "Worker w:1 is not in the workers list. Configured workers: [a, b]",
        ),
    ]
}

fn of_wrong_requests() -> Vec<(Refusal, Code, &'static str)> {
    vec![
        (
            Refusal::OtherStructure { id: DatasetId::new("x"), difference: "why".into() },
            Code::InvalidArgument,
            "Datasets with the same ID should have the same structure, got diff for dataset ID x: why",
        ),
        (
            Refusal::OtherParameters { name: "test".into(), difference: "Existing a".into() },
            Code::InvalidArgument,
            "Tried to create job with name test, but found an existing job with different \
             parameters: Existing a",
        ),
        (
            Refusal::OutOfRange { field: "round", value: -1, expected: "at least 0".into() },
            Code::InvalidArgument,
            "round is -1; it must be at least 0",
        ),
        (
            Refusal::Unsplittable { code: Code::Unimplemented, message: "cannot".into() },
            Code::Unimplemented,
            "cannot",
        ),
    ]
}

fn of_wrong_moments() -> Vec<(Refusal, Code, &'static str)> {
    vec![
        (
            Refusal::NotDynamic { iteration: IterationId::new(2), policy: "OFF" },
            Code::FailedPrecondition,
            "Iteration 2 has sharding policy OFF",
        ),
        (
            Refusal::Ended { iteration: IterationId::new(2) },
            Code::FailedPrecondition,
            "iteration 2 has ended, because a position was restored for its job",
        ),
        (
            Refusal::NoPosition { job: "j".into(), policy: "OFF" },
            Code::FailedPrecondition,
            "job \"j\" has sharding policy OFF; only jobs with DYNAMIC sharding",
        ),
        (
            Refusal::OtherSources {
                position: "p".into(),
                saved: 2,
                job: "j".into(),
                dataset: "1000".into(),
                sources: 3,
            },
            Code::FailedPrecondition,
            "position \"p\" was saved with 2 sources of splits, but dataset 1000 of job \"j\" has 3",
        ),
        (Refusal::UnknownJobName("j".into()), Code::NotFound, "no job named \"j\""),
        (Refusal::UnknownPosition("p".into()), Code::NotFound, "no position named \"p\""),
        (
            Refusal::NotCoordinated { task: 4 },
            Code::FailedPrecondition,
            "MaybeRemoveTask called on task 4 of a job without num_consumers",
        ),
        (
            Refusal::WorkerNotConfigured { address: "w:1".into(), configured: "a".into() },
            Code::FailedPrecondition,
            "The worker's address is not configured, or other workers are already running at the \
             configured host",
        ),
        (
            Refusal::TooMany { what: "jobs", bound: 8 },
            Code::ResourceExhausted,
            "too many jobs: the bound is 8",
        ),
        (
            Refusal::JournalRefuses("full".into()),
            Code::Unavailable,
            "takes no updates at present: full",
        ),
        (Refusal::Defect("oh".into()), Code::Unavailable, "because of a defect: oh"),
    ]
}

#[test]
fn every_refusal_has_its_code_and_text() {
    for (refusal, code, text) in table() {
        let status = Status::from(refusal);
        assert_eq!(status.code, code, "{status}");
        assert!(status.message.contains(text), "{status}");
    }
}

/// Clients and workers give up on any other code, so only what passes by itself may have one of
/// these.
#[test]
fn only_what_passes_is_retried() {
    for (refusal, code, _) in table() {
        let passes = matches!(refusal, Refusal::JournalRefuses(_) | Refusal::Defect(_));
        let retried = matches!(code, Code::Unavailable | Code::Aborted | Code::Cancelled);
        assert_eq!(passes, retried, "{refusal:?}");
    }
}

#[test]
fn codes_have_their_numbers_on_the_wire() {
    let numbers = [
        (Code::Cancelled, 1),
        (Code::Unknown, 2),
        (Code::InvalidArgument, 3),
        (Code::DeadlineExceeded, 4),
        (Code::NotFound, 5),
        (Code::AlreadyExists, 6),
        (Code::PermissionDenied, 7),
        (Code::ResourceExhausted, 8),
        (Code::FailedPrecondition, 9),
        (Code::Aborted, 10),
        (Code::OutOfRange, 11),
        (Code::Unimplemented, 12),
        (Code::Internal, 13),
        (Code::Unavailable, 14),
        (Code::DataLoss, 15),
        (Code::Unauthenticated, 16),
    ];
    assert!(numbers.iter().all(|(code, number)| code.number() == *number));
}
