//! What holds of a rendezvous between two steps of it.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::String;

use crate::ids::{CallId, RequestId};
use crate::invariant::{Invariant, Violation, check_each};
use crate::rendezvous::calls::Place;
use crate::rendezvous::machine::Rendezvous;
use crate::rendezvous::room::Held;
use crate::rendezvous::step::{Answer, Contents, Deferred, Kept};
use crate::rendezvous::table::Queue;

/// Checks a rendezvous.
///
/// # Errors
/// The first invariant that does not hold.
pub fn check<T: Clone>(rendezvous: &Rendezvous<T>) -> Result<(), Violation> {
    check_each(&invariants(), rendezvous)
}

/// The invariants of a rendezvous.
pub(crate) fn invariants<T: Clone>() -> [Invariant<Rendezvous<T>>; 6] {
    [
        Invariant {
            number: "V1",
            sentence: "each call that waits stands in one place, and nobody else stands there",
            check: waiting,
        },
        Invariant {
            number: "V2",
            sentence: "what is held is what is in steps, and what is left of those that ended",
            check: held,
        },
        Invariant {
            number: "V3",
            sentence: "bounds on steps, calls and tensors are kept, but for what is on its way",
            check: bounds,
        },
        Invariant {
            number: "V4",
            sentence: "senders wait for room where their tensors are, only those, and not for what there is",
            check: parked,
        },
        Invariant {
            number: "V5",
            sentence: "each request whose answer is kept or awaited is in its step",
            check: kept,
        },
        Invariant {
            number: "V6",
            sentence: "a step that ended holds nothing, and one not initialised has an empty table",
            check: phases,
        },
    ]
}

/// All contents: of steps, and of those that ended.
fn all<T: Clone>(rendezvous: &Rendezvous<T>) -> impl Iterator<Item = &Contents<T>> {
    let ended = rendezvous.ended.iter().map(|ended| &ended.contents);
    rendezvous.steps.values().map(|step| &step.contents).chain(ended)
}

/// Who waits in some contents, and whether that is a sender with its tensor in the table.
fn calls_in<T>(contents: &Contents<T>) -> impl Iterator<Item = CallId> {
    let queues = contents.table.queues.values().flat_map(|queue| {
        let (sent, waiting) = match queue {
            Queue::Sent(line) => (Some(line.iter().filter_map(|(_, sent)| sent.sender)), None),
            Queue::Waiting(line) => (None, Some(line.iter().map(|(_, waiter)| waiter.call))),
        };
        sent.into_iter().flatten().chain(waiting.into_iter().flatten())
    });
    let deferred = contents.deferred.values().filter_map(|deferred| match deferred {
        Deferred::Send { sender, .. } => *sender,
        Deferred::Recv { call, .. } | Deferred::RecvLocal { call, .. } => Some(*call),
    });
    let followers = contents.kept.values().flat_map(|kept| match &kept.answer {
        Answer::Awaited { followers } => followers.as_slice(),
        Answer::Given(_) => &[],
    });
    queues.chain(deferred).chain(contents.fetches.iter().copied()).chain(followers.copied())
}

fn waiting<T: Clone>(of: &Rendezvous<T>) -> Result<(), String> {
    let mut found = BTreeSet::new();
    for call in all(of).flat_map(calls_in) {
        if !found.insert(call) {
            return Err(format!("call {call} stands in two places"));
        }
    }
    let known: BTreeSet<CallId> = of.calls.pending.keys().copied().collect();
    if let Some(call) = known.symmetric_difference(&found).next() {
        return Err(format!("call {call} is either known or stands somewhere, not both"));
    }
    let odd = of.calls.pending.iter().find(|(call, pending)| {
        let is_due = pending.due.is_none_or(|due| of.calls.dues.contains(&(due, **call)));
        !is_due
    });
    match odd {
        Some((call, _)) => Err(format!("call {call} has a time at which nobody looks")),
        None => Ok(()),
    }
}

/// What counts as held in some contents.
fn held_in<T>(contents: &Contents<T>) -> Held {
    let mut held = Held::default();
    for queue in contents.table.queues.values() {
        if let Queue::Sent(line) = queue {
            let counted = line.iter().filter(|(_, sent)| sent.sender.is_none());
            counted.for_each(|(_, sent)| held.add(sent.value.bytes));
        }
    }
    for deferred in contents.deferred.values() {
        if let Deferred::Send { value, sender: None, .. } = deferred {
            held.add(value.bytes);
        }
    }
    for kept in contents.kept.values() {
        if let Answer::Given(delivery) = &kept.answer {
            held.add(delivery.value.bytes);
        }
    }
    held
}

fn held<T: Clone>(of: &Rendezvous<T>) -> Result<(), String> {
    for (id, step) in &of.steps {
        let found = held_in(&step.contents);
        if step.held != found {
            return Err(format!("step {id} counts {:?} and holds {found:?}", step.held));
        }
    }
    let mut sum = Held::default();
    for contents in all(of) {
        let Held { tensors, bytes } = held_in(contents);
        sum = Held {
            tensors: sum.tensors.saturating_add(tensors),
            bytes: sum.bytes.saturating_add(bytes),
        };
    }
    if of.room.held != sum {
        return Err(format!("{:?} are counted and {sum:?} are there", of.room.held));
    }
    let given = all(of).flat_map(|contents| contents.kept.values()).filter_map(given_bytes);
    let kept = given.fold(0, u64::saturating_add);
    if of.room.kept_bytes == kept {
        return Ok(());
    }
    Err(format!("{} bytes of answers are counted and {kept} are kept", of.room.kept_bytes))
}

