//! A worker's requests: each is answered once, by what was made of what it pushed, where it wanted it.

use std::collections::{BTreeMap, BTreeSet};

use rondo_core::exchange::message::{Tensor, ToWorker};
use rondo_core::exchange::worker::{Complete, Effect, Event, Input, Since};
use rondo_core::exchange::{Config, Handler, PeerLost, Policy, Refusal};
use rondo_core::ids::{CallId, ConnectionId};
use rondo_core::status::Code;
use rondo_core::time::{Duration, Time};

use super::memory::{Memory, Slice, answer, serial_of};
use super::{Broken, Seen, wrong};
use crate::checks::{Check, reached};

/// All requests that were made, by number.
pub(super) type Book = BTreeMap<u64, Made>;

/// A request as it was made.
#[derive(Debug)]
pub(super) struct Made {
    /// The worker that made it, as servers see it.
    pub(super) worker: u32,
    /// What it pushes: keys and bytes.
    pub(super) pushes: Vec<(u64, Vec<u8>)>,
    /// What it pulls of each server: keys and sizes.
    pub(super) pulls: Vec<(u64, u64)>,
    pub(super) per_server: usize,
}

/// A request as its caller knows it.
#[derive(Debug)]
struct Request {
    handlers: u64,
    started: Time,
    pushes: Vec<Slice>,
    /// Where it pulls to, and what must come there.
    pulls: Vec<(Slice, Vec<u8>)>,
    per_server: usize,
    filled: BTreeSet<u64>,
    /// Whether its caller knows its end: its memory is its own again.
    is_over: bool,
    /// Whether nobody can wait for it any more.
    is_forgotten: bool,
    is_abandoned: bool,
}

/// A worker.
#[derive(Debug)]
pub(super) struct WorkerLedger {
    config: Config,
    worker: u32,
    servers: u32,
    ranks: (u32, u32),
    next: u64,
    requests: BTreeMap<u64, Request>,
    /// Requests by the buffers that they pull to.
    owners: BTreeMap<u64, u64>,
    waits: BTreeMap<CallId, (u64, Option<Time>)>,
    /// When each server was lost, and when it was back.
    losses: BTreeMap<u32, Vec<(Time, Option<Time>)>>,
    /// Requests to whose memory something is being written that arrives on a connection.
    lands: BTreeMap<ConnectionId, u64>,
    is_stopped: bool,
}

type Stepped<'a> = (&'a Input<Slice>, &'a [Effect<Slice>]);

impl WorkerLedger {
    pub(super) const fn new(config: Config, worker: u32, servers: u32, ranks: (u32, u32)) -> Self {
        Self {
            config,
            worker,
            servers,
            ranks,
            next: 0,
            requests: BTreeMap::new(),
            owners: BTreeMap::new(),
            waits: BTreeMap::new(),
            losses: BTreeMap::new(),
            lands: BTreeMap::new(),
            is_stopped: false,
        }
    }

    pub(super) fn see(
        &mut self,
        now: Time,
        (input, effects): Stepped<'_>,
        memory: &Memory,
        book: &mut Book,
        troubled: bool,
    ) -> Seen {
        if matches!(input, Input::Message { .. }) {
            reached(Check::ExchangeProtocol);
        }
        match input {
            Input::Exchange { call, pushes, pulls, ignores_rest: _ } => {
                self.started(now, *call, (pushes, pulls), effects, memory, book, troubled)?;
            }
            Input::Wait { call, handler, timeout, since } => {
                self.waits_for(now, *call, *handler, timeout.map(|it| (it, *since)));
            }
            Input::Cancel { call } => {
                self.waits.remove(call);
            }
            Input::Abandon { handler } => self.abandoned(handler.get()),
            Input::Stop => self.is_stopped = true,
            Input::Message { connection, message: ToWorker::Answer(_), .. }
            | Input::Disconnected { connection, .. } => {
                self.lands.remove(connection);
            }
            _ => {}
        }
        let mut told = Vec::new();
        for effect in effects {
            match effect {
                Effect::Fill { destination, source } => self.filled(destination, source)?,
                Effect::Waited { call, result } => {
                    told.extend(self.waited(now, *call, result, memory, troubled)?);
                }
                Effect::Observe(Event::Lost(lost)) => {
                    let server = self.server_of(lost);
                    self.losses.entry(server).or_default().push((now, None));
                }
                Effect::Observe(Event::Ready { server, .. }) => {
                    let last = self.losses.get_mut(&server.get()).and_then(|of| of.last_mut());
                    if let Some((_, back)) = last {
                        back.get_or_insert(now);
                    }
                }
                Effect::Observe(Event::Protocol { server, what }) => {
                    return wrong("protocol", format!("server {server}: {what}"));
                }
                _ => {}
            }
        }
        // All who wait for a request are told at once.
        for first in told {
            if let Some(request) = self.requests.get_mut(&first) {
                request.is_forgotten = true;
            }
        }
        self.nobody_waits_too_long(now, input)
    }

