//! What holds of a relay between two steps.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::String;

use super::calls::Pending;
use super::clients::Load;
use super::machine::Relay;
use super::types::Kind;
use crate::invariant::Invariant;

/// The invariants of a relay.
pub(crate) const RELAY_INVARIANTS: &[Invariant<Relay>] = &[
    Invariant {
        number: "R1",
        sentence: "every call either waits to be sent or was sent, and none was while the server is away",
        check: calls_have_one_place,
    },
    Invariant {
        number: "R2",
        sentence: "what is counted of calls is what they have",
        check: counts_are_right,
    },
    Invariant {
        number: "R3",
        sentence: "the open numbers are those of calls that must not happen twice",
        check: numbers_are_open,
    },
    Invariant {
        number: "R4",
        sentence: "a task is registered through a connection that is open",
        check: tasks_have_clients,
    },
    Invariant {
        number: "R5",
        sentence: "heartbeats that are looked at wait for their answer",
        check: heartbeats_wait,
    },
    Invariant {
        number: "R6",
        sentence: "of each run of a task at most one heartbeat is in flight for which nobody waits",
        check: few_heartbeats_are_left,
    },
];

fn calls_have_one_place(relay: &Relay) -> Result<(), String> {
    let calls = &relay.calls;
    let known: BTreeSet<_> = calls.calls.keys().copied().collect();
    let placed: BTreeSet<_> = calls.queue.union(&calls.in_flight).copied().collect();
    if known != placed {
        return Err(format!("calls {known:?} have places {placed:?}"));
    }
    if let Some(both) = calls.queue.intersection(&calls.in_flight).next() {
        return Err(format!("call {both} has two places"));
    }
    match relay.upstream.link() {
        None if !calls.in_flight.is_empty() => Err(format!("{:?} were sent", calls.in_flight)),
        _ => Ok(()),
    }
}

fn counts_are_right(relay: &Relay) -> Result<(), String> {
    let calls = relay.calls.calls.values();
    let bytes: u64 = calls.clone().map(|pending| pending.asked.message.len() as u64).sum();
    if bytes != relay.calls.held_bytes {
        return Err(format!("{bytes} bytes are held, {} counted", relay.calls.held_bytes));
    }
    let mut of_client: BTreeMap<_, Load> = BTreeMap::new();
    for Pending { asked, waits, .. } in calls {
        let load = of_client.entry(asked.client).or_default();
        load.calls += 1;
        load.of_tasks += usize::from(asked.kind.is_of_tasks());
        load.of_life += usize::from(*waits && asked.kind.shows_life());
        load.stood_in += usize::from(!*waits && asked.kind.shows_life());
        load.bytes += asked.message.len() as u64;
    }
    for id in relay.clients.clients.keys() {
        let (found, counted) =
            (of_client.get(id).copied().unwrap_or_default(), relay.clients.load_of(*id));
        if found != counted {
            return Err(format!("connection {id} has {found:?}, {counted:?} counted"));
        }
    }
    let open = relay.clients.clients.values();
    let reserved: usize = open.map(|client| client.load.reserved()).sum();
    if reserved != relay.clients.reserved() {
        let counted = relay.clients.reserved();
        return Err(format!("{reserved} calls have room of their clients' own, {counted} counted"));
    }
    Ok(())
}

fn numbers_are_open(relay: &Relay) -> Result<(), String> {
    let mut of_calls = BTreeSet::new();
    for (call, pending) in &relay.calls.calls {
        if pending.asked.kind.is_once() != pending.number.is_some() {
            return Err(format!("call {call} is {:?}", pending.asked.kind));
        }
        of_calls.extend(pending.number);
    }
    let lanes = relay.lanes.lanes.iter();
    let open: BTreeSet<_> =
        lanes.flat_map(|(id, lane)| lane.open.iter().map(|number| (*id, *number))).collect();
    match open == of_calls {
        true => Ok(()),
        false => Err(format!("open are {open:?}, calls have {of_calls:?}")),
    }
}

fn tasks_have_clients(relay: &Relay) -> Result<(), String> {
    let open = &relay.clients.clients;
    match relay.clients.tasks.iter().find(|(_, seat)| !open.contains_key(&seat.client)) {
        None => Ok(()),
        Some((task, seat)) => Err(format!("{task:?} registered on {}", seat.client)),
    }
}

