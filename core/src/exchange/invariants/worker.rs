//! What holds of a worker.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;

use crate::exchange::ids::{Handler, Key, ServerRank};
use crate::exchange::worker::{Batch, Due, Link, Part, Peer, Worker};
use crate::invariant::Invariant;

/// The invariants of a worker.
pub(crate) fn invariants<T: Clone>() -> [Invariant<Worker<T>>; 6] {
    [
        Invariant {
            number: "X1",
            sentence: "each call that waits is known to its request, which is not complete, and to the clock",
            check: calls,
        },
        Invariant {
            number: "X2",
            sentence: "what a server has open is counted once, and is within what it allows",
            check: credits,
        },
        Invariant {
            number: "X3",
            sentence: "what is awaited of a server is queued for it or open there, not both",
            check: places,
        },
        Invariant {
            number: "X4",
            sentence: "a request counts its parts that are not over, and the answers being written to it",
            check: parts,
        },
        Invariant {
            number: "X5",
            sentence: "bounds on requests, calls and traces are kept; handlers of requests do not overlap",
            check: bounds,
        },
        Invariant {
            number: "X6",
            sentence: "a server that is not ready is tried again, or taken for lost, or nobody is there",
            check: ways,
        },
    ]
}

fn calls<T: Clone>(worker: &Worker<T>) -> Result<(), String> {
    for (call, waiting) in &worker.calls {
        let batch = worker.batches.get(&waiting.first);
        let listed = batch.map_or(0, |it| it.calls.iter().filter(|other| *other == call).count());
        if listed != 1 {
            return Err(format!("call {call} stands {listed} times at request {}", waiting.first));
        }
        let due = waiting.due.map(|(at, _)| (at, Due::Call(*call)));
        if due.is_some_and(|due| !worker.dues.contains(&due)) {
            return Err(format!("nobody sees to the time of call {call}"));
        }
    }
    let listed: usize = worker.batches.values().map(|batch| batch.calls.len()).sum();
    let told = |(_, batch): &(&Handler, &Batch<T>)| batch.is_complete() && !batch.calls.is_empty();
    match worker.batches.iter().find(told) {
        Some((first, _)) => Err(format!("request {first} is complete, and calls wait for it")),
        None if listed != worker.calls.len() => {
            Err(format!("{listed} calls wait for requests, and {} wait", worker.calls.len()))
        }
        None => Ok(()),
    }
}

fn credits<T: Clone>(worker: &Worker<T>) -> Result<(), String> {
    worker.peers.iter().try_for_each(|(server, peer)| credits_of(*server, peer))
}

fn credits_of(server: ServerRank, peer: &Peer) -> Result<(), String> {
    let mut keys: BTreeMap<Key, u32> = BTreeMap::new();
    let mut bytes = 0_u64;
    for open in peer.open.values().filter(|open| !open.is_released) {
        bytes = bytes.saturating_add(open.bytes);
        for key in &open.keys {
            let count = keys.entry(*key).or_default();
            *count = count.saturating_add(1);
        }
    }
    if bytes != peer.bytes || keys != peer.keys {
        return Err(format!(
            "server {server} has {bytes} bytes and keys {keys:?} open; counted are {} and {:?}",
            peer.bytes, peer.keys
        ));
    }
    let allowed = peer.credits;
    let requests = u32::try_from(peer.open.len()).unwrap_or(u32::MAX);
    let too_often = keys.values().any(|count| *count > allowed.per_key);
    if requests > allowed.requests || bytes > allowed.bytes || too_often {
        return Err(format!(
            "server {server} allows {allowed:?}; {requests} requests of {bytes} bytes and keys {keys:?}"
        ));
    }
    let beyond = peer.open.last_key_value().is_some_and(|(number, _)| *number > peer.last);
    let over = peer.open.values().any(|open| open.is_over && open.is_released);
    match beyond || over {
        true => Err(format!("server {server} has requests open that are over, or were never sent")),
        false => Ok(()),
    }
}

