//! Invariants about splits that clients read by themselves.

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::String;

use super::graph::same;
use crate::dispatcher::handed_out::SplitSet;
use crate::dispatcher::machine::Dispatcher;
use crate::dispatcher::state::{Iteration, State};
use crate::ids::ClientId;
use crate::limits::SPLITS_PER_CLIENT_MAX;
use crate::time::Time;

/// D45.
pub(super) fn held_splits_are_in_one_place(state: &State) -> Result<(), String> {
    state.iterations.values().try_for_each(|iteration| {
        let placed = placed_splits(state, iteration);
        placed.map_err(|text| format!("iteration {}: {text}", iteration.id))
    })
}

fn placed_splits(state: &State, iteration: &Iteration) -> Result<(), String> {
    let clients = iteration.clients.iter().filter_map(|id| state.clients.get(id));
    let held = clients.clone().flat_map(|client| client.splits.keys().copied());
    let by_split = &iteration.by_split;
    if u64::try_from(held.clone().count()).ok() != Some(by_split.held) {
        return Err(format!("{} splits are counted as held", by_split.held));
    }
    if let Some(client) = clients.clone().find(|c| c.splits.len() > SPLITS_PER_CLIENT_MAX) {
        return Err(format!("client {} holds {} splits", client.id, client.splits.len()));
    }
    let tasks = iteration.tasks.iter().filter_map(|id| state.tasks.get(id));
    let of_tasks = tasks.map(|task| &task.splits.remembered);
    let sets = || of_tasks.clone().chain([&iteration.splits.again]);
    let elsewhere = |place: u64| sets().any(|set: &SplitSet| set.contains(0, 0, place));
    let mut placed = BTreeSet::new();
    for place in held.chain(by_split.waiting.keys().copied()) {
        if !placed.insert(place) || elsewhere(place) {
            return Err(format!("the split at {place} is in two places"));
        }
        if place >= handed_out(iteration) {
            return Err(format!("the split at {place} was not handed out"));
        }
    }
    Ok(())
}

/// Places of the first pass over the only source that were handed out.
fn handed_out(iteration: &Iteration) -> u64 {
    match iteration.sources.first() {
        Some(source) if source.repetition > 0 => source.source.len(),
        Some(source) => source.index,
        None => 0,
    }
}

/// D46.
pub(super) fn silent_readers_are_noticed(dispatcher: &Dispatcher) -> Result<(), String> {
    let (leases, alarms) = (&dispatcher.leases, &dispatcher.leases.readers);
    let queue: BTreeSet<(Time, ClientId)> = alarms.at.iter().map(|(id, at)| (*at, *id)).collect();
    same(&alarms.queue, &queue, "alarms of readers")?;
    if let Some(id) = alarms.at.keys().find(|id| !dispatcher.state.clients.contains_key(id)) {
        return Err(format!("client {id} is gone and looked at"));
    }
    let clients = dispatcher.state.clients.values();
    for client in clients.filter(|client| !client.splits.is_empty()) {
        let heard = leases.client_heard(client.id).unwrap_or(Time::ZERO);
        let ends = heard.after(dispatcher.config.reader_timeout);
        let watched = |at: &Time| at.since(ends).as_nanos() <= 1;
        if !alarms.at.get(&client.id).is_some_and(watched) && ends != Time::NEVER {
            return Err(format!("nobody looks at client {} in time", client.id));
        }
    }
    Ok(())
}
