//! Invariants about what a restart forgets.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::String;

use super::by_split::silent_readers_are_noticed;
use super::graph::same;
use crate::dispatcher::machine::Dispatcher;
use crate::dispatcher::rounds::Rounds;
use crate::ids::CallId;
use crate::invariant::Invariant;

/// The invariants of the volatile parts.
pub(crate) const DISPATCHER_INVARIANTS: &[Invariant<Dispatcher>] = &[
    Invariant {
        number: "D15",
        sentence: "signs of life, rounds, cached task lists and answers are kept only for what \
                   exists",
        check: only_the_living_are_remembered,
    },
    Invariant {
        number: "D16",
        sentence: "a cached task list of the present version is the list as it would be made anew",
        check: cached_lists_are_fresh,
    },
    Invariant {
        number: "D17",
        sentence: "every call that waits for a removal waits in one vote, counts for its \
                   consumer and has one deadline",
        check: waiting_calls_agree,
    },
    Invariant {
        number: "D40",
        sentence: "every worker that is not lost is looked at no later than its patience ends, and \
                   no other is",
        check: silent_workers_are_noticed,
    },
    Invariant {
        number: "D46",
        sentence: "every client that holds splits is looked at no later than its patience ends",
        check: silent_readers_are_noticed,
    },
];

fn only_the_living_are_remembered(dispatcher: &Dispatcher) -> Result<(), String> {
    let (state, leases) = (&dispatcher.state, &dispatcher.leases);
    if let Some(id) = leases.clients.keys().find(|id| !state.clients.contains_key(id)) {
        return Err(format!("client {id} is remembered"));
    }
    let mut workers = leases.workers.leases.keys();
    if let Some(id) = workers.find(|id| !state.workers.contains_key(id)) {
        return Err(format!("worker {id} is remembered"));
    }
    let mut processes = dispatcher.processes.0.keys();
    if let Some(id) = processes.find(|id| !state.workers.contains_key(id)) {
        return Err(format!("a process of worker {id} is remembered"));
    }
    if let Some(id) = dispatcher.processes.kept_tasks().find(|id| !state.tasks.contains_key(id)) {
        return Err(format!("that a worker has task {id} is remembered"));
    }
    let mut answered = dispatcher.deliveries.answered_tasks();
    if let Some(id) = answered.find(|id| !state.tasks.contains_key(id)) {
        return Err(format!("what task {id} was answered is remembered"));
    }
    let mut awaited = leases.consumers_left.keys().chain(leases.consumers_tried.keys());
    if let Some(id) = awaited.find(|id| !state.iterations.contains_key(id)) {
        return Err(format!("consumers of iteration {id} are remembered"));
    }
    let mut consumers = dispatcher.rounds.values().flat_map(Rounds::consumers);
    if let Some(id) = consumers.find(|id| !state.clients.contains_key(id)) {
        return Err(format!("the round of client {id} is remembered"));
    }
    let iterations = dispatcher.rounds.keys().chain(dispatcher.views.keys());
    match iterations.clone().find(|id| state.iterations.get(id).is_none_or(|i| i.collected)) {
        Some(id) => Err(format!("iteration {id} is remembered")),
        None => Ok(()),
    }
}

fn silent_workers_are_noticed(dispatcher: &Dispatcher) -> Result<(), String> {
    let leases = &dispatcher.leases.workers;
    for worker in dispatcher.state.workers.values() {
        if !worker.lost && !leases.is_watched(worker.id) {
            return Err(format!("nobody looks at worker {}", worker.id));
        }
    }
    let armed = leases.leases.iter();
    let armed = armed.filter_map(|(id, lease)| Some((lease.alarm?, *id)));
    same(&leases.alarms, &armed.collect(), "alarms")?;
    let is_lost = |id| dispatcher.state.workers.get(id).is_some_and(|w| w.lost);
    match leases.alarms.iter().find(|(_, id)| is_lost(id)) {
        Some((_, id)) => Err(format!("lost worker {id} is looked at")),
        None => Ok(()),
    }
}

fn cached_lists_are_fresh(dispatcher: &Dispatcher) -> Result<(), String> {
    for (id, (version, cached)) in &dispatcher.views {
        let Some(iteration) = dispatcher.state.iterations.get(id) else {
            continue;
        };
        if *version == dispatcher.list_version(iteration) {
            let anew = dispatcher.task_infos(iteration);
            same(&**cached, &*anew, &format!("tasks of iteration {id}"))?;
        }
    }
    Ok(())
}

fn waiting_calls_agree(dispatcher: &Dispatcher) -> Result<(), String> {
    let removals = &dispatcher.removals;
    let mut voting = BTreeMap::new();
    let mut deadlines = BTreeSet::new();
    for (task, vote) in &removals.tasks {
        if vote.waiting.is_empty() {
            return Err(format!("nobody waits in the vote on task {task}"));
        }
        let mut consumers: BTreeMap<i64, usize> = BTreeMap::new();
        for (call, (consumer, until)) in &vote.waiting {
            *consumers.entry(*consumer).or_default() += 1;
            deadlines.insert((*until, *call));
            if voting.insert(*call, *task).is_some() {
                return Err(format!("call {call} waits twice"));
            }
        }
        same(&vote.consumers, &consumers, &format!("consumers in the vote on task {task}"))?;
    }
    same(&removals.calls, &voting, "waiting calls by task")?;
    let calls = |set: &BTreeSet<(_, CallId)>| set.iter().copied().collect::<BTreeSet<_>>();
    same(&calls(&removals.deadlines), &deadlines, "deadlines")
}
