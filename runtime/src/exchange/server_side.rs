//! What a server's links are for: its machine hears what workers say, and has its say.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use bytes::Bytes;
use rondo_core::exchange::message::{Request, ToServer, ToWorker};
use rondo_core::exchange::server::{Effect, Event, Input, Landing, Place as Chosen, Server, Unit};
use rondo_core::exchange::{Config, Refusal};
use rondo_core::ids::{CallId, ConnectionId};
use rondo_core::time::Time;
use rondo_proto::convert::exchange::{
    Body, FrameHead, FrameLimits, attach_to_server, decode_to_server,
};

use super::link::{Place, SHORT_HEADER_BYTES};
use super::links::{LinkId, Links};
use super::speech::{anywhere, length, to_worker};
use crate::clock::Clock;
use crate::tensor::TensorBuffer;
use crate::tensor::cuda::Uuid;

/// Bytes of a request's number in a greeting, at most.
const NUMBER_BYTES: u32 = 11;

/// A server and its links.
pub(super) struct ServerSide {
    pub(super) machine: Server<TensorBuffer>,
    limits: FrameLimits,
    clock: Clock,
    links: BTreeMap<LinkId, End>,
    connections: BTreeMap<ConnectionId, LinkId>,
    next: u64,
    /// Whether what arrives now will be answered.
    is_answered_soon: bool,
    /// Kept for its memory.
    effects: Vec<Effect<TensorBuffer>>,
    pub(super) batches: BTreeMap<CallId, Result<Vec<Unit<TensorBuffer>>, Refusal>>,
    pub(super) done: BTreeMap<CallId, Result<(), Refusal>>,
}

/// The other end of a link.
struct End {
    connection: ConnectionId,
    /// What was said whose tensors come.
    coming: Option<Coming>,
    /// Whether the machine has closed the connection.
    is_closing: bool,
}

enum Coming {
    Message(ToServer<()>),
    /// A request that is not taken.
    NotTaken(Request<()>, Option<Refusal>),
}

impl ServerSide {
    pub(super) const fn new(
        machine: Server<TensorBuffer>,
        limits: FrameLimits,
        clock: Clock,
    ) -> Self {
        Self {
            machine,
            limits,
            clock,
            links: BTreeMap::new(),
            connections: BTreeMap::new(),
            next: 0,
            is_answered_soon: false,
            effects: Vec::new(),
            batches: BTreeMap::new(),
            done: BTreeMap::new(),
        }
    }

    /// Has the machine take an input, and carries out what it says.
    pub(super) fn step(&mut self, now: Time, input: Input<TensorBuffer>, links: &mut Links) {
        let mut effects = std::mem::take(&mut self.effects);
        self.machine.step(now, input, &mut effects);
        for effect in effects.drain(..) {
            self.perform(effect, links);
        }
        self.effects = effects;
    }

    fn perform(&mut self, effect: Effect<TensorBuffer>, links: &mut Links) {
        match effect {
            Effect::Send { connection, message } => self.say(connection, message, links),
            Effect::Close { connection } => {
                if let Some(link) = self.connections.get(&connection).copied() {
                    if let Some(end) = self.links.get_mut(&link) {
                        end.is_closing = true;
                    }
                    links.close(link);
                }
            }
            Effect::Batch { call, result } => drop(self.batches.insert(call, result)),
            Effect::Done { call, result } => drop(self.done.insert(call, result)),
            Effect::Observe(event) => observe(&event),
        }
    }

    fn say(&self, connection: ConnectionId, message: ToWorker<TensorBuffer>, links: &mut Links) {
        let Some(link) = self.connections.get(&connection).copied() else { return };
        if let ToWorker::Welcome(_) = message {
            // The worker is known: its bounds apply.
            links.set_bounds(link, self.limits.into());
        }
        // Who waits for an answer need not be woken to hear that the pushes have arrived.
        let is_urgent = !(self.is_answered_soon && matches!(message, ToWorker::Pushed { .. }));
        let frame = to_worker(message, &self.limits, self.clock.now());
        match frame {
            Some(frame) if is_urgent => links.send(link, frame),
            Some(frame) => links.send_later(link, frame),
            None => {}
        }
    }

    /// A peer has connected.
    pub(super) fn accepted(&mut self, now: Time, link: LinkId, links: &mut Links) {
        let connection = ConnectionId::new(self.next);
        self.next = self.next.saturating_add(1);
        self.connections.insert(connection, link);
        self.links.insert(link, End { connection, coming: None, is_closing: false });
        links.set_bounds(link, of_strangers(self.limits, self.machine.config()).into());
        self.step(now, Input::Connected { connection }, links);
    }

