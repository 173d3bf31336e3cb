//! Namespaces, tasks and barriers.

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::String;

use super::super::state::{Namespace, Outcome, State};
use super::super::types::{BarrierKey, Phase};

pub(in super::super) fn names_lead_to_namespaces(state: &State) -> Result<(), String> {
    for (id, namespace) in &state.namespaces {
        let name = &namespace.head.name;
        if namespace.head.id != *id || state.by_name.get(name) != Some(id) {
            return Err(format!("namespace {id} is named {name:?}"));
        }
    }
    match state.by_name.len() == state.namespaces.len() {
        true => Ok(()),
        false => {
            Err(format!("{} names, {} namespaces", state.by_name.len(), state.namespaces.len()))
        }
    }
}

/// Checks each namespace.
pub(super) fn each(
    state: &State,
    check: impl Fn(&Namespace) -> Result<(), String>,
) -> Result<(), String> {
    state.namespaces.values().try_for_each(|namespace| {
        check(namespace).map_err(|text| format!("namespace {}: {text}", namespace.head.name))
    })
}

pub(in super::super) fn tasks_are_sound(state: &State) -> Result<(), String> {
    each(state, |namespace| {
        for (index, task) in &namespace.tasks {
            let fits = task.index == *index && namespace.can_have(*index);
            if !fits || task.fault.is_some() != (task.phase == Phase::Error) {
                return Err(format!("task {index}: {task:?}"));
            }
        }
        Ok(())
    })
}

pub(in super::super) fn phases_fit_the_register_barrier(state: &State) -> Result<(), String> {
    each(state, |namespace| {
        let register = namespace.barriers.get(&BarrierKey::Register);
        let passed = namespace.has_begun();
        for task in namespace.tasks.values() {
            let fits = match task.phase {
                Phase::Registering => register.is_some_and(|barrier| {
                    barrier.outcome.is_none() && barrier.arrived.contains_key(&task.index)
                }),
                Phase::Connected => passed,
                Phase::Disconnected | Phase::Error => true,
            };
            if !fits {
                return Err(format!("task {} is {:?}", task.index, task.phase));
            }
        }
        let failed = register.is_some_and(|r| matches!(r.outcome, Some(Outcome::Failed(_))));
        match failed && namespace.index.present > 0 {
            true => Err("tasks are there although registering failed".into()),
            false => Ok(()),
        }
    })
}

pub(in super::super) fn indexes_agree(state: &State) -> Result<(), String> {
    each(state, |namespace| {
        let here = |phase| matches!(phase, Phase::Registering | Phase::Connected);
        let present = namespace.tasks.values().filter(|task| here(task.phase)).count();
        if present != namespace.index.present {
            return Err(format!("{present} present, {} counted", namespace.index.present));
        }
        let of = namespace.tasks.values().map(|task| (task.incarnation, task.index));
        match namespace.index.by_incarnation == of.collect() {
            true => Ok(()),
            false => Err(format!("{:?}", namespace.index.by_incarnation)),
        }
    })
}

pub(in super::super) fn barriers_are_open_or_ended(state: &State) -> Result<(), String> {
    each(state, |namespace| {
        for (key, barrier) in &namespace.barriers {
            let open = namespace.index.open.contains(key);
            let ended = namespace.index.ended.contains(&(barrier.changed, key.clone()));
            let named = matches!(key, BarrierKey::Named(_));
            let fits = match barrier.outcome {
                None => open && !ended,
                Some(_) => !open && ended == named && barrier.arrived.is_empty(),
            };
            if !fits || barrier.key != *key {
                return Err(format!("barrier {key:?}: {barrier:?}"));
            }
        }
        let known = namespace.index.open.len() + namespace.index.ended.len();
        let own = [BarrierKey::Register, BarrierKey::Shutdown, BarrierKey::Devices];
        let own = own.iter().filter(|key| {
            namespace.barriers.get(key).is_some_and(|barrier| barrier.outcome.is_some())
        });
        match known + own.count() == namespace.barriers.len() {
            true => Ok(()),
            false => Err(format!("{known} barriers indexed, {}", namespace.barriers.len())),
        }
    })
}

pub(in super::super) fn lists_are_counted(state: &State) -> Result<(), String> {
    each(state, |namespace| {
        let barriers = namespace.barriers.values();
        let listed = barriers.clone().fold(0, |sum: usize, it| sum.saturating_add(it.listed()));
        let ended = barriers.filter(|it| it.outcome.is_some() && it.listed() > 0);
        let ended = ended.filter(|it| matches!(it.key, BarrierKey::Named(_)));
        let ended: BTreeSet<_> = ended.map(|it| (it.changed, it.key.clone())).collect();
        match listed == namespace.index.listed && ended == namespace.index.ended_with_list {
            true => Ok(()),
            false => Err(format!("{listed} tasks are listed, {} counted", namespace.index.listed)),
        }
    })
}

pub(in super::super) fn arrivals_are_participants(state: &State) -> Result<(), String> {
    each(state, |namespace| {
        for barrier in namespace.open_barriers() {
            let participants = barrier.participants.as_ref();
            let stranger = barrier.arrived.keys().find(|task| {
                !participants.is_some_and(|p| p.contains(**task)) || !namespace.can_have(**task)
            });
            if let Some(stranger) = stranger {
                return Err(format!("task {stranger} is at barrier {:?}", barrier.key));
            }
            if namespace.is_complete(barrier) {
                return Err(format!("barrier {:?} is complete and open", barrier.key));
            }
        }
        Ok(())
    })
}
