//! The state as `rondo.v1.Admin` shows it.

use rondo_core::dispatcher::{
    ClientReport, DatasetReport, FreedJobReport, IterationReport, JobReport, PositionReport,
    Report, SavedRepetitionReport, SavedSourceReport, SavedSplitReport, SourceReport, TaskReport,
    WorkerReport,
};

use crate::admin as wire;

/// The path of `rondo.v1.Admin/GetStatus`.
pub const GET_STATUS_PATH: &str = "/rondo.v1.Admin/GetStatus";
/// The path of gRPC's health check.
pub const HEALTH_CHECK_PATH: &str = "/grpc.health.v1.Health/Check";

/// The core's report as it stands on the wire.
pub fn dispatcher_status(report: Report) -> wire::DispatcherStatus {
    wire::DispatcherStatus {
        datasets: all(report.datasets),
        workers: all(report.workers),
        jobs: all(report.jobs),
        freed_jobs: all(report.freed_jobs),
        iterations: all(report.iterations),
        tasks: all(report.tasks),
        clients: all(report.clients),
    }
}

/// The core's report from how it stands on the wire.
pub fn report(status: wire::DispatcherStatus) -> Report {
    Report {
        datasets: all(status.datasets),
        workers: all(status.workers),
        jobs: all(status.jobs),
        freed_jobs: all(status.freed_jobs),
        iterations: all(status.iterations),
        tasks: all(status.tasks),
        clients: all(status.clients),
    }
}

fn all<A, B: From<A>>(items: Vec<A>) -> Vec<B> {
    items.into_iter().map(B::from).collect()
}

mirror!(DatasetReport, DatasetStatus {
    id, digest, size_bytes, cardinality, split_sources, unsplittable, compression_disabled, version_of,
    current;
});
mirror!(WorkerReport, WorkerStatus { address, uid, tags, tasks, silent_ms, lost; });
mirror!(JobReport, JobStatus {
    id, first_id, name, dataset, sharding, consumers, target_workers, use_cross_trainer_cache, finished,
    abandoned;
});
mirror!(FreedJobReport, FreedJobStatus { name, id, first_id, finished, abandoned; });
mirror!(IterationReport, IterationStatus {
    id, job, repetition, state, clients, tasks, tasks_finished, tasks_pending, round, block_round,
    splits_lost, splits_again, splits_in_doubt, splits_held, splits_waiting, records_acknowledged;
    sources
});
mirror!(SourceReport, SourceStatus { repetition, produced, total; });
mirror!(TaskReport, TaskStatus { id, iteration, worker, state, starting_round; });
mirror!(ClientReport, ClientStatus {
    id, iteration, silent_ms, splits_held, first_split, records_acknowledged;
});
mirror!(PositionReport, Position { name, job, dataset, saved_ms, finished, waiting; reading });
mirror!(SavedRepetitionReport, SavedRepetition { repetition; sources, splits });
mirror!(SavedSplitReport, SavedSplit { place, records; });
mirror!(SavedSourceReport, SavedSource { repetition, produced; });
