//! Fetches tensors from other workers, as the runtime's client does: what has come stays when a
//! connection breaks, and the rest is asked for under the same request.

use ::bytes::{Bytes, BytesMut};
use rondo_core::ids::{CallId, RequestId, StepId};
use rondo_core::rendezvous::{Failure, Input, Key};
use rondo_core::status::{Code, Status};
use rondo_proto::convert::{Fetch, RecvTensor, RendezvousRequest};

use super::event::{Event, What};
use super::network::{Connection, Side};
use super::worker::{Fetching, Process};
use super::{MS, World, bytes};
use crate::fault::Fault;
use crate::letters::End;
use crate::mark::Mark;

impl World {
    fn fetching(&mut self, worker: u32, call: CallId) -> Option<&mut Fetching> {
        self.process(worker)?.fetches.get_mut(&call)
    }

    pub(super) fn process(&mut self, worker: u32) -> Option<&mut Process> {
        self.worker(worker).and_then(|worker| worker.process.as_mut())
    }

    /// A worker's machine wants a tensor of another worker.
    pub(super) fn fetch(
        &mut self,
        worker: u32,
        call: CallId,
        (step, key): (StepId, Key),
        name: &str,
        request: RequestId,
    ) {
        let server = (0..).zip(&self.workers).find(|(_, it)| *it.name == *name);
        let Some((server, _)) = server else {
            return;
        };
        let Some(process) = self.process(worker) else {
            return;
        };
        let fetching = process.fetches.entry(call).or_insert_with(|| Fetching {
            server,
            step,
            key,
            request,
            received: BytesMut::new(),
            total: None,
            connection: None,
        });
        let begins_anew = fetching.received.is_empty();
        if !begins_anew {
            self.mark(Mark::TensorResumed);
        }
        self.connect(worker, call, server);
    }

    /// Asks for a tensor, or for the rest of it, on a connection of its own.
    fn connect(&mut self, worker: u32, call: CallId, server: u32) {
        let is_plain = self.shape.plain.contains(&server);
        let chunk_bytes = self.shape.chunk_bytes;
        let Some(life) = self.worker(worker).map(|worker| worker.life) else {
            return;
        };
        let number = self.connections.open(Connection {
            client: Side::new(worker, life, Some(call)),
            server: Side::new(server, 0, None),
            is_plain,
            is_made: false,
            asked: None,
        });
        let Some(process) = self.process(worker) else {
            return;
        };
        let finished = match is_plain {
            true => Vec::new(),
            false => process.finished.remove(&server).unwrap_or_default(),
        };
        let Some(fetching) = process.fetches.get_mut(&call) else {
            return;
        };
        fetching.connection = Some(number);
        let Fetching { step, key, request, received, .. } = fetching;
        let (step, key, request) = (*step, key.clone(), *request);
        let offset = received.len() as u64;
        let asks = match is_plain {
            true => RendezvousRequest::RecvTensor(RecvTensor { step, key, request }),
            false => RendezvousRequest::Fetch(Fetch {
                step,
                key,
                request,
                offset,
                chunk_bytes,
                finished,
            }),
        };
        if self.faults_on() && self.is_refused_at_once() {
            self.struck(Fault::ConnectRefused, worker, String::new);
            self.queue.plan(self.now_ns.saturating_add(MS), Event::Breaks(number, End::Client));
            self.connections.close(number, End::Server);
            return;
        }
        let message = bytes::request(&asks);
        self.send_on(number, End::Client, What::Ask { connection: number, message });
    }

    fn is_refused_at_once(&mut self) -> bool {
        let strength = self.swarm.faults.strength(Fault::ConnectRefused);
        self.job.stream.chance(strength / 10)
    }

    /// Nobody wants the tensor any more.
    pub(super) fn withdraw(&mut self, worker: u32, call: CallId) {
        let fetching = self.process(worker).and_then(|process| process.fetches.remove(&call));
        if let Some(number) = fetching.and_then(|fetching| fetching.connection) {
            self.send_on(number, End::Client, What::Withdraw { connection: number });
            self.connections.close(number, End::Client);
        }
    }

