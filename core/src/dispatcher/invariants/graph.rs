//! Invariants about who refers to whom.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::{String, ToString};
use core::fmt::Debug;

use crate::dispatcher::idle::Idle;
use crate::dispatcher::state::State;
use crate::ids::{ClientId, DatasetId, Digest, IterationId, TaskId, WorkerId};

/// D1.
pub(super) fn references_resolve(state: &State) -> Result<(), String> {
    for task in state.tasks.values() {
        if !state.iterations.contains_key(&task.iteration) {
            return Err(format!("task {} names iteration {}", task.id, task.iteration));
        }
        if !state.workers.contains_key(&task.worker) {
            return Err(format!("task {} names worker {}", task.id, task.worker));
        }
    }
    for iteration in state.iterations.values() {
        if !state.jobs.contains_key(&iteration.job) {
            return Err(format!("iteration {} names job {}", iteration.id, iteration.job));
        }
    }
    for client in state.clients.values() {
        if !state.iterations.contains_key(&client.iteration) {
            return Err(format!("client {} names iteration {}", client.id, client.iteration));
        }
    }
    Ok(())
}

/// D2.
pub(super) fn tasks_are_placed_once(state: &State) -> Result<(), String> {
    let mut placed: BTreeMap<TaskId, IterationId> = BTreeMap::new();
    for iteration in state.iterations.values() {
        let pending = iteration.pending.iter().map(|pending| &pending.task);
        for task in iteration.tasks.iter().chain(pending) {
            if placed.insert(*task, iteration.id).is_some() {
                return Err(format!("task {task} stands twice, once in {}", iteration.id));
            }
        }
    }
    let named = state.tasks.values().map(|task| (task.id, task.iteration));
    same(&placed, &named.collect(), "tasks by iteration")
}

/// D3.
pub(super) fn workers_have_their_unfinished_tasks(state: &State) -> Result<(), String> {
    let mut unfinished: BTreeMap<WorkerId, BTreeSet<TaskId>> = BTreeMap::new();
    for task in state.tasks.values().filter(|task| !task.finished) {
        unfinished.entry(task.worker).or_default().insert(task.id);
    }
    let none = BTreeSet::new();
    state.workers.values().try_for_each(|worker| {
        let should = unfinished.get(&worker.id).unwrap_or(&none);
        same(&worker.tasks, should, &format!("tasks of worker {}", worker.id))
    })
}

/// D4.
pub(super) fn open_indexes_agree(state: &State) -> Result<(), String> {
    let open = state.iterations.values().filter(|iteration| !iteration.finished);
    let coordinated = open.clone().filter(|iteration| {
        let job = state.jobs.get(&iteration.job);
        job.is_some_and(|job| job.consumers.is_some())
    });
    same(state.open_iterations(), &open.clone().map(|i| i.id).collect(), "open iterations")?;
    same(state.open_coordinated(), &coordinated.map(|i| i.id).collect(), "open coordinated reads")
}

/// D5.
pub(super) fn clients_agree(state: &State) -> Result<(), String> {
    let mut by_iteration: BTreeMap<IterationId, BTreeSet<ClientId>> = BTreeMap::new();
    for client in state.clients.values() {
        by_iteration.entry(client.iteration).or_default().insert(client.id);
    }
    let none = BTreeSet::new();
    state.iterations.values().try_for_each(|iteration| {
        let should = by_iteration.get(&iteration.id).unwrap_or(&none);
        let what = format!("clients of iteration {}", iteration.id);
        same(&iteration.clients, should, &what)
    })
}

/// D8.
pub(super) fn counters_are_ahead(state: &State) -> Result<(), String> {
    let next = &state.counters;
    let ahead = [
        ("worker", state.workers.keys().next_back().is_none_or(|id| *id < next.worker)),
        ("job", state.jobs.keys().next_back().is_none_or(|id| *id < next.job)),
        ("iteration", state.iterations.keys().next_back().is_none_or(|id| *id < next.iteration)),
        ("client", state.clients.keys().next_back().is_none_or(|id| *id < next.client)),
        ("task", state.tasks.keys().next_back().is_none_or(|id| *id < next.task)),
    ];
    if let Some((kind, _)) = ahead.iter().find(|(_, ahead)| !ahead) {
        return Err(format!("the next {kind} id is not above those given: {next:?}"));
    }
    match state.datasets.get(&DatasetId::new(next.dataset.to_string())) {
        Some(dataset) => Err(format!("the next dataset id {} is taken", dataset.id)),
        None => Ok(()),
    }
}

