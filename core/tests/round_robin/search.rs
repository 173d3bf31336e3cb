//! Breadth-first search through all states within bounds.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use crate::liveness::Liveness;
use crate::world::{Bounds, Event, World};

/// What a search has seen.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    pub(crate) states: usize,
    pub(crate) steps: usize,
    /// The most heartbeats it took from any state until nothing was pending.
    pub(crate) heartbeats_max: u32,
    /// States in which each number of tasks was pending.
    pub(crate) pending: BTreeMap<usize, usize>,
    /// States in which a later task was on the list.
    pub(crate) promoted: usize,
    /// States in which a task was given up.
    pub(crate) removed: usize,
}

/// How a state was reached first: from which one, and by what.
type Origins = Vec<(usize, Option<Event>)>;

/// Walks through every state, if there are no more than `states_max`. `Err` tells what went wrong,
/// and how it came to that.
pub(crate) fn search(bounds: &Bounds, states_max: usize) -> Result<Seen, String> {
    let mut seen = Seen::default();
    let mut liveness = Liveness::new(bounds);
    let mut origins: Origins = vec![(0, None)];
    let mut known = BTreeSet::new();
    let start = World::new(bounds);
    known.insert(start.key(bounds));
    let mut frontier = vec![(0, start)];
    while !frontier.is_empty() {
        let mut next = Vec::new();
        for (at, world) in frontier {
            note(&mut seen, &world);
            liveness.check(&world).map_err(|text| story(&origins, at, None, &text))?;
            for event in world.events(bounds) {
                let mut after = world.clone();
                after
                    .happen(event, bounds)
                    .map_err(|text| story(&origins, at, Some(event), &text))?;
                seen.steps += 1;
                if known.insert(after.key(bounds)) {
                    if !Rc::ptr_eq(&world.real, &after.real) {
                        after
                            .real
                            .check()
                            .map_err(|text| story(&origins, at, Some(event), &text))?;
                    }
                    next.push((origins.len(), after));
                    origins.push((at, Some(event)));
                }
            }
        }
        if origins.len() > states_max {
            return Err(format!("there are more than {states_max} states"));
        }
        frontier = next;
    }
    seen.states = origins.len();
    seen.heartbeats_max = liveness.heartbeats_max();
    Ok(seen)
}

fn note(seen: &mut Seen, world: &World) {
    let iteration = world.real.iteration();
    *seen.pending.entry(iteration.pending.len()).or_default() += 1;
    let later = |task| world.real.starting_round(task) > 0;
    seen.promoted += usize::from(iteration.tasks.iter().any(|task| later(*task)));
    let gone = world.dead_from.is_some() && !iteration.tasks.contains(&crate::world::FIRST);
    seen.removed += usize::from(gone);
}

fn story(origins: &Origins, at: usize, last: Option<Event>, text: &str) -> String {
    let mut events: Vec<Event> = last.into_iter().collect();
    let mut at = at;
    while let (before, Some(event)) = origins[at] {
        events.push(event);
        at = before;
    }
    let events: Vec<String> = events.iter().rev().map(|e| format!("  {e:?}")).collect();
    format!("{text}, after\n{}", events.join("\n"))
}
