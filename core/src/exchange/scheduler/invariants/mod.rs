//! What holds of a scheduler between two steps of it.

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::String;

use crate::exchange::membership::State;
use crate::exchange::role::Role;
use crate::exchange::scheduler::links::Standing;
use crate::exchange::scheduler::machine::{Alarm, Scheduler};
use crate::exchange::scheduler::report::Phase;
use crate::exchange::scheduler::seat::{Contact, FORMER_MAX, Seat};
use crate::invariant::{Invariant, Violation, check_each};
use crate::time::Time;

/// Checks a scheduler.
///
/// # Errors
/// The first invariant that does not hold.
pub fn check(scheduler: &Scheduler) -> Result<(), Violation> {
    check_each(SCHEDULER_INVARIANTS, scheduler)
}

/// The invariants of a scheduler.
pub(crate) const SCHEDULER_INVARIANTS: &[Invariant<Scheduler>] = &[
    Invariant {
        number: "M1",
        sentence: "each connection is of nobody yet, of the one seat or the one who waits for a seat that \
                   has it, of somebody who has left, or of one of those who look on",
        check: connections,
    },
    Invariant {
        number: "M2",
        sentence: "alarms are those of connections, of seats whose connection broke, of the bootstrap and \
                   of calls",
        check: alarms,
    },
    Invariant {
        number: "M3",
        sentence: "ranks are within the sizes; once it is known who takes part each rank has a seat, and \
                   before nobody is lost or has left",
        check: seats,
    },
    Invariant {
        number: "M4",
        sentence: "who waits at a barrier is in its mask, takes part, has asked for it and was not answered",
        check: waiting,
    },
    Invariant {
        number: "M5",
        sentence: "nobody waits at a barrier that all have come to, or that fails for one who is lost",
        check: barriers,
    },
    Invariant {
        number: "M6",
        sentence: "while it is under way the latest membership is that of the seats, and who is connected \
                   knows it or is about to be told",
        check: membership,
    },
    Invariant {
        number: "M7",
        sentence: "a process waits for a seat only while it is unclear whether that is free",
        check: parked,
    },
    Invariant {
        number: "M8",
        sentence: "an exchange that is over does not come back, nor a run that had a seat before another; \
                   no more connections than may be, no more that look on, and no more runs are \
                   remembered; who waits for traces has asked somebody who is connected",
        check: bounds,
    },
];

fn connections(of: &Scheduler) -> Result<(), String> {
    let mut found = BTreeSet::new();
    for (peer, seat) in &of.seats {
        let Some(connection) = seat.connection() else {
            continue;
        };
        let standing = of.links.get(&connection).map(|link| link.standing);
        if standing != Some(Standing::Seated(*peer)) {
            return Err(format!("{peer:?} has connection {connection}, which is {standing:?}"));
        }
        found.insert(connection);
    }
    for (peer, parked) in &of.parked {
        let connection = parked.connection;
        let standing = of.links.get(&connection).map(|link| link.standing);
        if standing != Some(Standing::Parked(*peer)) {
            return Err(format!(
                "{peer:?} waits at connection {connection}, which is {standing:?}"
            ));
        }
        found.insert(connection);
    }
    let is_lonely = |standing| matches!(standing, Standing::Seated(_) | Standing::Parked(_));
    let lonely = of
        .links
        .iter()
        .find(|(connection, link)| is_lonely(link.standing) && !found.contains(connection));
    match lonely {
        Some((connection, link)) => Err(format!("{connection} is {:?} alone", link.standing)),
        None => observers(of),
    }
}

fn observers(of: &Scheduler) -> Result<(), String> {
    let looking = of.links.iter().filter(|(_, link)| link.standing == Standing::Observing);
    if looking.map(|(connection, _)| connection).eq(of.observers.all.keys()) {
        return Ok(());
    }
    Err(format!("{:?} look on, and others have such connections", of.observers.all.keys()))
}

fn alarms(of: &Scheduler) -> Result<(), String> {
    let mut wanted: BTreeSet<(Time, Alarm)> = BTreeSet::new();
    let timeout = of.settings.config.heartbeat_timeout;
    for (connection, link) in &of.links {
        if link.alarm > link.heard.after(timeout) {
            return Err(format!("connection {connection} is looked at too late"));
        }
        wanted.insert((link.alarm, Alarm::Link(*connection)));
    }
    let mut broken: usize = 0;
    for (peer, seat) in &of.seats {
        if let Contact::Broken { until } = seat.contact {
            wanted.insert((until, Alarm::Seat(*peer)));
            broken = broken.saturating_add(1);
        }
    }
    wanted.extend(of.bootstrap.map(|due| (due, Alarm::Bootstrap)));
    let own = of.meetings.kinds.values().flat_map(|meeting| &meeting.own);
    wanted.extend(own.filter_map(|(call, due)| Some(((*due)?, Alarm::Call(*call)))));
    if let Some(alarm) = wanted.symmetric_difference(&of.alarms).next() {
        return Err(format!("{alarm:?} is wanted or set, not both"));
    }
    if of.broken != broken {
        return Err(format!("{} seats count as broken, and {broken} are", of.broken));
    }
    Ok(())
}