/// D10.
pub(super) fn names_lead_to_their_bearers(state: &State) -> Result<(), String> {
    let jobs = state.jobs.values().map(|job| (job.name.clone(), job.id));
    same(&state.index.job_by_name, &jobs.collect(), "jobs by name")?;
    let workers = state.workers.values().map(|worker| (worker.address.clone(), worker.id));
    same(&state.index.worker_by_address, &workers.collect(), "workers by address")?;
    let iterations = state.iterations.values();
    let keys = iterations.map(|iteration| (iteration.job, iteration.repetition, iteration.id));
    same(&state.index.iteration_by_key, &keys.collect(), "iterations by key")?;
    versions_are_there(state)
}

fn versions_are_there(state: &State) -> Result<(), String> {
    for (name, versions) in &state.versions {
        let is_of = |id: &DatasetId| id.as_str().starts_with(name.as_str());
        let mut later = versions.later.iter();
        if let Some(id) = later.find(|id| !is_of(id) || !state.datasets.contains_key(*id)) {
            return Err(format!("dataset {name} has no version {id}"));
        }
        let current = &versions.current;
        let is_first = current == name && state.datasets.contains_key(name);
        let is_there = is_first || versions.later.contains(current);
        if versions.name != *name || !is_there || versions.later.is_empty() {
            return Err(format!("the versions of dataset {name} are {versions:?}"));
        }
    }
    Ok(())
}

/// D14.
pub(super) fn definitions_are_shared(state: &State) -> Result<(), String> {
    let mut uses: BTreeMap<Digest, u64> = BTreeMap::new();
    let shared = &state.index.definitions;
    for own in state.datasets.values().map(|dataset| &dataset.definition) {
        *uses.entry(own.digest).or_default() += 1;
        if shared.get(&own.digest).map(|shared| &shared.definition) != Some(own) {
            return Err(format!("another definition of {} is kept", own.digest));
        }
    }
    let kept = shared.iter().map(|(digest, kept)| (*digest, kept.datasets));
    same(&kept.collect(), &uses, "uses of definitions")
}

/// D18.
pub(super) fn idle_index_agrees(state: &State) -> Result<(), String> {
    same(&state.index.idle, &Idle::derived_from(state), "idle things")
}

/// D19.
pub(super) fn positions_agree(state: &State) -> Result<(), String> {
    for (job, waits) in &state.restorations {
        if waits.job != *job || waits.waiting.is_empty() && state.job_named(job).is_some() {
            return Err(format!("job {job:?} waits for nothing, or under another name"));
        }
        if !state.positions.contains_key(&waits.position) {
            return Err(format!("job {job:?} waits at {:?}", waits.position));
        }
        let mut both = waits.waiting.iter();
        if let Some(saved) = both.find(|saved| waits.finished.contains(saved.repetition)) {
            return Err(format!(
                "repetition {} of job {job:?} is finished and begins",
                saved.repetition
            ));
        }
    }
    match state.positions.iter().find(|(name, at)| at.name != **name) {
        Some((name, _)) => Err(format!("position {name:?} has another name")),
        None => Ok(()),
    }
}

/// D20.
pub(super) fn what_is_left_agrees(state: &State) -> Result<(), String> {
    if !state.retired.is_ordered() {
        return Err("the order in which jobs were freed is another one".into());
    }
    let mut retired = state.retired.iter();
    if let Some(job) = retired.find(|job| state.job_named(&job.name).is_some()) {
        return Err(format!("job {:?} is there and was freed", job.name));
    }
    let there = state.jobs.values().map(|job| (job.first_id, Some(job.id)));
    let freed = state.retired.iter().map(|job| (job.first_id, job.id));
    if let Some((first, id)) = there.chain(freed).find(|(first, id)| first > id) {
        return Err(format!("job {id:?} continues the later job {first:?}"));
    }
    let tasks = state.tasks.values().map(|task| (task.worker, task.iteration, task.id));
    same(&state.index.tasks_on, &tasks.collect(), "tasks by worker")
}

/// What is and what should be, compared.
pub(super) fn same<T: PartialEq + Debug + ?Sized>(
    is: &T,
    should: &T,
    what: &str,
) -> Result<(), String> {
    if is == should {
        return Ok(());
    }
    Err(format!("{what}: {is:?}, but should be {should:?}"))
}
