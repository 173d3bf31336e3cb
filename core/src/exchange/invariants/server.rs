//! What holds of a server.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use crate::exchange::ids::{Key, RequestNumber, UnitHandler, WorkerRank};
use crate::exchange::server::{Due, EXCUSED_MAX, Peer, Phase, Server};
use crate::invariant::Invariant;

/// The invariants of a server.
pub(crate) fn invariants<T: Clone>() -> [Invariant<Server<T>>; 6] {
    [
        Invariant {
            number: "X7",
            sentence: "each unit that can be answered is of one request, and each such request has one",
            check: units,
        },
        Invariant {
            number: "X8",
            sentence: "queues are of requests that wait, in order; the ready have one, and take part",
            check: queues,
        },
        Invariant {
            number: "X9",
            sentence: "what a worker's requests hold is counted once, and is within bounds",
            check: counts,
        },
        Invariant {
            number: "X10",
            sentence: "a slot is taken if something is written there or may be read, and by one at a time",
            check: slots,
        },
        Invariant {
            number: "X11",
            sentence: "nobody waits for a batch that can be given out, and each time has its alarm",
            check: waiting,
        },
        Invariant {
            number: "X12",
            sentence: "a worker that is lost has nothing here, and each connection is of one worker",
            check: workers,
        },
    ]
}

fn units<T: Clone>(server: &Server<T>) -> Result<(), String> {
    let mut found: BTreeMap<UnitHandler, (WorkerRank, RequestNumber)> = BTreeMap::new();
    let mut unowing: BTreeSet<UnitHandler> = BTreeSet::new();
    for (worker, peer) in &server.peers {
        for (number, record) in &peer.records {
            let unit = match &record.phase {
                Phase::Queued { unit, .. } => *unit,
                Phase::GivenOut { unit } => {
                    if !record.owes_answer() {
                        unowing.insert(*unit);
                    }
                    *unit
                }
                Phase::Answered { .. } | Phase::Refused { .. } => continue,
            };
            if found.insert(unit, (*worker, *number)).is_some() || unit >= server.next {
                return Err(format!("unit {unit} of request {number} of worker {worker}"));
            }
        }
    }
    if found != server.units {
        return Err(format!("units of requests: {found:?}; known: {:?}", server.units));
    }
    let both = server.orphans.keys().find(|unit| found.contains_key(unit));
    match both {
        Some(unit) => Err(format!("unit {unit} is of a lost worker, and is not")),
        None if !server
            .unowing
            .iter()
            .filter(|it| !server.orphans.contains_key(it))
            .eq(&unowing) =>
        {
            Err(format!("owe no answer: {unowing:?}; known: {:?}", server.unowing))
        }
        None => excused(server, &found),
    }
}

fn excused<T>(
    server: &Server<T>,
    known: &BTreeMap<UnitHandler, (WorkerRank, RequestNumber)>,
) -> Result<(), String> {
    let is_over = |unit: &UnitHandler| {
        *unit < server.next && !known.contains_key(unit) && !server.orphans.contains_key(unit)
    };
    match server.excused.iter().find(|unit| !is_over(unit)) {
        Some(unit) => Err(format!("unit {unit} is excused, and is not over")),
        None if server.excused.len() > EXCUSED_MAX => {
            Err(format!("{} units are excused, of at most {EXCUSED_MAX}", server.excused.len()))
        }
        None => Ok(()),
    }
}

fn queues<T: Clone>(server: &Server<T>) -> Result<(), String> {
    for (worker, peer) in &server.peers {
        let is_queued = |phase: &Phase<T>| matches!(phase, Phase::Queued { .. });
        let queued = peer.records.iter().filter(|(_, record)| is_queued(&record.phase));
        let queued: Vec<RequestNumber> = queued.map(|(number, _)| *number).collect();
        if !peer.queue.iter().eq(&queued) {
            return Err(format!("worker {worker} queues {:?}; wait: {queued:?}", peer.queue));
        }
        if server.ready.contains(worker) == queued.is_empty() {
            return Err(format!("worker {worker} has {} units that wait", queued.len()));
        }
    }
    match server.ready.is_subset(&server.up) {
        true => Ok(()),
        false => Err(format!("ready: {:?}, up: {:?}", server.ready, server.up)),
    }
}

