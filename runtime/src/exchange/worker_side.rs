//! What a worker's links are for: its machine hears what servers say, and has its say.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::sync::Arc;

use bytes::Bytes;
use rondo_core::exchange::message::ToWorker;
use rondo_core::exchange::worker::{Complete, Effect, Event, Input, Landing, Worker};
use rondo_core::exchange::{Handler, Refusal, ServerRank};
use rondo_core::ids::{CallId, ConnectionId, Incarnation};
use rondo_core::time::Time;
use rondo_proto::convert::exchange::{
    Body, FrameHead, FrameLimits, attach_to_worker, decode_to_worker,
};

use super::link::Place;
use super::links::{LinkId, Links};
use super::speech::{anywhere, to_server};
use crate::clock::Clock;
use crate::tensor::TensorBuffer;
use crate::tensor::cuda::Uuid;

/// A worker and its links.
pub(super) struct WorkerSide {
    pub(super) machine: Worker<TensorBuffer>,
    host: Arc<str>,
    limits: FrameLimits,
    clock: Clock,
    links: BTreeMap<LinkId, End>,
    connections: BTreeMap<ConnectionId, LinkId>,
    next: u64,
    /// Kept for its memory.
    effects: Vec<Effect<TensorBuffer>>,
    inputs: VecDeque<Input<TensorBuffer>>,
    pub(super) started: BTreeMap<CallId, Result<Handler, Refusal>>,
    pub(super) waited: BTreeMap<CallId, Result<Complete, Refusal>>,
}

/// The other end of a link.
struct End {
    server: ServerRank,
    incarnation: Incarnation,
    /// Once it is open.
    connection: Option<ConnectionId>,
    /// What was said whose tensors come.
    coming: Option<ToWorker<()>>,
}

impl WorkerSide {
    pub(super) const fn new(
        machine: Worker<TensorBuffer>,
        host: Arc<str>,
        limits: FrameLimits,
        clock: Clock,
    ) -> Self {
        Self {
            machine,
            host,
            limits,
            clock,
            links: BTreeMap::new(),
            connections: BTreeMap::new(),
            next: 0,
            effects: Vec::new(),
            inputs: VecDeque::new(),
            started: BTreeMap::new(),
            waited: BTreeMap::new(),
        }
    }

    /// Has the machine take an input, and carries out what it says.
    pub(super) fn step(&mut self, now: Time, input: Input<TensorBuffer>, links: &mut Links) {
        self.inputs.push_back(input);
        while let Some(input) = self.inputs.pop_front() {
            let mut effects = std::mem::take(&mut self.effects);
            self.machine.step(now, input, &mut effects);
            for effect in effects.drain(..) {
                self.perform(effect, links);
            }
            self.effects = effects;
        }
    }

    fn perform(&mut self, effect: Effect<TensorBuffer>, links: &mut Links) {
        match effect {
            Effect::Connect { server, incarnation, addresses, host } => {
                match links.open(&addresses, &self.host, &host) {
                    Ok(link) => {
                        let end = End { server, incarnation, connection: None, coming: None };
                        self.links.insert(link, end);
                    }
                    Err(error) => {
                        let why = error.to_string().into();
                        self.inputs.push_back(Input::NotConnected { server, incarnation, why });
                    }
                }
            }
            Effect::Send { connection, message } => {
                let frame = to_server(message, &self.limits, self.clock.now());
                if let (Some(link), Some(frame)) = (self.connections.get(&connection), frame) {
                    links.send(*link, frame);
                }
            }
            Effect::Close { connection } => {
                // At once: a server that stands still takes nothing more, and would keep the link.
                if let Some(link) = self.connections.get(&connection) {
                    links.remove(*link, io::Error::other("it was closed here"));
                }
            }
            Effect::Started { call, result } => drop(self.started.insert(call, result)),
            Effect::Fill { destination, source } => fill(&destination, &source),
            Effect::Waited { call, result } => drop(self.waited.insert(call, result)),
            Effect::Observe(event) => observe(&event),
        }
    }

    pub(super) fn opened(&mut self, now: Time, link: LinkId, links: &mut Links) {
        let Some(end) = self.links.get_mut(&link) else { return };
        let connection = ConnectionId::new(self.next);
        self.next = self.next.saturating_add(1);
        end.connection = Some(connection);
        let (server, incarnation) = (end.server, end.incarnation);
        self.connections.insert(connection, link);
        let what = links.describe(link);
        tracing::debug!(server = server.get(), what, "a link to a server");
        self.step(now, Input::Connected { server, incarnation, connection }, links);
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
        let message = decode_to_worker(head, header, Body::Follows, &self.limits);
        let message = message.map_err(io::Error::other)?;
        let Some(end) = self.links.get_mut(&link) else { return Ok(Vec::new()) };
        let places = match (&message, end.connection) {
            (ToWorker::Answer(answer), Some(connection)) => {
                match self.machine.land(connection, answer.number, &answer.tensors) {
                    Landing::At(buffers) => buffers.into_iter().map(Place::from).collect(),
                    Landing::Nowhere => anywhere(&answer.tensors),
                }
            }
            _ => Vec::new(),
        };
        end.coming = Some(message);
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
        let (Some(message), Some(connection)) = (end.coming.take(), end.connection) else { return };
        // As many tensors come as there were places.
        if let Some(message) = attach_to_worker(message, tensors) {
            self.step(now, Input::Message { connection, received: now, message }, links);
        }
    }

    pub(super) fn closed(&mut self, now: Time, link: LinkId, why: &io::Error, links: &mut Links) {
        let Some(end) = self.links.remove(&link) else { return };
        let why = Arc::from(why.to_string());
        let input = match end.connection {
            Some(connection) => {
                self.connections.remove(&connection);
                Input::Disconnected { connection, why }
            }
            None => Input::NotConnected { server: end.server, incarnation: end.incarnation, why },
        };
        self.step(now, input, links);
    }
}

/// Copies what did not come to where it belongs. A GPU to which it does not get says so to who waits for it.
fn fill(destination: &TensorBuffer, source: &TensorBuffer) {
    let is_there = match (destination, source) {
        (TensorBuffer::Host(to), TensorBuffer::Host(from)) => to.as_ptr() == from.as_ptr(),
        (TensorBuffer::Cuda(to), TensorBuffer::Cuda(from)) => to.pointer() == from.pointer(),
        _ => false,
    };
    if is_there {
        return;
    }
    // SAFETY: whoever pulled into `destination` promised that nobody else uses it.
    let filled = source.to_host().and_then(|region| unsafe { destination.fill(region) });
    if let Err(error) = filled {
        tracing::error!(%error, "an answer does not get to where it belongs");
        if let TensorBuffer::Cuda(memory) = destination {
            memory.fail(error);
        }
    }
}

fn observe(event: &Event) {
    match event {
        Event::Lost(lost) => tracing::warn!(%lost, "a server is lost"),
        Event::Ready { server, .. } => tracing::debug!(server = server.get(), "a server is there"),
        Event::Rejected { server, why } => {
            tracing::warn!(server = server.get(), %why, "a server does not take this worker");
        }
        Event::Protocol { server, what } => {
            tracing::warn!(server = server.get(), %what, "a server does not keep to the protocol");
        }
    }
}
