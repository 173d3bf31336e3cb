//! What servers say about requests.

use alloc::format;
use alloc::vec::Vec;

use super::batch::Part;
use super::machine::Worker;
use super::peer::Link;
use super::types::Effect;
use crate::exchange::ids::{Handler, RequestNumber, ServerRank};
use crate::exchange::message::{Answer, Tensor, ToWorker};
use crate::exchange::passage::{Leg, Passage};
use crate::exchange::refusal::Refusal;
use crate::exchange::stamps::{Point, Stamps};
use crate::ids::ConnectionId;
use crate::status::{Code, Status};
use crate::time::Time;

impl<T: Clone> Worker<T> {
    /// Takes a message. Those of connections that were given up are of no use.
    pub(super) fn hear(
        &mut self,
        now: Time,
        connection: ConnectionId,
        received: Time,
        message: ToWorker<T>,
        out: &mut Vec<Effect<T>>,
    ) {
        let Some(server) = self.connections.get(&connection).copied() else {
            return;
        };
        match self.peers.get(&server).map(|peer| peer.link) {
            Some(link) if link == (Link::Ready { connection }) => {
                self.hear_ready(now, received, (server, connection), message, out);
            }
            Some(link) if link == (Link::Greeting { connection }) => match message {
                ToWorker::Welcome(welcome) => {
                    self.welcome(now, (server, connection), &welcome, out);
                }
                ToWorker::Rejected(status) => self.rejected(now, server, &status.message, out),
                _ => self.offended(now, server, "it speaks of requests before it welcomes", out),
            },
            // Nobody wants the answer, but all of it is written that was being written.
            _ if matches!(message, ToWorker::Answer(_)) => {
                self.no_longer_written(connection, out);
            }
            _ => {}
        }
    }

    /// Takes a message about a request.
    fn hear_ready(
        &mut self,
        now: Time,
        received: Time,
        (server, connection): (ServerRank, ConnectionId),
        message: ToWorker<T>,
        out: &mut Vec<Effect<T>>,
    ) {
        match message {
            ToWorker::Pushed { number, stamps } => {
                self.pushed(server, number, at_worker(stamps, received, now), out);
            }
            ToWorker::Answer(answer) => {
                self.answered(now, received, (server, connection), answer, out);
            }
            ToWorker::Refused { number, status } => {
                self.refused(now, (server, number), status, out);
            }
            ToWorker::Released { number } => {
                if let Some(peer) = self.peers.get_mut(&server) {
                    peer.release(number);
                }
                self.send_queued(now, server, out);
            }
            ToWorker::Welcome(_) | ToWorker::Rejected(_) => {
                self.offended(now, server, "it answers the greeting twice", out);
            }
        }
    }

    /// The request that has this number with a server, if anything of it is awaited.
    fn awaited(&self, server: ServerRank, number: RequestNumber) -> Option<Handler> {
        let open = self.peers.get(&server)?.open.get(&number)?;
        (!open.is_over).then_some(open.handler)
    }

    /// All pushes of a request have arrived.
    fn pushed(
        &mut self,
        server: ServerRank,
        number: RequestNumber,
        stamps: Stamps,
        out: &mut Vec<Effect<T>>,
    ) {
        let Some(first) = self.awaited(server, number) else {
            return;
        };
        if let Some(batch) = self.batches.get_mut(&first).filter(|batch| batch.is_alive()) {
            batch.trace.push = stamps;
            let is_first = match batch.part(server) {
                Some(Part::Sent { is_pushed, .. }) => !core::mem::replace(is_pushed, true),
                _ => false,
            };
            if is_first {
                self.passed(first, server, Leg::Push, stamps);
            }
        }
        if let Some(peer) = self.peers.get_mut(&server)
            && peer.open.get(&number).is_some_and(|open| !open.awaits_answer)
        {
            peer.over(number);
        }
        self.advance(first, server, out);
    }

    /// The part of a request is over if nothing more is awaited of its server.
    pub(super) fn advance(&mut self, first: Handler, server: ServerRank, out: &mut Vec<Effect<T>>) {
        let Some(batch) = self.batches.get_mut(&first) else {
            return;
        };
        let both = Part::Sent { is_pushed: true, is_answered: true };
        if batch.part(server).is_some_and(|part| *part == both) {
            batch.set(server, Part::Over);
            self.settle(first, out);
        }
    }

