//! What holds of a process between two steps of it.

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::String;

use crate::exchange::member::calls::Place;
use crate::exchange::member::connecting::Way;
use crate::exchange::member::machine::Member;
use crate::exchange::member::types::Standing;
use crate::exchange::membership::State;
use crate::ids::CallId;
use crate::invariant::{Invariant, Violation, check_each};
use crate::time::Time;

/// Checks a process.
///
/// # Errors
/// The first invariant that does not hold.
pub fn check(member: &Member) -> Result<(), Violation> {
    check_each(MEMBER_INVARIANTS, member)
}

/// The invariants of a process.
pub(crate) const MEMBER_INVARIANTS: &[Invariant<Member>] = &[
    Invariant {
        number: "M20",
        sentence: "calls wait only for what can still come, and their alarms are those they have",
        check: calls,
    },
    Invariant {
        number: "M21",
        sentence: "each call at a barrier stands in the line of its kind, once, and nobody else does",
        check: lines,
    },
    Invariant {
        number: "M22",
        sentence: "a barrier that nobody waits at is known only to a scheduler that is yet to hear so",
        check: given_up,
    },
    Invariant {
        number: "M23",
        sentence: "a way to the scheduler is there, is being made or will be while the process takes part \
                   or wants to, and no longer",
        check: way,
    },
    Invariant {
        number: "M24",
        sentence: "who takes part has a rank and is in the membership it knows",
        check: membership,
    },
    Invariant {
        number: "M25",
        sentence: "the scheduler is away while a process that takes part is not known to it",
        check: away,
    },
];

fn calls(of: &Member) -> Result<(), String> {
    let dues = of.calls.waiting.iter().filter_map(|(call, it)| Some((it.due?, *call)));
    let dues: BTreeSet<(Time, CallId)> = dues.collect();
    if let Some((_, call)) = dues.symmetric_difference(&of.calls.dues).next() {
        return Err(format!("call {call} has an alarm or wants one, not both"));
    }
    let may = |place| match place {
        Place::Join => of.standing == Standing::Joining,
        Place::Barrier(_) | Place::Changed(_) => of.standing == Standing::Joined,
        Place::Leave => of.standing == Standing::Leaving,
    };
    match of.calls.waiting.iter().find(|(_, waiting)| !may(waiting.place)) {
        Some((call, waiting)) => {
            Err(format!("call {call} waits for {:?}, and it is {:?}", waiting.place, of.standing))
        }
        None => Ok(()),
    }
}

fn lines(of: &Member) -> Result<(), String> {
    let mut found = BTreeSet::new();
    for (kind, line) in &of.lines {
        let told = line.told.and_then(|told| told.call);
        for call in line.calls.iter().copied().chain(told) {
            let place = of.calls.waiting.get(&call).map(|waiting| waiting.place);
            if place != Some(Place::Barrier(*kind)) || !found.insert(call) {
                return Err(format!("call {call} stands at {kind:?}, and waits for {place:?}"));
            }
        }
        if line.told.is_some_and(|told| told.number > of.last_number) {
            return Err(format!("{kind:?} has a number that was not given out"));
        }
    }
    let at_barriers =
        of.calls.waiting.iter().filter(|(_, it)| matches!(it.place, Place::Barrier(_)));
    match at_barriers.map(|(call, _)| call).find(|call| !found.contains(*call)) {
        Some(call) => Err(format!("call {call} stands in no line")),
        None => Ok(()),
    }
}

fn given_up(of: &Member) -> Result<(), String> {
    let is_open = matches!(of.way, Way::Open { .. });
    for (kind, line) in &of.lines {
        if line.told.is_some_and(|told| told.call.is_none()) && !is_open {
            return Err(format!("{kind:?} was given up, and there is nobody to be told"));
        }
        if line.told.is_none() && !line.calls.is_empty() && of.way.assigned().is_some() {
            return Err(format!("{kind:?} has calls that the scheduler is not told of"));
        }
    }
    Ok(())
}

fn way(of: &Member) -> Result<(), String> {
    let wants = match of.standing {
        Standing::Joining | Standing::Joined | Standing::Leaving => true,
        Standing::Idle | Standing::Left | Standing::Over(_) => false,
    };
    let has = of.way != Way::Closed { retry: None };
    if wants == has { Ok(()) } else { Err(format!("it is {:?}, with {:?}", of.standing, of.way)) }
}

fn membership(of: &Member) -> Result<(), String> {
    if of.standing != Standing::Joined {
        return Ok(());
    }
    let (Some((_, rank)), Some(membership)) = (of.assigned, &of.membership) else {
        return Err("it takes part, and does not know as whom".into());
    };
    let identity = &of.settings.identity;
    let itself = membership.member(identity.role, rank);
    let is_in = itself.is_some_and(|member| {
        member.state == State::Up && member.incarnation == identity.incarnation
    });
    if is_in { Ok(()) } else { Err(format!("it is {itself:?} in the membership it knows")) }
}

fn away(of: &Member) -> Result<(), String> {
    let takes_part = of.standing == Standing::Joined;
    let is_known = of.way.assigned().is_some();
    if takes_part && of.away.is_some() == is_known {
        return Err(format!("away since {:?}, with {:?}", of.away, of.way));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