    fn abandoned(&mut self, handler: u64) {
        if let Some(request) = self.requests.get_mut(&handler) {
            (request.is_forgotten, request.is_abandoned) = (true, true);
        }
    }

    #[expect(clippy::too_many_arguments, reason = "a request and all that is known of it")]
    fn started(
        &mut self,
        now: Time,
        call: CallId,
        (pushes, pulls): (&[Tensor<Slice>], &[Tensor<Slice>]),
        effects: &[Effect<Slice>],
        memory: &Memory,
        book: &mut Book,
        troubled: bool,
    ) -> Seen {
        let mut told = effects.iter().filter_map(|effect| match effect {
            Effect::Started { call: of, result } if *of == call => Some(result),
            _ => None,
        });
        let (Some(result), None) = (told.next(), told.next()) else {
            return wrong("told", format!("{call} is not told once that its request began"));
        };
        let servers = self.servers as usize;
        let per_server = pulls.len().checked_div(servers).unwrap_or(0);
        let first = match result {
            Ok(first) => first.get(),
            Err(refusal) => return self.may_refuse(refusal, troubled),
        };
        reached(Check::ExchangeHandler);
        if first != self.next {
            return wrong("handler", format!("a request begins with {first}, not {}", self.next));
        }
        let handlers = (pushes.len() as u64).saturating_add(per_server as u64);
        self.next = first.saturating_add(handlers);
        let read = |slice: &Slice| memory.read(slice).map(<[u8]>::to_vec).unwrap_or_default();
        let pushed: Vec<(u64, Vec<u8>)> =
            pushes.iter().map(|it| (it.key.get(), read(&it.payload))).collect();
        let expected = |(index, pull): (usize, &Tensor<Slice>)| {
            let server = u32::try_from(index.checked_div(per_server).unwrap_or(0)).unwrap_or(0);
            let rank = self.ranks.0.saturating_add(server.saturating_mul(self.ranks.1));
            let bytes = pushed.iter().map(|(_, bytes)| bytes.as_slice());
            let made = answer(rank, bytes, pull.key.get(), pull.info.bytes());
            (pull.payload, made)
        };
        let taken = per_server.saturating_mul(servers);
        let request = Request {
            handlers,
            started: now,
            pushes: pushes.iter().map(|it| it.payload).collect(),
            pulls: pulls.iter().take(taken).enumerate().map(expected).collect(),
            per_server,
            filled: BTreeSet::new(),
            is_over: false,
            is_forgotten: false,
            is_abandoned: false,
        };
        self.owners.extend(request.pulls.iter().map(|(slice, _)| (slice.buffer, first)));
        self.requests.insert(first, request);
        let key = pulls.first().map(|pull| pull.key.get());
        if let Some(serial) = serial_of(key, pushed.first().map(|(_, bytes)| bytes.as_slice())) {
            let pulls = pulls.iter().map(|pull| (pull.key.get(), pull.info.bytes())).collect();
            book.insert(serial, Made { worker: self.worker, pushes: pushed, pulls, per_server });
        }
        Ok(())
    }

    fn may_refuse(&self, refusal: &Refusal, troubled: bool) -> Seen {
        let is_right = match refusal {
            Refusal::PeerLost(_) | Refusal::NoMembership => troubled,
            Refusal::Stopped => self.is_stopped,
            Refusal::TooManyHandlers { max } => {
                // Those that were given up are kept until nothing more is written to where they pull to.
                let is_kept = |it: &&Request| !it.is_forgotten || it.is_abandoned;
                let open = self.requests.values().filter(is_kept).count();
                *max == self.config.handlers_max && open >= *max
            }
            Refusal::RequestTooLarge { bytes, max, .. } => bytes > max,
            Refusal::Pulls { pulls, servers } => !pulls.is_multiple_of(*servers as usize),
            Refusal::Empty => true,
            _ => false,
        };
        match is_right {
            true => Ok(()),
            false => wrong("told", format!("a request is refused: {refusal}")),
        }
    }

