//! What workers say.

use alloc::format;
use alloc::vec::Vec;

use super::machine::Server;
use super::peer::Phase;
use super::types::Effect;
use crate::exchange::ids::{RequestNumber, WorkerRank};
use crate::exchange::message::{Request, ToServer};
use crate::exchange::refusal::Refusal;
use crate::ids::ConnectionId;
use crate::time::Time;

impl<T: Clone> Server<T> {
    /// Takes a message. Those of connections that were given up are of no use.
    pub(super) fn hear(
        &mut self,
        now: Time,
        connection: ConnectionId,
        received: Time,
        message: ToServer<T>,
        out: &mut Vec<Effect<T>>,
    ) {
        let worker = self.connections.get(&connection).copied();
        match (message, worker) {
            (ToServer::Hello(hello), None) => self.hello(now, connection, &hello, out),
            (ToServer::Hello(_), Some(worker)) => {
                let what = format!("worker {worker} introduces itself twice on a connection");
                self.offended(now, connection, &what, out);
            }
            (ToServer::Request(request), Some(worker)) => {
                self.request(now, received, (worker, connection), request, out);
            }
            (ToServer::Acknowledge { numbers }, Some(worker)) => {
                self.acknowledged(worker, &numbers)
            }
            (ToServer::Request(_) | ToServer::Acknowledge { .. }, None) => {}
        }
    }

    /// A request has arrived with all its tensors.
    fn request(
        &mut self,
        now: Time,
        received: Time,
        (worker, connection): (WorkerRank, ConnectionId),
        request: Request<T>,
        out: &mut Vec<Effect<T>>,
    ) {
        let number = request.number;
        self.acknowledged(worker, &request.acknowledged);
        let slots = self.landed(connection, number);
        if !self.is_next(now, (worker, connection), number, out) {
            return self.free(worker, &slots);
        }
        match self.check_request(worker, &request.pushes, request.pulls.len()) {
            Ok(()) => self.take(now, received, worker, request, slots, out),
            Err(refusal) => {
                self.free(worker, &slots);
                self.refuse(worker, number, refusal, out);
            }
        }
    }

    /// Whether a request is the one that follows. The worker is told again of one that came before.
    pub(super) fn is_next(
        &mut self,
        now: Time,
        (worker, connection): (WorkerRank, ConnectionId),
        number: RequestNumber,
        out: &mut Vec<Effect<T>>,
    ) -> bool {
        let Some(peer) = self.peers.get_mut(&worker) else {
            return false;
        };
        let received = peer.received;
        if number <= received {
            self.tell(now, worker, number, out);
            return false;
        }
        if number != received.next() {
            let what = format!("worker {worker} sends request {number} after request {received}");
            self.offended(now, connection, &what, out);
            return false;
        }
        peer.received = number;
        true
    }

    /// A request came whose tensors had no place to go to.
    pub(super) fn not_taken(
        &mut self,
        connection: ConnectionId,
        number: RequestNumber,
        acknowledged: &[RequestNumber],
        refusal: Option<Refusal>,
        out: &mut Vec<Effect<T>>,
    ) {
        let Some(worker) = self.connections.get(&connection).copied() else {
            return;
        };
        self.acknowledged(worker, acknowledged);
        if self.is_next(Time::ZERO, (worker, connection), number, out) {
            let unexplained = || Refusal::Protocol("the request's tensors were dropped".into());
            self.refuse(worker, number, refusal.unwrap_or_else(unexplained), out);
        }
    }

    /// A worker knows how these requests ended.
    pub(super) fn acknowledged(&mut self, worker: WorkerRank, numbers: &[RequestNumber]) {
        let Some(peer) = self.peers.get_mut(&worker) else {
            return;
        };
        for number in numbers {
            let phase = peer.records.get(number).map(|record| &record.phase);
            if matches!(phase, Some(Phase::Answered { .. } | Phase::Refused { .. })) {
                peer.records.remove(number);
            }
        }
    }
}
