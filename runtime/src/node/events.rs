//! What the machines tell of themselves, as lines of the log.

use rondo_core::coordination;
use rondo_core::dispatcher::Event;

/// Logs what the coordination service tells.
pub(super) fn observe_coordination(event: &coordination::Event) {
    match event {
        coordination::Event::NoProgress { namespace, tasks, reason } => {
            tracing::warn!(%namespace, %tasks, %reason, "tasks make no progress");
        }
        coordination::Event::LifeBegun { namespace, life, incarnation } => {
            tracing::info!(%namespace, life, %incarnation, "a job begins");
        }
        coordination::Event::SizeLearnt { namespace, tasks } => {
            tracing::info!(%namespace, tasks, "the job's size is known");
        }
        coordination::Event::RelaysForgotten { namespace, count } => {
            tracing::info!(%namespace, count, "silent relays forgotten");
        }
        coordination::Event::AllRegistered { namespace } => {
            tracing::info!(%namespace, "all tasks have registered");
        }
        coordination::Event::TaskReturned { namespace, task } => {
            tracing::info!(%namespace, %task, "task came back as a new process");
        }
        coordination::Event::TaskFailed { namespace, task, reason } => {
            tracing::warn!(%namespace, %task, %reason, "task is in error");
        }
        coordination::Event::TaskLeft { namespace, task } => {
            tracing::info!(%namespace, %task, "task has left");
        }
        coordination::Event::ErrorSpread { namespace, reason } => {
            tracing::warn!(%namespace, %reason, "an error is told to all tasks");
        }
        coordination::Event::BarrierFailed { namespace, reason } => {
            tracing::warn!(%namespace, %reason, "barrier failed");
        }
        coordination::Event::ProgressAgain { namespace, task } => {
            tracing::info!(%namespace, %task, "task makes progress again");
        }
        coordination::Event::HeldUp { late } => {
            tracing::warn!(late_ms = late.as_millis(), "the coordination service was held up");
        }
    }
}

/// Logs what the dispatcher tells.
pub(super) fn observe(event: &Event) {
    match event {
        Event::WorkerRegistered { address } => {
            tracing::info!(worker = %address, "worker registered");
        }
        Event::WorkerChanged { address } => {
            tracing::info!(worker = %address, "worker came back changed");
        }
        Event::WorkerLost { address } => tracing::warn!(worker = %address, "worker lost"),
        Event::ClientExpired { client } => tracing::info!(%client, "silent client released"),
        Event::SplitsGivenUp { client, splits } => {
            tracing::info!(%client, splits, "splits of a client that is gone are others' to read");
        }
        Event::IterationCollected { job_name, repetition } => {
            tracing::info!(job = %job_name, repetition, "abandoned iteration collected");
        }
        Event::IterationAbandoned { job_name, repetition } => {
            tracing::warn!(job = %job_name, repetition, "iteration abandoned");
        }
        Event::JobDeleted { job_name } => tracing::info!(job = %job_name, "job deleted"),
        Event::WorkerFreed { address } => {
            tracing::info!(worker = %address, "lost worker forgotten")
        }
        Event::UnknownTaskReported { worker_address, task } => {
            tracing::debug!(worker = %worker_address, %task, "progress of an unknown task");
        }
        Event::ForeignTaskReported { worker_address, task, owner } => {
            tracing::warn!(
                worker = %worker_address,
                %task,
                %owner,
                "a worker reported progress of another worker's task; the report is ignored"
            );
        }
        Event::TaskPromoted { task, starting_round } => {
            tracing::info!(%task, starting_round, "all consumers read the task from this round on");
        }
        Event::TaskRemoved { task } => {
            tracing::warn!(%task, "all consumers gave the task up");
        }
        Event::WorkerReturned { address } => {
            tracing::info!(worker = %address, "lost worker came back");
        }
        Event::SplitsLost { address, iteration, lost, again, in_doubt } => {
            tracing::warn!(
                worker = %address, %iteration, splits = lost, again, in_doubt, "splits lost"
            );
        }
        Event::LaterPassesLost { iteration, lost } => {
            tracing::warn!(
                %iteration, splits = lost,
                "splits of later passes lost: the iteration's readers by split read the first pass only"
            );
        }
    }
}
