//! Invariants about lost workers.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::graph::same;
use crate::dispatcher::handed_out::{SplitRun, SplitSet, TaskSplits};
use crate::dispatcher::state::{Iteration, State, Task};
use crate::limits::SPLIT_RUNS_PER_TASK_MAX;

/// D41.
pub(super) fn tasks_are_where_workers_are(state: &State) -> Result<(), String> {
    let mut found = BTreeMap::new();
    for task in state.tasks.values().filter(|task| !task.finished) {
        if let Some(other) = found.insert((task.worker, task.iteration), task.id) {
            return Err(format!(
                "worker {} has tasks {other} and {} of iteration {}",
                task.worker, task.id, task.iteration
            ));
        }
        if is_on_lost_worker(state, task) && !is_coordinated(state, task) {
            return Err(format!("task {} is on a lost worker", task.id));
        }
    }
    same(&state.index.task_of, &found, "tasks by worker and iteration")
}

fn is_on_lost_worker(state: &State, task: &Task) -> bool {
    state.workers.get(&task.worker).is_some_and(|w| w.lost)
}

fn is_coordinated(state: &State, task: &Task) -> bool {
    let iteration = state.iterations.get(&task.iteration);
    let job = iteration.and_then(|iteration| state.jobs.get(&iteration.job));
    job.is_some_and(|job| job.consumers.is_some())
}

/// D42.
pub(super) fn splits_are_in_one_place(state: &State) -> Result<(), String> {
    for task in state.tasks.values() {
        let splits = &task.splits;
        if task.finished && *splits != TaskSplits::default() {
            return Err(format!("task {} is finished and has {splits:?}", task.id));
        }
        if splits.remembered.run_count() > SPLIT_RUNS_PER_TASK_MAX {
            return Err(format!("too much is remembered of task {}", task.id));
        }
    }
    state.iterations.values().try_for_each(|iteration| {
        let placed = placed_splits(state, iteration);
        placed.map_err(|text| format!("iteration {}: {text}", iteration.id))
    })
}

fn placed_splits(state: &State, iteration: &Iteration) -> Result<(), String> {
    let tasks = iteration.tasks.iter();
    let tasks = tasks.chain(iteration.pending.iter().map(|pending| &pending.task));
    let of_tasks = tasks.filter_map(|id| Some(&state.tasks.get(id)?.splits.remembered));
    let sets: Vec<&SplitSet> = of_tasks.chain([&iteration.splits.again]).collect();
    let mut runs: Vec<SplitRun> = sets.iter().flat_map(|set| set.runs()).collect();
    runs.sort_by_key(|run| (run.source, run.repetition, run.first));
    if let Some(run) = runs.iter().find(|run| !was_handed_out(iteration, run)) {
        return Err(format!("{run:?} was not handed out"));
    }
    let overlap = runs.iter().zip(runs.iter().skip(1)).find(|(run, next)| {
        let same_pass = (run.source, run.repetition) == (next.source, next.repetition);
        same_pass && run.first.saturating_add(run.count) > next.first
    });
    if let Some((run, next)) = overlap {
        return Err(format!("{run:?} and {next:?} overlap"));
    }
    let counted = |set: &&&SplitSet| set.count() != set.runs().map(|run| run.count).sum::<u64>();
    match sets.iter().find(counted) {
        Some(set) => Err(format!("{set:?} is miscounted")),
        None => Ok(()),
    }
}

fn was_handed_out(iteration: &Iteration, run: &SplitRun) -> bool {
    let position = usize::try_from(run.source).ok();
    let Some(position) = position.and_then(|at| iteration.sources.get(at)) else {
        return false;
    };
    let end = run.first.saturating_add(run.count);
    let handed_out = match run.repetition == position.repetition {
        true => position.index,
        false => position.source.len(),
    };
    run.count > 0 && run.repetition <= position.repetition && end <= handed_out
}

/// D43.
pub(super) fn iterations_stay_open_for_splits(state: &State) -> Result<(), String> {
    for iteration in state.iterations.values() {
        let splits = &iteration.splits;
        if iteration.finished && (iteration.awaits() || !splits.strays.is_empty()) {
            let by_split = &iteration.by_split;
            return Err(format!("iteration {} is finished: {splits:?} {by_split:?}", iteration.id));
        }
        let coordinated = state.index.open_coordinated.contains(&iteration.id);
        let idle = !iteration.finished && state.has_only_finished_tasks(iteration);
        if idle && !coordinated && !iteration.awaits() {
            return Err(format!("iteration {} waits for nothing", iteration.id));
        }
    }
    Ok(())
}

/// D44.
pub(super) fn doubts_are_bounded(state: &State) -> Result<(), String> {
    for iteration in state.iterations.values() {
        let (splits, doubt) = (&iteration.splits, &iteration.splits.doubt);
        let hull = doubt.upto.saturating_sub(doubt.from);
        let strays = splits.strays.values().copied().max().unwrap_or(0);
        if doubt.count > hull || doubt.upto.max(strays) > splits.unattributed {
            return Err(format!("iteration {}: {splits:?}", iteration.id));
        }
    }
    let before = |task: &&Task| {
        let iteration = state.iterations.get(&task.iteration);
        iteration.is_some_and(|of| task.splits.unattributed_before > of.splits.unattributed)
    };
    match state.tasks.values().find(before) {
        Some(task) => Err(format!("task {}: {:?}", task.id, task.splits)),
        None => Ok(()),
    }
}
