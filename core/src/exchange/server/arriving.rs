//! Requests that arrive: where their tensors go, and what becomes of them.

use alloc::vec::Vec;

use super::machine::Server;
use super::peer::{Arriving, Record};
use super::types::{Effect, Event, Landing, Place};
use crate::exchange::ids::{Key, RequestNumber, WorkerRank};
use crate::exchange::message::{Request, Tensor, ToWorker};
use crate::exchange::refusal::Refusal;
use crate::exchange::stamps::Point;
use crate::ids::ConnectionId;
use crate::time::Time;

impl<T: Clone> Server<T> {
    /// Where the tensors of a request are to be written, which the driver has seen the beginning of:
    /// its payloads mean nothing.
    pub fn land<U>(&mut self, connection: ConnectionId, request: &Request<U>) -> Landing<T> {
        let (number, pushes) = (request.number, &request.pushes);
        let Some(worker) = self.connections.get(&connection).copied() else {
            return Landing::Nowhere(None);
        };
        let received = self.peers.get(&worker).map(|peer| peer.received);
        if received.is_none_or(|received| number != received.next()) {
            return Landing::Nowhere(None);
        }
        // What it acknowledges makes the room that it takes.
        self.acknowledged(worker, &request.acknowledged);
        if let Err(refusal) = self.check_request(worker, pushes, request.pulls.len()) {
            return Landing::Nowhere(Some(refusal));
        }
        let before = self.landed(connection, number);
        self.free(worker, &before);
        let mut slots = Vec::new();
        let places = pushes.iter().map(|push| match self.slots.get_mut(&(worker, push.key)) {
            Some(slot) if !slot.is_taken => {
                slot.is_taken = true;
                slots.push(push.key);
                Place::Slot { buffer: slot.buffer.clone(), offset: slot.offset }
            }
            _ => Place::Allocate,
        });
        let places = places.collect();
        self.arriving.insert(connection, Arriving { worker, number, slots });
        Landing::At(places)
    }

    /// A request has arrived. Of its keys these lie in registered slots.
    pub(super) fn landed(&mut self, connection: ConnectionId, number: RequestNumber) -> Vec<Key> {
        match self.arriving.remove(&connection) {
            Some(arriving) if arriving.number == number => arriving.slots,
            Some(other) => {
                self.free(other.worker, &other.slots);
                Vec::new()
            }
            None => Vec::new(),
        }
    }

    /// Nothing of this connection is being written any more.
    pub(super) fn no_longer_written(&mut self, connection: ConnectionId) {
        if let Some(arriving) = self.arriving.remove(&connection) {
            self.free(arriving.worker, &arriving.slots);
        }
    }

    /// Whether a request is within what its worker may send, and fits where it goes.
    pub(super) fn check_request<U>(
        &self,
        worker: WorkerRank,
        pushes: &[Tensor<U>],
        pulls: usize,
    ) -> Result<(), Refusal> {
        let Some(peer) = self.peers.get(&worker) else {
            return Ok(());
        };
        let (tensors, max) = (pushes.len().saturating_add(pulls), self.config.tensors_max);
        if tensors == 0 {
            return Err(Refusal::Empty);
        }
        if tensors > max {
            return Err(Refusal::TooManyTensors { tensors, max });
        }
        let bytes = pushes.iter().fold(peer.bytes, |sum, it| sum.saturating_add(it.info.bytes()));
        let requests = peer.records.len();
        let requests_max = usize::try_from(self.config.worker_requests_max).unwrap_or(usize::MAX);
        if requests >= requests_max || bytes > self.config.worker_bytes_max {
            return Err(Refusal::NoCredit { worker, key: None, requests, bytes });
        }
        pushes.iter().try_for_each(|push| {
            let (key, pushed) = (push.key, push.info.bytes());
            let pushing = peer.keys.get(&key).copied().unwrap_or_default();
            if pushing >= self.config.key_credits {
                let requests = usize::try_from(pushing).unwrap_or(usize::MAX);
                return Err(Refusal::NoCredit { worker, key: Some(key), requests, bytes });
            }
            match self.slots.get(&(worker, key)).map(|slot| slot.bytes) {
                Some(slot) if slot < pushed => {
                    Err(Refusal::SlotTooSmall { key, worker, slot, pushed })
                }
                _ => Ok(()),
            }
        })
    }

    /// Takes a request on: it becomes a unit.
    pub(super) fn take(
        &mut self,
        now: Time,
        received: Time,
        worker: WorkerRank,
        request: Request<T>,
        slots: Vec<Key>,
        out: &mut Vec<Effect<T>>,
    ) {
        let unit = self.next;
        let number = request.number;
        let Some(peer) = self.peers.get_mut(&worker) else {
            return;
        };
        let mut stamps = request.stamps;
        stamps.set(Point::RequestPostrecv, received);
        stamps.set(Point::RequestProcess, now);
        let record = Record::queued(unit, request, slots, stamps);
        peer.count(record.bytes, &record.keys);
        if record.has_pushes
            && !record.is_single
            && let Some(connection) = peer.connection
        {
            stamps.set(Point::ResponseStart, now);
            let message = ToWorker::Pushed { number, stamps };
            out.push(Effect::Send { connection, message });
        }
        peer.records.insert(number, record);
        peer.queue.push_back(number);
        self.next = unit.next();
        self.units.insert(unit, (worker, number));
        self.ready.insert(worker);
        self.serve(out);
    }

    /// Refuses a request, which is remembered until the worker knows.
    pub(super) fn refuse(
        &mut self,
        worker: WorkerRank,
        number: RequestNumber,
        refusal: Refusal,
        out: &mut Vec<Effect<T>>,
    ) {
        let status: crate::status::Status = refusal.clone().into();
        out.push(Effect::Observe(Event::Refused { worker, refusal }));
        let Some(peer) = self.peers.get_mut(&worker) else {
            return;
        };
        if let Some(connection) = peer.connection {
            let message = ToWorker::Refused { number, status: status.clone() };
            out.push(Effect::Send { connection, message });
        }
        peer.records.insert(number, Record::refused(status));
    }
}
