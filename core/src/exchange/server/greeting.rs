//! Connections of workers.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::machine::{Due, Server};
use super::types::{Effect, Event};
use crate::exchange::ids::{RequestNumber, WorkerRank};
use crate::exchange::message::{Credits, Hello, ToWorker, Welcome};
use crate::ids::ConnectionId;
use crate::limits::HELD_UP_AFTER;
use crate::status::{Code, Status};
use crate::time::{Duration, Time};

impl<T: Clone> Server<T> {
    /// Whether a worker was welcomed on a connection that is not over or replaced.
    pub fn is_welcomed(&self, connection: ConnectionId) -> bool {
        self.connections.contains_key(&connection)
    }

    /// A connection begins. A worker introduces itself there within `heartbeat_timeout`.
    pub(super) fn connected(&mut self, now: Time, connection: ConnectionId) {
        self.introduced(connection);
        if !self.is_stopped {
            let due = now.after(self.config.heartbeat_timeout);
            self.strangers.insert(connection, due);
            self.dues.insert((due, Due::Greeting(connection)));
        }
    }

    /// The server waits for no greeting on a connection.
    fn introduced(&mut self, connection: ConnectionId) {
        if let Some(due) = self.strangers.remove(&connection) {
            self.dues.remove(&(due, Due::Greeting(connection)));
        }
    }

    /// No worker has introduced itself on a connection in time.
    pub(super) fn not_introduced(
        &mut self,
        (now, due): (Time, Time),
        connection: ConnectionId,
        out: &mut Vec<Effect<T>>,
    ) {
        let timeout = self.config.heartbeat_timeout;
        let half = Duration::from_nanos(timeout.as_nanos() / 2);
        if now.since(due) > half.min(HELD_UP_AFTER) {
            // The server was held up: it may not have read the greeting yet.
            return self.connected(now, connection);
        }
        self.strangers.remove(&connection);
        let what = format!(
            "no worker introduced itself on a connection within {} ms (heartbeat_timeout)",
            timeout.as_millis()
        );
        out.push(Effect::Observe(Event::Protocol { what: what.into() }));
        out.push(Effect::Close { connection });
    }

    /// A worker introduces itself.
    pub(super) fn hello(
        &mut self,
        now: Time,
        connection: ConnectionId,
        hello: &Hello,
        out: &mut Vec<Effect<T>>,
    ) {
        let worker = hello.worker;
        self.introduced(connection);
        if let Err((code, text)) = self.check_hello(hello) {
            out.push(Effect::Observe(Event::Rejected { worker, why: text.as_str().into() }));
            let message = ToWorker::Rejected(Status::new(code, text));
            out.push(Effect::Send { connection, message });
            return out.push(Effect::Close { connection });
        }
        let Some(peer) = self.peers.get_mut(&worker) else {
            return;
        };
        if let Some(before) = peer.connection.replace(connection) {
            self.connections.remove(&before);
            out.push(Effect::Close { connection: before });
        }
        peer.lost = None;
        peer.attempt = hello.attempt;
        let (received, incarnation) = (peer.received, peer.incarnation);
        self.connections.insert(connection, worker);
        self.up.insert(worker);
        self.disarm(worker);
        let welcome = Welcome { incarnation: self.incarnation, received, credits: self.credits() };
        out.push(Effect::Send { connection, message: ToWorker::Welcome(welcome) });
        out.push(Effect::Observe(Event::Ready { worker, incarnation }));
        self.forget_what_is_known(worker, &hello.open);
        for number in hello.open.iter().filter(|number| **number <= received) {
            self.tell(now, worker, *number, out);
        }
    }

    /// How much each worker may send ahead.
    const fn credits(&self) -> Credits {
        Credits {
            requests: self.config.worker_requests_max,
            bytes: self.config.worker_bytes_max,
            per_key: self.config.key_credits,
        }
    }

    fn check_hello(&self, hello: &Hello) -> Result<(), (Code, String)> {
        let (worker, run) = (hello.worker, hello.incarnation);
        let Some(membership) = self.membership.as_ref().filter(|_| !self.is_stopped) else {
            return Err((Code::Unavailable, "this server does not take part (yet)".into()));
        };
        let index = membership.sizes.index(self.rank);
        if hello.index != index || worker.get() >= membership.sizes.workers {
            let text = format!(
                "worker {worker} of index {} is none of this server's, which has index {index} of {}",
                hello.index, membership.sizes
            );
            return Err((Code::InvalidArgument, text));
        }
        if hello.server != self.incarnation {
            let text =
                format!("this is run {} of the server, not {}", self.incarnation, hello.server);
            return Err((Code::Aborted, text));
        }
        let max = usize::try_from(self.config.worker_requests_max).unwrap_or(usize::MAX);
        if hello.open.len() > max {
            let text = format!("{} requests are open, of at most {max}", hello.open.len());
            return Err((Code::InvalidArgument, text));
        }
        match self.peers.get(&worker) {
            Some(peer) if peer.incarnation == run && peer.is_member => {
                // A greeting that was on its way for long must not undo a later one.
                let (attempt, latest) = (hello.attempt, peer.attempt);
                let text =
                    format!("connection {attempt} of run {run} comes after connection {latest}");
                (attempt > latest).then_some(()).ok_or((Code::Aborted, text))
            }
            _ => {
                let text = format!(
                    "worker {worker} does not take part as run {run} in membership {}, the latest known",
                    membership.version
                );
                Err((Code::Unavailable, text))
            }
        }
    }

    /// What a worker does not name as open it knows the end of.
    fn forget_what_is_known(&mut self, worker: WorkerRank, open: &[RequestNumber]) {
        let Some(peer) = self.peers.get(&worker) else {
            return;
        };
        let known = peer.records.keys().filter(|number| open.binary_search(number).is_err());
        let known: Vec<RequestNumber> = known.copied().collect();
        self.acknowledged(worker, &known);
    }

    /// A connection is over.
    pub(super) fn disconnected(
        &mut self,
        now: Time,
        connection: ConnectionId,
        why: &str,
        out: &mut Vec<Effect<T>>,
    ) {
        self.introduced(connection);
        self.no_longer_written(connection);
        let Some(worker) = self.connections.remove(&connection) else {
            return;
        };
        let until = now.after(self.config.reconnect_grace);
        let peer = self.peers.get_mut(&worker);
        if let Some(peer) = peer.filter(|peer| peer.connection == Some(connection)) {
            peer.connection = None;
            peer.down = Some(now);
            self.dues.insert((until, Due::Grace(worker)));
            out.push(Effect::Observe(Event::Away { worker, why: why.into() }));
        }
    }

    /// A worker's connection is not awaited any more.
    pub(super) fn disarm(&mut self, worker: WorkerRank) {
        let grace = self.config.reconnect_grace;
        if let Some(since) = self.peers.get_mut(&worker).and_then(|peer| peer.down.take()) {
            self.dues.remove(&(since.after(grace), Due::Grace(worker)));
        }
    }

    /// Somebody does not keep to the protocol.
    pub(super) fn offended(
        &mut self,
        now: Time,
        connection: ConnectionId,
        what: &str,
        out: &mut Vec<Effect<T>>,
    ) {
        out.push(Effect::Observe(Event::Protocol { what: what.into() }));
        out.push(Effect::Close { connection });
        // What is being read from it is still being read until the driver says otherwise.
        let arriving = self.arriving.remove(&connection);
        self.disconnected(now, connection, what, out);
        self.arriving.extend(arriving.map(|arriving| (connection, arriving)));
    }
}
