//! Invariants about how far iterations, splits and agreements are.

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::String;

use crate::dispatcher::state::{Iteration, Job, PendingTask, SourcePosition, State};
use crate::dispatcher::types::ShardingPolicy;
use crate::ids::TaskId;
use crate::limits::CONSUMERS_MAX;

/// D6.
pub(super) fn finished_iterations_are_over(state: &State) -> Result<(), String> {
    each(state, |iteration, _| {
        if iteration.collected && !iteration.finished {
            return Err("it is collected, but not finished".into());
        }
        if !iteration.finished {
            return Ok(());
        }
        if !iteration.pending.is_empty() {
            return Err(format!("{} tasks are pending", iteration.pending.len()));
        }
        match iteration.tasks.iter().find(|task| !is_finished(state, **task)) {
            Some(task) => Err(format!("task {task} is not finished")),
            None => Ok(()),
        }
    })
}

/// D7.
pub(super) fn split_positions_are_in_range(state: &State) -> Result<(), String> {
    each(state, |iteration, job| {
        let dynamic = job.is_some_and(|job| job.sharding == ShardingPolicy::Dynamic);
        if !dynamic && !iteration.sources.is_empty() {
            return Err("it has split positions, but no dynamic sharding".into());
        }
        let wrong = |at: &&SourcePosition| {
            at.index > at.source.len() || at.repetition < 0 || at.source.step == 0
        };
        match iteration.sources.iter().find(wrong) {
            Some(position) => Err(format!("a source stands at {position:?}")),
            None => Ok(()),
        }
    })
}

/// D9.
pub(super) fn ready_consumers_are_clients(state: &State) -> Result<(), String> {
    each(state, |iteration, job| {
        let consumers = job.and_then(|job| job.consumers).unwrap_or(i64::MAX);
        let pending = iteration.pending.iter();
        let wrong = pending.clone().find(|pending| {
            let ready = i64::try_from(pending.ready.len()).unwrap_or(i64::MAX);
            ready >= consumers || !pending.ready.is_subset(&iteration.clients)
        });
        match wrong {
            Some(pending) => Err(format!("{:?} are ready for {}", pending.ready, pending.task)),
            None => Ok(()),
        }
    })
}

/// D11.
pub(super) fn one_live_iteration_per_key(state: &State) -> Result<(), String> {
    let mut seen = BTreeSet::new();
    // From the newest to the oldest: only the first of its key may be alive.
    for iteration in state.iterations.values().rev() {
        let first = seen.insert((iteration.job, iteration.repetition));
        if !first && !iteration.collected {
            return Err(format!("iteration {} is alive beside a newer one", iteration.id));
        }
    }
    Ok(())
}

/// D12.
pub(super) fn pending_tasks_are_negotiable(state: &State) -> Result<(), String> {
    each(state, |iteration, job| {
        let coordinated = job.is_some_and(|job| job.consumers.is_some());
        if !coordinated && !iteration.pending.is_empty() {
            return Err("tasks are pending, but the read is not coordinated".into());
        }
        let pending = iteration.pending.iter();
        if let Some(over) = pending.clone().find(|p| is_finished(state, p.task)) {
            return Err(format!("task {} is pending and finished", over.task));
        }
        let untouched = |p: &&PendingTask| p.failures == 0 && p.ready.is_empty();
        match pending.skip(1).find(|p| !untouched(p)) {
            Some(early) => Err(format!("task {} is negotiated out of turn", early.task)),
            None => Ok(()),
        }
    })
}

/// D13.
pub(super) fn consumer_counts_are_in_range(state: &State) -> Result<(), String> {
    let in_range = |job: &&Job| job.consumers.is_none_or(|n| (1..=CONSUMERS_MAX).contains(&n));
    match state.jobs.values().find(|job| !in_range(job)) {
        Some(job) => Err(format!("job {} has num_consumers {:?}", job.id, job.consumers)),
        None => Ok(()),
    }
}

fn each(
    state: &State,
    check: impl Fn(&Iteration, Option<&Job>) -> Result<(), String>,
) -> Result<(), String> {
    state.iterations.values().try_for_each(|iteration| {
        let job = state.jobs.get(&iteration.job);
        check(iteration, job).map_err(|text| format!("iteration {}: {text}", iteration.id))
    })
}

fn is_finished(state: &State, task: TaskId) -> bool {
    state.tasks.get(&task).is_some_and(|task| task.finished)
}
