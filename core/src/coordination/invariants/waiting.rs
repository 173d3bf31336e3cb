//! Waiting calls and alarms.

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::String;

use super::super::live::{Alarm, Live};
use super::super::machine::Coordination;
use super::super::types::Phase;
use super::super::waiting_calls::Counts;
use crate::ids::NamespaceId;
use crate::time::Time;

pub(in super::super) fn calls_have_places(machine: &Coordination) -> Result<(), String> {
    let leaving: BTreeSet<_> =
        machine.outbox.iter().flat_map(|departure| departure.calls.iter().copied()).collect();
    let mut seated: usize = 0;
    for (call, (id, seat)) in machine.calls.iter() {
        let has = machine.lives.get(id).is_some_and(|live| live.is_seated(*call, seat));
        seated = seated.saturating_add(usize::from(has));
        if has == leaving.contains(call) {
            return Err(format!("call {call} at {seat:?} has a place: {has}"));
        }
    }
    if let Some(key) = machine.lives.values().find_map(Live::kept_for_nobody) {
        return Err(format!(
            "the list of calls that wait for key {key:?} is empty and still there"
        ));
    }
    let taken =
        machine.lives.values().fold(0, |sum: usize, live| sum.saturating_add(live.seats_taken()));
    if let Some(id) = machine.lives.keys().find(|id| count_is_wrong(machine, **id)) {
        return Err(format!("the calls of namespace {id} that wait are not counted"));
    }
    match taken == seated {
        true => Ok(()),
        false => Err(format!("{taken} places are taken, by {seated} calls")),
    }
}

fn count_is_wrong(machine: &Coordination, id: NamespaceId) -> bool {
    let mine = || machine.calls.iter().filter(|(_, (of, _))| *of == id);
    let for_keys = mine().filter(|(_, (_, seat))| seat.is_for_keys()).count();
    machine.calls.counts(id) != Counts { all: mine().count(), for_keys }
}

pub(in super::super) fn alarms_agree(machine: &Coordination) -> Result<(), String> {
    let mut alarms = BTreeSet::new();
    for (id, live) in &machine.lives {
        let beats = live.beats.iter();
        alarms.extend(beats.filter_map(|(t, b)| Some((b.alarm?, *id, Alarm::Silence(*t)))));
        let barriers = live.barrier_alarms.iter();
        alarms.extend(barriers.map(|(key, at)| (*at, *id, Alarm::Barrier(key.clone()))));
        alarms.extend(live.settle_alarm.map(|at| (at, *id, Alarm::Settle)));
        alarms.extend(live.marks.alarm.map(|at| (at, *id, Alarm::Progress)));
        alarms.extend(live.heard.alarm.map(|at| (at, *id, Alarm::SilentRelays)));
        let has_relays = machine.namespace(*id).is_ok_and(|it| !it.relays.is_empty());
        if has_relays && live.heard.alarm.is_none() {
            return Err(format!("nobody looks for silent relays of namespace {id}"));
        }
    }
    match alarms == machine.alarms {
        true => Ok(()),
        false => Err(format!("{:?} rather than {alarms:?}", machine.alarms)),
    }
}

pub(in super::super) fn connected_tasks_are_watched(machine: &Coordination) -> Result<(), String> {
    for (id, live) in &machine.lives {
        let Ok(namespace) = machine.namespace(*id) else {
            return Err(format!("namespace {id} lives without a state"));
        };
        for task in namespace.tasks.values() {
            let beat = live.beats.get(&task.index);
            let ends = beat.map_or(Time::NEVER, |beat| machine.patience_from(*id, beat.since));
            let alarm = beat.and_then(|beat| beat.alarm);
            let fits = match task.phase {
                // A full journal puts alarms off.
                Phase::Connected => ends == Time::NEVER || alarm.is_some(),
                _ => alarm.is_none(),
            };
            if !fits || beat.is_none() {
                return Err(format!("task {} of {id}: {alarm:?}, not {ends:?}", task.index));
            }
        }
    }
    Ok(())
}

pub(in super::super) fn open_barriers_end(machine: &Coordination) -> Result<(), String> {
    for (id, live) in &machine.lives {
        let Ok(namespace) = machine.namespace(*id) else {
            continue;
        };
        for barrier in namespace.open_barriers() {
            let ends = barrier.opened.after(barrier.timeout) < Time::NEVER;
            if ends && !live.barrier_alarms.contains_key(&barrier.key) {
                return Err(format!("barrier {:?} has no alarm", barrier.key));
            }
        }
        let closed = live.barrier_alarms.keys().find(|key| !namespace.index.open.contains(key));
        if let Some(closed) = closed {
            return Err(format!("barrier {closed:?} has an alarm and is not open"));
        }
    }
    Ok(())
}

pub(in super::super) fn nobody_waits_in_vain(machine: &Coordination) -> Result<(), String> {
    for (id, live) in &machine.lives {
        let Ok(namespace) = machine.namespace(*id) else {
            continue;
        };
        if let Some(key) = live.gets.keys().find(|key| namespace.store.get(key).is_some()) {
            return Err(format!("key {key:?} is there and waited for"));
        }
        if namespace.head.sticky.is_some() && !live.polls.is_empty() {
            return Err("tasks poll for an error that is known".into());
        }
        if live.told_version != namespace.head.version {
            return Err(format!("told version {}", live.told_version));
        }
    }
    Ok(())
}

pub(in super::super) fn waiting_calls_have_arrived(machine: &Coordination) -> Result<(), String> {
    for (id, live) in &machine.lives {
        let Ok(namespace) = machine.namespace(*id) else {
            continue;
        };
        for (key, calls) in &live.waiting {
            let barrier = namespace.barriers.get(key).filter(|b| b.outcome.is_none());
            let came = |task| barrier.is_some_and(|b| b.arrived.contains_key(task));
            if let Some(task) = calls.keys().find(|task| !came(task)) {
                return Err(format!("task {task} waits at {key:?}"));
            }
        }
    }
    Ok(())
}

pub(in super::super) fn groups_are_incomplete(machine: &Coordination) -> Result<(), String> {
    for (id, live) in &machine.lives {
        let Ok(namespace) = machine.namespace(*id) else {
            continue;
        };
        for (tasks, group) in &live.groups {
            let waited_for = tasks.iter().any(|task| {
                let known = namespace.tasks.get(task);
                known.is_some_and(|t| t.phase == Phase::Connected) && !group.has(*task)
            });
            if !waited_for {
                return Err(format!("{tasks:?} is complete"));
            }
        }
    }
    Ok(())
}