    /// An answer comes to a client, or a piece of it.
    pub(super) fn answered(&mut self, number: u64, message: &Bytes) {
        let Some(connection) = self.connections.get(number).filter(|it| it.client.is_open) else {
            return;
        };
        let (is_plain, worker) = (connection.is_plain, connection.client.worker);
        let Some(call) = connection.client.call else {
            return;
        };
        let Some(fetching) = self.fetching(worker, call) else {
            return;
        };
        let whole = if is_plain {
            Some(message.clone())
        } else {
            match bytes::add(&mut fetching.received, &mut fetching.total, message) {
                // What does not belong there: the connection is of no use.
                None => return self.breaks(number, End::Client),
                Some(false) => return,
                Some(true) => Some(fetching.received.clone().freeze()),
            }
        };
        self.connections.close(number, End::Client);
        let fetched = self.process(worker).and_then(|process| process.fetches.remove(&call));
        let (Some(whole), Some(fetched)) = (whole, fetched) else {
            return;
        };
        match bytes::received(&whole) {
            Ok((value, require_ack)) => {
                self.mark(Mark::TensorFetched);
                if require_ack || !is_plain {
                    self.has_all(worker, fetched.server, fetched.request);
                }
                self.step(worker, Input::Fetched { call, value });
            }
            Err(status) => {
                let failure = Failure::Refused(status);
                self.step(worker, Input::NotFetched { call, failure });
            }
        }
    }

    /// A server says why there is no tensor.
    pub(super) fn is_refused(&mut self, number: u64, status: Status) {
        if let Some((worker, _, call)) = self.connections.close(number, End::Client) {
            let fetching = self.process(worker).and_then(|process| process.fetches.remove(&call));
            if fetching.is_some() {
                let failure = Failure::Refused(status);
                self.step(worker, Input::NotFetched { call, failure });
            }
        }
    }

    /// An end of a connection notices that it is broken.
    pub(super) fn breaks(&mut self, number: u64, end: End) {
        let Some(connection) = self.connections.get(number) else {
            return;
        };
        let (is_plain, is_made) = (connection.is_plain, connection.is_made);
        let side = connection.side(end);
        let worker = side.worker;
        if side.is_open && self.is_held(worker, Event::Breaks(number, end)) {
            return;
        }
        let Some((worker, life, call)) = self.connections.close(number, end) else {
            return;
        };
        if self.worker(worker).is_none_or(|worker| worker.life != life) {
            return;
        }
        if end == End::Server {
            return self.step(worker, Input::Cancel { call });
        }
        let Some(fetching) = self.fetching(worker, call) else {
            return;
        };
        fetching.connection = None;
        let status = Status::new(Code::Unavailable, "the connection is broken");
        let is_lost = is_plain && is_made;
        let failure = if is_lost { Failure::Lost(status) } else { Failure::Away(status) };
        self.step(worker, Input::NotFetched { call, failure });
        let waits = self.process(worker).is_some_and(|it| it.callers.contains_key(&call));
        if !waits && let Some(process) = self.process(worker) {
            process.fetches.remove(&call);
        }
    }

    /// A worker has what answers its request; the other one is told sooner or later, or never.
    fn has_all(&mut self, worker: u32, server: u32, request: RequestId) {
        let never = if self.faults_on() { self.shape.unacknowledged } else { 0 };
        let finish_ns = self.shape.finish_ms.saturating_mul(MS);
        let at_ns = self.now_ns.saturating_add(finish_ns);
        let Some(of) = self.worker(worker) else {
            return;
        };
        if of.stream.chance(never) {
            return;
        }
        let life = of.life;
        if let Some(process) = of.process.as_mut() {
            process.finished.entry(server).or_default().push(request);
            self.queue.plan(at_ns, Event::Finish(worker, life, server));
        }
    }

    pub(super) fn finish_requests(&mut self, worker: u32, life: u32, server: u32) {
        let is_plain = self.shape.plain.contains(&server);
        let process = self.worker(worker).filter(|it| it.life == life);
        let process = process.and_then(|worker| worker.process.as_mut());
        let Some(requests) = process.and_then(|process| process.finished.remove(&server)) else {
            return;
        };
        for (path, message) in bytes::finished(is_plain, requests) {
            self.send_loose(worker, server, What::Finished { path, message });
        }
    }
}