    fn waits_for(
        &mut self,
        now: Time,
        call: CallId,
        handler: Handler,
        timeout: Option<(Duration, Since)>,
    ) {
        let started = self.of(handler.get()).map_or(now, |(_, it)| it.started);
        let due = timeout.map(|(timeout, since)| match since {
            Since::Request => started.after(timeout),
            Since::Call => now.after(timeout),
        });
        self.waits.insert(call, (handler.get(), due));
    }

    /// The request that a handler is of.
    fn of(&self, handler: u64) -> Option<(u64, &Request)> {
        let (first, request) = self.requests.range(..=handler).next_back()?;
        (handler.saturating_sub(*first) < request.handlers).then_some((*first, request))
    }

    /// What is pulled has come.
    fn filled(&mut self, destination: &Slice, source: &Slice) -> Seen {
        let Some(request) =
            self.owners.get(&destination.buffer).and_then(|first| self.requests.get_mut(first))
        else {
            return wrong("answer", format!("{destination:?} is nothing that is pulled to"));
        };
        if request.is_over {
            return wrong("memory", format!("{destination:?} is filled, whose request is over"));
        }
        if *source == Slice::NOWHERE {
            return wrong("answer", format!("{destination:?} is filled from nowhere"));
        }
        match request.filled.insert(destination.buffer) {
            true => Ok(()),
            false => wrong("answer", format!("{destination:?} is filled twice")),
        }
    }

    /// Somebody who waits is told. The request that can be waited for no more, if it is one.
    fn waited(
        &mut self,
        now: Time,
        call: CallId,
        result: &Result<Complete, Refusal>,
        memory: &Memory,
        troubled: bool,
    ) -> Result<Option<u64>, Broken> {
        let Some((handler, due)) = self.waits.remove(&call) else {
            return wrong("told", format!("{call} does not wait, and is told {result:?}"))
                .map(|()| None);
        };
        let first = self.of(handler).map(|(first, _)| first);
        let waiting = self.waits.len();
        let started = first.and_then(|first| self.requests.get(&first)).map(|of| of.started);
        let has_waited = self.has_waited(now, started.unwrap_or(now), result.as_ref().err());
        let Some(request) = first.and_then(|first| self.requests.get_mut(&first)) else {
            return match result {
                Err(Refusal::UnknownHandler { .. }) => Ok(None),
                _ => wrong("handler", format!("{handler} was never asked for")).map(|()| None),
            };
        };
        let ended = first.filter(|first| *first == handler);
        let refusal = match result {
            Ok(complete) => {
                completed(request, handler, complete, (&self.config, self.ranks), memory)?;
                return Ok(ended);
            }
            Err(refusal) => refusal,
        };
        reached(Check::ExchangeTold);
        let is_right = match refusal {
            Refusal::Late { missing, .. } => {
                !missing.is_empty() && due.is_some_and(|due| due <= now)
            }
            Refusal::TooManyCalls { max } => *max == self.config.calls_max && waiting >= *max,
            Refusal::UnknownHandler { .. } | Refusal::Abandoned { .. } => request.is_forgotten,
            Refusal::Stopped => self.is_stopped,
            Refusal::PeerLost(_) | Refusal::Refused { .. } => troubled && has_waited,
            _ => false,
        };
        if !is_right {
            wrong("told", format!("who waits for {handler} is told {refusal}"))?;
        }
        if matches!(refusal, Refusal::PeerLost(_) | Refusal::Refused { .. } | Refusal::Stopped) {
            request.is_over = true;
            return Ok(ended);
        }
        Ok(None)
    }

    fn server_of(&self, lost: &PeerLost) -> u32 {
        lost.rank.get().checked_div(self.ranks.1).unwrap_or(0)
    }