    /// An answer has come. Wherever it went, the server need not keep it.
    fn answered(
        &mut self,
        now: Time,
        received: Time,
        (server, connection): (ServerRank, ConnectionId),
        answer: Answer<T>,
        out: &mut Vec<Effect<T>>,
    ) {
        let number = answer.number;
        let stamps = at_worker(answer.stamps, received, now);
        if let Some(first) = self.awaited(server, number) {
            self.fill(first, server, answer.tensors, stamps, out);
            self.no_longer_written(connection, out);
            self.advance(first, server, out);
        }
        self.finish(server, number);
        if let Some(peer) = self.peers.get_mut(&server) {
            peer.clock.sample(&stamps);
        }
        self.will_acknowledge(now, server, number, out);
        self.send_queued(now, server, out);
    }

    /// A server has said its last word about a request.
    fn finish(&mut self, server: ServerRank, number: RequestNumber) {
        if let Some(peer) = self.peers.get_mut(&server) {
            peer.release(number);
            peer.over(number);
        }
    }

    /// What was pulled goes where it belongs, if anybody wants it still.
    fn fill(
        &mut self,
        first: Handler,
        server: ServerRank,
        tensors: Vec<Tensor<T>>,
        stamps: Stamps,
        out: &mut Vec<Effect<T>>,
    ) {
        let Some(batch) = self.batches.get_mut(&first).filter(|batch| batch.is_alive()) else {
            return;
        };
        if !matches!(batch.part(server), Some(Part::Sent { is_answered: false, .. })) {
            return;
        }
        if let Err(refusal) = fits(server, batch.pulls_of(server), &tensors) {
            return self.fail(first, refusal, out);
        }
        let pulls = batch.pulls_of(server).iter();
        out.extend(pulls.zip(tensors).map(|(pull, tensor)| Effect::Fill {
            destination: pull.payload.clone(),
            source: tensor.payload,
        }));
        let leg = if batch.per_server == 0 { Leg::Push } else { Leg::Pull };
        match leg {
            Leg::Push => batch.trace.push = stamps,
            Leg::Pull => batch.trace.pull = stamps,
        }
        // An answer says that what it answers has arrived.
        batch.set(server, Part::Sent { is_pushed: true, is_answered: true });
        self.passed(first, server, leg, stamps);
    }

    /// A request has been to a server and back.
    fn passed(&mut self, first: Handler, server: ServerRank, leg: Leg, stamps: Stamps) {
        let (Some(batch), Some(peer)) = (self.batches.get(&first), self.peers.get(&server)) else {
            return;
        };
        let pushes = batch.trace.pushes;
        let (before, handlers, bytes) = match leg {
            Leg::Push => (0, pushes, batch.bytes()),
            Leg::Pull => {
                let pulls = batch.pulls_of(server).iter();
                let bytes = pulls.fold(0, |sum, it| it.info.bytes().saturating_add(sum));
                (pushes, batch.trace.handlers.saturating_sub(pushes), bytes)
            }
        };
        let handler = Handler::new(first.get().saturating_add(before));
        let passage =
            Passage { number: 0, handler, handlers, leg, server: peer.rank, bytes, stamps };
        self.passages.add(passage, self.config.traces_max);
    }

    fn refused(
        &mut self,
        now: Time,
        (server, number): (ServerRank, RequestNumber),
        status: Status,
        out: &mut Vec<Effect<T>>,
    ) {
        let awaited = self.awaited(server, number);
        self.finish(server, number);
        if let Some(first) = awaited {
            if status.code == Code::Unavailable && self.waits_for_return() {
                // The server took this worker for lost, and has nothing of the request any more.
                self.requeue(first, server);
            } else {
                self.fail(first, Refusal::Refused { server, status }, out);
            }
        }
        self.will_acknowledge(now, server, number, out);
        self.send_queued(now, server, out);
    }
}

/// The worker's own stamps.
fn at_worker(mut stamps: Stamps, received: Time, now: Time) -> Stamps {
    stamps.set(Point::ResponsePostrecv, received);
    stamps.set(Point::ResponseProcess, now);
    stamps
}

/// Whether an answer is as large as what it is for.
pub(super) fn fits<T, U>(
    server: ServerRank,
    pulls: &[Tensor<T>],
    tensors: &[Tensor<U>],
) -> Result<(), Refusal> {
    if pulls.len() != tensors.len() {
        let (came, wanted) = (tensors.len(), pulls.len());
        let text =
            format!("server {server} answers with {came} tensors a request that pulls {wanted}");
        return Err(Refusal::Protocol(text));
    }
    let differs = |(_, (pull, tensor)): &(usize, (&Tensor<T>, &Tensor<U>))| {
        pull.info.bytes() != tensor.info.bytes()
    };
    match pulls.iter().zip(tensors).enumerate().find(differs) {
        None => Ok(()),
        Some((index, (pull, tensor))) => Err(Refusal::AnswerDiffers {
            server,
            index,
            key: pull.key,
            bytes: tensor.info.bytes(),
            wanted: pull.info.bytes(),
        }),
    }
}