fn heartbeats_wait(relay: &Relay) -> Result<(), String> {
    let alarms = relay.calls.alarms.iter().map(|(_, call)| call);
    for call in relay.calls.heartbeats.iter().chain(alarms) {
        let pending = relay.calls.calls.get(call).filter(|pending| pending.waits);
        let heartbeat = pending.is_some_and(|it| matches!(it.asked.kind, Kind::Heartbeat(_)));
        if !heartbeat {
            return Err(format!("call {call} is no heartbeat that waits"));
        }
    }
    Ok(())
}

fn few_heartbeats_are_left(relay: &Relay) -> Result<(), String> {
    let calls = &relay.calls;
    let left = calls.calls.iter().filter(|(_, pending)| !pending.waits);
    let left: BTreeSet<_> = left
        .filter(|(_, pending)| matches!(pending.asked.kind, Kind::Heartbeat(_)))
        .map(|(call, _)| *call)
        .collect();
    let known: BTreeSet<_> = calls.stood_in.values().copied().collect();
    let prompt = calls
        .in_flight
        .iter()
        .filter(|call| calls.calls.get(call).is_some_and(|pending| pending.asked.kind.is_prompt()));
    match left == known && prompt.eq(calls.prompt.keys()) {
        true => Ok(()),
        false => Err(format!("{left:?} are left, {known:?} are known; prompt: {:?}", calls.prompt)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::{CallId, ConnectionId, Incarnation, ServiceIncarnation, TaskIndex};
    use crate::invariant::check_relay;
    use crate::relay::{Asked, Config, Effect, Input, Link, Task, Who};
    use crate::time::Time;
    use alloc::vec::Vec;
    use bytes::Bytes;

    /// A relay with a registered task, an insertion under way, and a heartbeat.
    fn relay() -> Relay {
        let mut relay = Relay::start(Config::of("up:1"), Time::ZERO);
        let mut out: Vec<Effect> = Vec::new();
        let who = || Who {
            task: Task { job: "".into(), index: TaskIndex::new(0) },
            incarnation: Incarnation::new(1),
        };
        let kinds = [Kind::Register(who()), Kind::Once { waits: false }, Kind::Heartbeat(who())];
        let mut step = |input| relay.step(Time::ZERO, input, &mut out);
        step(Input::Tick);
        step(Input::Reached { link: Link(1) });
        for (call, kind) in (1..).zip(kinds) {
            let asked = Asked {
                client: ConnectionId::new(1),
                peer: "".into(),
                path: "".into(),
                message: Bytes::from_static(b"message"),
                kind,
            };
            step(Input::Asked { call: CallId::new(call), asked, entropy: 1 });
        }
        let life = Some(ServiceIncarnation::new(1));
        step(Input::Answered { call: CallId::new(1), result: Ok(Bytes::new()), life });
        assert_eq!(check_relay(&relay), Ok(()));
        relay
    }

    #[test]
    fn each_sees_what_breaks_it() {
        type Break = fn(&mut Relay);
        let breaks: [(&str, Break); 14] = [
            ("R1", |relay| {
                relay.calls.in_flight.pop_first();
            }),
            ("R1", |relay| {
                relay.calls.queue.insert(CallId::new(2));
            }),
            ("R1", |relay| {
                relay.upstream = crate::relay::upstream::Upstream::unknown(Time::ZERO);
            }),
            ("R2", |relay| relay.calls.held_bytes = 3),
            ("R2", |relay| {
                relay.clients.clients.values_mut().for_each(|client| client.load.calls = 9);
            }),
            ("R2", |relay| {
                relay.clients.clients.values_mut().for_each(|client| client.load.bytes = 9);
            }),
            ("R2", |relay| {
                relay.clients.clients.values_mut().for_each(|client| client.load.of_tasks = 9);
            }),
            ("R2", |relay| {
                relay.clients.clients.values_mut().for_each(|client| client.load.of_life = 9);
            }),
            ("R2", |relay| relay.clients.clients.clear()),
            ("R3", |relay| relay.lanes.lanes.clear()),
            ("R4", |relay| {
                let seats = relay.clients.tasks.values_mut();
                seats.for_each(|seat| seat.client = ConnectionId::new(9));
            }),
            ("R5", |relay| {
                relay.calls.heartbeats.insert(CallId::new(2));
            }),
            ("R6", |relay| {
                let task = Task { job: "".into(), index: TaskIndex::new(0) };
                relay.calls.stood_in.insert((task, Incarnation::new(1)), CallId::new(3));
            }),
            ("R6", |relay| {
                relay.calls.prompt.pop_first();
            }),
        ];
        for (number, broken) in breaks {
            let mut relay = relay();
            broken(&mut relay);
            assert_eq!(check_relay(&relay).map_err(|it| it.number), Err(number));
        }
    }
}