    /// Whether a request that began then has waited for a server for as long as it has to: where requests
    /// wait for the return of a lost server, none ends because one was away for a shorter time, nor because
    /// a server had given it up.
    fn has_waited(&self, now: Time, began: Time, refusal: Option<&Refusal>) -> bool {
        let Policy::WaitForReturn { timeout } = self.config.policy else {
            return true;
        };
        let lost = match refusal {
            Some(Refusal::PeerLost(lost)) => lost,
            Some(Refusal::Refused { status, .. }) => return status.code != Code::Unavailable,
            _ => return true,
        };
        reached(Check::ExchangeWaited);
        let mut losses = self.losses.get(&self.server_of(lost)).into_iter().flatten();
        losses.any(|(gone, back)| {
            let back = back.unwrap_or(now);
            back >= began && back.since(*gone) >= timeout
        })
    }

    fn nobody_waits_too_long(&self, now: Time, input: &Input<Slice>) -> Seen {
        self.nobody_waits_for_the_lost()?;
        if !matches!(input, Input::Tick) {
            return Ok(());
        }
        let late = self.waits.iter().find(|(_, (_, due))| due.is_some_and(|due| due <= now));
        match late {
            Some((call, (handler, _))) => {
                wrong("told", format!("{call} waits for {handler} beyond its time"))
            }
            None => Ok(()),
        }
    }

    /// Under the policy that requests fail, who needs a server that is lost is told so at once, or as soon
    /// as nothing is being written any more to where the request pulls to.
    fn nobody_waits_for_the_lost(&self) -> Seen {
        if self.config.policy != Policy::Fail {
            return Ok(());
        }
        let is_lost = |of: &&Vec<(Time, Option<Time>)>| of.last().is_some_and(|it| it.1.is_none());
        for (server, _) in self.losses.iter().filter(|(_, of)| is_lost(of)) {
            for (handler, _) in self.waits.values() {
                let Some((first, request)) = self.of(*handler) else {
                    continue;
                };
                let from = request.per_server.saturating_mul(*server as usize);
                let mut pulls = request.pulls.iter().skip(from).take(request.per_server);
                let needs = pulls.any(|(slice, _)| !request.filled.contains(&slice.buffer));
                if needs && !self.lands.values().any(|lands| *lands == first) {
                    let text =
                        format!("{handler} is still waited for, and server {server} is lost");
                    return wrong("told", text);
                }
            }
        }
        Ok(())
    }

    /// An answer is written where it goes from now on.
    pub(super) fn lands(&mut self, connection: ConnectionId, slices: &[Slice]) {
        let first = slices.first().and_then(|slice| self.owners.get(&slice.buffer));
        if let Some(first) = first {
            self.lands.insert(connection, *first);
        }
    }

    /// Something is being written to.
    pub(super) fn written(&self, slice: &Slice) -> Seen {
        let request = self.owners.get(&slice.buffer).and_then(|first| self.requests.get(first));
        match request.is_some_and(|request| request.is_over) {
            true => wrong("memory", format!("{slice:?} is written to, whose request is over")),
            false => Ok(()),
        }
    }
}

fn completed(
    request: &mut Request,
    handler: u64,
    complete: &Complete,
    (config, ranks): (&Config, (u32, u32)),
    memory: &Memory,
) -> Seen {
    if request.is_forgotten {
        return wrong("handler", format!("{handler} completes once more"));
    }
    if !complete.missing.is_empty() && config.policy != Policy::Partial {
        return wrong("told", format!("{handler} does without {:?}", complete.missing));
    }
    for (index, (slice, expected)) in request.pulls.iter().enumerate() {
        let server = u32::try_from(index.checked_div(request.per_server).unwrap_or(0));
        let rank = ranks.0.saturating_add(server.unwrap_or(0).saturating_mul(ranks.1));
        if complete.missing.iter().any(|lost| lost.rank.get() == rank) {
            continue;
        }
        if !request.filled.contains(&slice.buffer) {
            return wrong("answer", format!("{handler} is complete without tensor {index}"));
        }
        reached(Check::ExchangeAnswer);
        if memory.read(slice) != Some(expected.as_slice()) {
            let text = format!("tensor {index} of {handler} is not made of what it pushed");
            return wrong("answer", text);
        }
    }
    if let Some(gone) = request.pushes.iter().find(|slice| memory.read(slice).is_none()) {
        return wrong("memory", format!("{gone:?} of {handler} is gone before it is complete"));
    }
    request.is_over = true;
    Ok(())
}