fn places<T: Clone>(worker: &Worker<T>) -> Result<(), String> {
    for (first, batch) in worker.batches.iter().filter(|(_, batch)| batch.is_alive()) {
        for (server, part) in (0..).map(ServerRank::new).zip(&batch.parts) {
            let peer = worker.peers.get(&server);
            let is_queued = peer.is_some_and(|peer| peer.queue.contains(first));
            let open = peer.map_or(0, |peer| {
                peer.open.values().filter(|open| open.handler == *first && !open.is_over).count()
            });
            let expected = match part {
                Part::Queued => (true, 0),
                Part::Sent { .. } => (false, 1),
                // What a request does without may still come.
                Part::Missing(_) => (false, open),
                Part::Over => (false, 0),
            };
            if (is_queued, open) != expected {
                return Err(format!(
                    "request {first} is {part:?} at server {server}, queued: {is_queued}, open: {open}"
                ));
            }
        }
    }
    let is_dead = |first: &&Handler| !worker.batches.get(*first).is_some_and(Batch::is_alive);
    let queued = worker.peers.values().flat_map(|peer| &peer.queue).find(is_dead);
    queued.map_or(Ok(()), |first| Err(format!("request {first} is queued for nobody")))
}

fn parts<T: Clone>(worker: &Worker<T>) -> Result<(), String> {
    for (first, batch) in &worker.batches {
        let missing = batch.parts.iter().filter(|part| !part.is_over()).count();
        let written = worker.landings.values().filter(|it| it.handler == *first).count();
        if (missing, written) != (batch.missing, batch.landings) {
            return Err(format!(
                "request {first} awaits {missing} servers is written to by {written}; counted: {} and {}",
                batch.missing, batch.landings
            ));
        }
    }
    let unknown = worker.landings.iter().find(|(connection, written)| {
        !worker.connections.contains_key(connection)
            || !worker.batches.contains_key(&written.handler)
    });
    unknown.map_or(Ok(()), |(connection, it)| Err(format!("{connection} writes to {it:?}")))
}

fn bounds<T: Clone>(worker: &Worker<T>) -> Result<(), String> {
    let config = &worker.config;
    let sizes = [
        ("requests", worker.batches.len(), config.handlers_max),
        ("calls", worker.calls.len(), config.calls_max),
        ("traces", worker.traces.len(), config.traces_max),
        ("passages", worker.passages.len(), config.traces_max),
    ];
    if let Some((what, count, max)) = sizes.into_iter().find(|(_, count, max)| count > max) {
        return Err(format!("{count} {what}, of at most {max}"));
    }
    handlers(worker)
}

/// Requests and kept traces have handlers of their own: no two share one, and none is still to be given out.
fn handlers<T: Clone>(worker: &Worker<T>) -> Result<(), String> {
    let given = worker.next.get();
    let wrong = |first: u64, count: u64| {
        Err(format!("the {count} handlers from {first} on are not its own"))
    };
    let mut end = 0;
    for (first, trace) in &worker.traces {
        let first = first.get();
        if first < end || first.saturating_add(trace.handlers) > given {
            return wrong(first, trace.handlers);
        }
        end = first.saturating_add(trace.handlers);
    }
    end = 0;
    for (first, batch) in &worker.batches {
        let count = batch.trace.handlers;
        let after = first.get().saturating_add(count);
        let before = worker.traces.range(..first).next_back();
        let before = before.map_or(0, |(first, it)| first.get().saturating_add(it.handlers));
        let next = worker.traces.range(first..).next().map_or(given, |(next, _)| next.get());
        if first.get() < end.max(before) || after > next.min(given) {
            return wrong(first.get(), count);
        }
        end = after;
    }
    Ok(())
}

fn ways<T: Clone>(worker: &Worker<T>) -> Result<(), String> {
    for (server, peer) in &worker.peers {
        let grace = worker.config.reconnect_grace;
        let graced = |at: crate::time::Time| (at.after(grace), Due::Grace(*server));
        let is_seen_to = match peer.link {
            Link::Ready { connection } => {
                peer.down.is_none()
                    && peer.lost.is_none()
                    && worker.connections.contains_key(&connection)
            }
            Link::Pausing { until } => worker.dues.contains(&(until, Due::Retry(*server))),
            Link::Greeting { connection } => worker.connections.contains_key(&connection),
            Link::Connecting => true,
            Link::Idle => peer.lost.is_some() || worker.is_stopped,
        };
        let is_awaited = peer.down.is_none_or(|at| {
            peer.lost.is_some() || worker.is_stopped || worker.dues.contains(&graced(at))
        });
        if !is_seen_to || !is_awaited {
            let (link, down) = (peer.link, peer.down);
            return Err(format!("server {server}: {link:?}, down since {down:?}"));
        }
    }
    Ok(())
}