fn seats(of: &Scheduler) -> Result<(), String> {
    let Some(sizes) = of.sizes else {
        return if of.seats.is_empty() {
            Ok(())
        } else {
            Err("there are seats, and nobody said how many".into())
        };
    };
    for ((role, rank), seat) in &of.seats {
        if *role == Role::Scheduler || rank.get() >= sizes.instances(*role) {
            return Err(format!("{role} {rank} has a seat among {sizes}"));
        }
        let is_over = seat.contact == Contact::Over;
        if is_over != (seat.state != State::Up) {
            return Err(format!("{role} {rank} is {:?} and {:?}", seat.state, seat.contact));
        }
        if is_over && of.phase == Phase::Gathering {
            return Err(format!("{role} {rank} is {:?} before it began", seat.state));
        }
    }
    let wanted = sizes.processes() as usize;
    if of.phase != Phase::Gathering && of.seats.len() != wanted {
        return Err(format!("{} seats, and {wanted} ranks", of.seats.len()));
    }
    Ok(())
}

fn waiting(of: &Scheduler) -> Result<(), String> {
    for (kind, meeting) in &of.meetings.kinds {
        for peer in &meeting.waiting {
            let seat = of.seats.get(peer).filter(|seat| seat.state == State::Up);
            let asked = seat.and_then(|seat| seat.asked.get(kind));
            if asked.is_none_or(|asked| asked.result.is_some()) || !kind.0.contains(peer.0) {
                return Err(format!("{peer:?} waits at {kind:?}, and was answered or may not"));
            }
        }
    }
    for (peer, seat) in &of.seats {
        for (kind, asked) in &seat.asked {
            let meeting = of.meetings.kinds.get(kind);
            let is_there = meeting.is_some_and(|meeting| meeting.waiting.contains(peer));
            if asked.result.is_none() != is_there {
                return Err(format!("{peer:?} asked for {kind:?}, and waits there or does not"));
            }
        }
    }
    Ok(())
}

fn barriers(of: &Scheduler) -> Result<(), String> {
    if of.phase != Phase::Running {
        return Ok(());
    }
    for (kind, meeting) in &of.meetings.kinds {
        if meeting.waiting.is_empty() && meeting.own.is_empty() {
            continue;
        }
        let mut missing = of.up().filter(|(peer, _)| kind.0.contains(peer.0));
        let is_there = |(peer, _): &(&(Role, _), &Seat)| meeting.waiting.contains(*peer);
        let itself = of.settings.takes_part && kind.0.contains(Role::Scheduler);
        let is_instance = kind.1 == crate::exchange::message::Scope::Instance;
        if is_instance && missing.all(|it| is_there(&it)) && !(itself && meeting.own.is_empty()) {
            return Err(format!("all have come to {kind:?}"));
        }
        let lost = of.seats.iter().find(|(peer, seat)| {
            kind.0.contains(peer.0)
                && seat.state == State::Lost
                && !of.settings.goes_on_without_lost
        });
        if let Some((peer, _)) = lost {
            return Err(format!("{peer:?} is lost, and somebody waits at {kind:?}"));
        }
    }
    Ok(())
}

fn membership(of: &Scheduler) -> Result<(), String> {
    if of.phase != Phase::Running {
        return Ok(());
    }
    let Some(membership) = &of.telling.membership else {
        return Err("it is under way, and there is no membership".into());
    };
    let members = of.seats.iter().map(|(peer, seat)| seat.member(*peer));
    if of.is_changed || !membership.members.iter().cloned().eq(members) {
        return Err("the membership is not that of the seats".into());
    }
    if membership.version != of.version {
        return Err(format!("version {}, and membership {}", of.version, membership.version));
    }
    let untold = of.up().find(|(peer, seat)| {
        let is_connected = seat.connection().is_some();
        is_connected && !seat.is_assigned && !of.telling.untold.contains(*peer)
    });
    match untold {
        Some((peer, _)) => Err(format!("{peer:?} is not told who takes part")),
        None => Ok(()),
    }
}

fn parked(of: &Scheduler) -> Result<(), String> {
    for (peer, parked) in &of.parked {
        let seat = of.seats.get(peer);
        let is_unclear = seat.is_some_and(|seat| match seat.contact {
            Contact::Broken { .. } => true,
            Contact::Over => of.phase == Phase::Rebuilding,
            Contact::Connected(_) => false,
        });
        if !is_unclear {
            return Err(format!("{peer:?} is free or taken, and {:?} waits", parked.connection));
        }
    }
    Ok(())
}

fn bounds(of: &Scheduler) -> Result<(), String> {
    if of.phase != Phase::Gathering && of.version <= of.over {
        return Err(format!("version {} is under way, and {} is over", of.version, of.over));
    }
    let max = (of.settings.config.processes_max as usize).saturating_mul(2);
    if of.links.len() > max {
        return Err(format!("{} connections", of.links.len()));
    }
    for (peer, seat) in &of.seats {
        let former = seat.former.len();
        if former > FORMER_MAX || seat.former.contains(&seat.incarnation) {
            let run = seat.incarnation;
            return Err(format!("{peer:?} is of run {run}, after {former} others, or itself"));
        }
    }
    looking_on(of)
}

fn looking_on(of: &Scheduler) -> Result<(), String> {
    let observers = &of.observers.all;
    if observers.len() > of.settings.config.observers_max {
        return Err(format!("{} look on", observers.len()));
    }
    let in_vain = observers
        .values()
        .flatten()
        .find(|asked| of.seats.get(&asked.peer).and_then(Seat::connection) != Some(asked.member));
    if let Some(asked) = in_vain {
        return Err(format!("somebody waits for traces of {:?}, which is away", asked.peer));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