    /// Whether everybody it has a link to takes tensors from the memory of this GPU by himself.
    pub(super) fn is_seen(&self, device: Uuid, links: &Links) -> bool {
        !self.links.is_empty() && self.links.keys().all(|link| links.sees(*link, device))
    }

    pub(super) fn place(
        &mut self,
        link: LinkId,
        head: FrameHead,
        header: &Bytes,
    ) -> io::Result<Vec<Place>> {
        let message = decode_to_server(head, header, Body::Follows, &self.limits);
        let message = message.map_err(io::Error::other)?;
        let Some(end) = self.links.get_mut(&link) else { return Ok(Vec::new()) };
        let ToServer::Request(request) = message else {
            end.coming = Some(Coming::Message(message));
            return Ok(Vec::new());
        };
        if !end.is_closing && !self.machine.is_welcomed(end.connection) {
            let tensors = request.pushes.len();
            let text = format!("a request that pushes {tensors} tensors came before any hello");
            return Err(io::Error::other(text));
        }
        let landing = self.machine.land(end.connection, &request);
        let (coming, places) = match landing {
            Landing::At(places) => {
                let infos = request.pushes.iter().map(|push| length(&push.info));
                let places =
                    places.into_iter().zip(infos).map(chosen).collect::<io::Result<_>>()?;
                (Coming::Message(ToServer::Request(request)), places)
            }
            Landing::Nowhere(refusal) => {
                let places = anywhere(&request.pushes);
                (Coming::NotTaken(request, refusal), places)
            }
        };
        end.coming = Some(coming);
        Ok(places)
    }

    pub(super) fn arrived(
        &mut self,
        now: Time,
        link: LinkId,
        tensors: Vec<TensorBuffer>,
        links: &mut Links,
    ) {
        let Some(end) = self.links.get_mut(&link) else { return };
        let connection = end.connection;
        let Some(coming) = end.coming.take() else { return };
        let input = match coming {
            Coming::Message(message) => {
                // As many tensors come as there were places.
                let Some(message) = attach_to_server(message, tensors) else { return };
                self.is_answered_soon =
                    matches!(&message, ToServer::Request(request) if !request.pulls.is_empty());
                Input::Message { connection, received: now, message }
            }
            Coming::NotTaken(Request { number, acknowledged, .. }, refusal) => {
                Input::NotTaken { connection, number, acknowledged, refusal }
            }
        };
        self.step(now, input, links);
        self.is_answered_soon = false;
    }

    pub(super) fn closed(&mut self, now: Time, link: LinkId, why: &io::Error, links: &mut Links) {
        if let Some(End { connection, .. }) = self.links.remove(&link) {
            self.connections.remove(&connection);
            let why = Arc::from(why.to_string());
            self.step(now, Input::Disconnected { connection, why }, links);
        }
    }
}

/// The bounds for a peer that has not introduced itself: a greeting, which names the requests that are open.
pub(super) fn of_strangers(limits: FrameLimits, config: &Config) -> FrameLimits {
    let numbers = config.worker_requests_max.saturating_mul(NUMBER_BYTES);
    let greeting = SHORT_HEADER_BYTES.saturating_add(numbers);
    FrameLimits { header_bytes_max: limits.header_bytes_max.min(greeting), ..limits }
}

/// The memory that the machine has chosen for a tensor of this length.
fn chosen((place, length): (Chosen<TensorBuffer>, usize)) -> io::Result<Place> {
    match place {
        Chosen::Allocate => Ok(Place::Anywhere(length)),
        Chosen::Slot { buffer, offset } => {
            let slot = usize::try_from(offset).ok().and_then(|offset| buffer.part(offset, length));
            let slot = slot.ok_or_else(|| {
                io::Error::other(format!(
                    "a slot of {length} bytes at {offset} is not in {buffer:?}"
                ))
            })?;
            // On a GPU, who was done with what was there before may have begun work that still reads it.
            match slot {
                TensorBuffer::Host(region) => Ok(Place::Into(region)),
                TensorBuffer::Cuda(memory) => {
                    memory.again().map(Place::Onto).map_err(io::Error::other)
                }
            }
        }
    }
}

fn observe(event: &Event) {
    match event {
        Event::Lost(lost) => tracing::warn!(%lost, "a worker is lost"),
        Event::Ready { worker, .. } => tracing::debug!(worker = worker.get(), "a worker is there"),
        Event::Rejected { worker, why } => {
            tracing::warn!(worker = worker.get(), %why, "a worker is rejected");
        }
        Event::Away { worker, why } => {
            tracing::info!(worker = worker.get(), %why, "the connection of a worker broke");
        }
        Event::Refused { worker, refusal } => {
            tracing::warn!(worker = worker.get(), %refusal, "a request is refused");
        }
        Event::Protocol { what } => tracing::warn!(%what, "a worker does not keep to the protocol"),
    }
}