fn counts<T: Clone>(server: &Server<T>) -> Result<(), String> {
    server.peers.iter().try_for_each(|(worker, peer)| counts_of(server, *worker, peer))
}

fn counts_of<T: Clone>(
    server: &Server<T>,
    worker: WorkerRank,
    peer: &Peer<T>,
) -> Result<(), String> {
    let mut keys: BTreeMap<Key, u32> = BTreeMap::new();
    let mut bytes = 0_u64;
    for record in peer.records.values().filter(|record| !record.is_released) {
        bytes = bytes.saturating_add(record.bytes);
        for key in &record.keys {
            let count = keys.entry(*key).or_default();
            *count = count.saturating_add(1);
        }
    }
    if bytes != peer.bytes || keys != peer.keys {
        return Err(format!(
            "worker {worker} holds {bytes} bytes and keys {keys:?}; counted are {} and {:?}",
            peer.bytes, peer.keys
        ));
    }
    let config = &server.config;
    let too_often = keys.values().any(|count| *count > config.key_credits);
    if bytes > config.worker_bytes_max || too_often || server.slots.len() > config.slots_max {
        return Err(format!("worker {worker} holds {bytes} bytes and keys {keys:?}"));
    }
    match peer.records.last_key_value() {
        Some((last, _)) if *last > peer.received => {
            Err(format!("worker {worker} has request {last}; {} is the last", peer.received))
        }
        _ => Ok(()),
    }
}

fn slots<T: Clone>(server: &Server<T>) -> Result<(), String> {
    let of_records = server
        .peers
        .iter()
        .flat_map(|(worker, peer)| peer.records.values().map(|record| (*worker, &record.slots)));
    let of_orphans = server.orphans.values().map(|orphan| (orphan.worker, &orphan.slots));
    let arriving = server.arriving.values().map(|it| (it.worker, &it.slots));
    let mut used = BTreeSet::new();
    for (worker, keys) in of_records.chain(of_orphans).chain(arriving) {
        for key in keys {
            let is_taken = server.slots.get(&(worker, *key)).is_some_and(|slot| slot.is_taken);
            if !is_taken || !used.insert((worker, *key)) {
                return Err(format!(
                    "the slot of key {key} and worker {worker}: taken: {is_taken}, used twice: {}",
                    used.contains(&(worker, *key))
                ));
            }
        }
    }
    Ok(())
}

fn waiting<T: Clone>(server: &Server<T>) -> Result<(), String> {
    for parked in &server.parked {
        if server.can_serve(parked.partial) {
            return Err(format!("call {} could be told", parked.call));
        }
        let due = parked.due.map(|(at, _)| (at, Due::Call(parked.call)));
        if due.is_some_and(|due| !server.dues.contains(&due)) {
            return Err(format!("nobody sees to the time of call {}", parked.call));
        }
    }
    match server.parked.len() > server.config.calls_max {
        true => Err(format!("{} calls wait", server.parked.len())),
        false => Ok(()),
    }
}

fn workers<T: Clone>(server: &Server<T>) -> Result<(), String> {
    for (worker, peer) in &server.peers {
        let has_something = !peer.records.is_empty() || peer.connection.is_some();
        if peer.lost.is_some() && (has_something || server.up.contains(worker)) {
            return Err(format!("worker {worker} is lost, and has something here"));
        }
        let known = peer.connection.and_then(|connection| server.connections.get(&connection));
        if peer.connection.is_some() && known != Some(worker) {
            return Err(format!("worker {worker} has the connection of another one: {known:?}"));
        }
    }
    let stray = server.connections.iter().find(|(connection, worker)| {
        server.peers.get(worker).and_then(|peer| peer.connection) != Some(**connection)
    });
    stray.map_or(Ok(()), |(connection, worker)| {
        Err(format!("{connection} is not the connection of worker {worker}"))
    })
}