/// Bytes of an answer that is kept.
const fn given_bytes<T>(kept: &Kept<T>) -> Option<u64> {
    match &kept.answer {
        Answer::Given(delivery) => Some(delivery.value.bytes),
        Answer::Awaited { .. } => None,
    }
}

fn bounds<T: Clone>(of: &Rendezvous<T>) -> Result<(), String> {
    let (steps, calls) = (of.steps.len(), of.calls.pending.len());
    if steps > of.config.steps_max {
        return Err(format!("{steps} steps"));
    }
    if calls > of.config.calls_max {
        return Err(format!("{calls} calls wait"));
    }
    let is_kept = |contents: &Contents<T>| {
        contents.kept.values().any(|kept| matches!(kept.answer, Answer::Given(_)))
    };
    let over = of.steps.iter().find(|(_, step)| {
        let Held { tensors, bytes } = step.held;
        let is_over = tensors > of.config.step_tensors_max || bytes > of.config.step_bytes_max;
        is_over && !is_kept(&step.contents)
    });
    if let Some((id, step)) = over {
        return Err(format!("step {id} holds {:?}", step.held));
    }
    let Held { tensors, bytes } = of.room.held;
    let is_over = tensors > of.config.tensors_max || bytes > of.config.bytes_max;
    if is_over && !all(of).any(is_kept) {
        return Err(format!("{:?} are held", of.room.held));
    }
    Ok(())
}

fn parked<T: Clone>(of: &Rendezvous<T>) -> Result<(), String> {
    for (id, step) in &of.steps {
        let mut numbers = BTreeMap::new();
        for queue in step.contents.table.queues.values() {
            if let Queue::Sent(line) = queue {
                let senders = line.iter().filter_map(|(number, sent)| Some((number, sent.sender?)));
                numbers.extend(senders);
            }
        }
        let mine = of.room.parked.iter().filter(|(_, parked)| parked.serial == step.serial);
        let mine: BTreeMap<u64, CallId> = mine.map(|(number, it)| (*number, it.call)).collect();
        if mine != numbers {
            return Err(format!(
                "of step {id} {mine:?} wait for room, and {numbers:?} are in its table"
            ));
        }
        let lost = mine.keys().find(|number| {
            step.contents.parked.contains(number) == of.room.by_all.contains(number)
        });
        if let Some(number) = lost {
            return Err(format!("tensor {number} of step {id} waits for both bounds, or for none"));
        }
    }
    let of_steps = of.steps.values().filter_map(|step| step.contents.parked.first());
    for number in of_steps.chain(of.room.by_all.first()) {
        let first = of.room.parked.get(number).and_then(|it| Some((it, of.steps.get(&it.step)?)));
        if let Some((it, step)) = first.filter(|(it, step)| it.serial == step.serial)
            && of.room.check(&of.config, step.held, it.bytes).is_ok()
        {
            return Err(format!("there is room for tensor {number} of step {}", it.step));
        }
    }
    Ok(())
}

fn kept<T: Clone>(of: &Rendezvous<T>) -> Result<(), String> {
    let known: BTreeSet<RequestId> = of.requests.kept.keys().copied().collect();
    let found: BTreeSet<RequestId> = all(of).flat_map(|it| it.kept.keys().copied()).collect();
    if let Some(request) = known.symmetric_difference(&found).next() {
        return Err(format!("request {request} is either known or in a step, not both"));
    }
    let is_awaited = |call: &CallId, request: RequestId| {
        let places = of.calls.pending.get(call).map(|pending| &pending.place);
        matches!(places, Some(Place::Following { request: it }) if *it == request)
    };
    for (request, kept) in all(of).flat_map(|contents| &contents.kept) {
        if let Answer::Awaited { followers } = &kept.answer
            && let Some(call) = followers.iter().find(|call| !is_awaited(call, *request))
        {
            return Err(format!("call {call} follows request {request} and does not know it"));
        }
    }
    Ok(())
}

fn phases<T: Clone>(of: &Rendezvous<T>) -> Result<(), String> {
    for (id, step) in &of.steps {
        let contents = &step.contents;
        if step.status.is_some() && !contents.is_empty() {
            return Err(format!("step {id} was aborted, and there is something in it"));
        }
        let has_more = !contents.table.queues.is_empty() || !contents.fetches.is_empty();
        if step.home.is_none() && has_more {
            return Err(format!("step {id} is not initialised, and its table is not empty"));
        }
        let waits = step.home.is_some() && !contents.deferred.is_empty();
        if waits != of.beginning.contains(id) {
            return Err(format!("step {id} has something to do that nobody does"));
        }
        let is_looked_at = step.expires.is_some_and(|at| of.expiries.contains(&(at, *id)));
        if of.config.step_expiry.is_some() && !is_looked_at {
            return Err(format!("step {id} is never given up"));
        }
    }
    if of.expiries.len() > of.steps.len() {
        return Err("somebody looks whether steps are in use that are over".into());
    }
    Ok(())
}

#[cfg(test)]
mod tests;
