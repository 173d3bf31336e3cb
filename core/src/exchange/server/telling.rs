//! What a worker is told again of its requests.

use alloc::vec;
use alloc::vec::Vec;

use super::machine::Server;
use super::peer::{Phase, Record};
use super::types::Effect;
use crate::exchange::ids::{RequestNumber, WorkerRank};
use crate::exchange::message::{Answer, ToWorker};
use crate::exchange::stamps::{Point, Stamps};
use crate::status::{Code, Status};
use crate::time::Time;

impl<T: Clone> Server<T> {
    /// Tells a worker all that it should know of a request that has arrived.
    pub(super) fn tell(
        &mut self,
        now: Time,
        worker: WorkerRank,
        number: RequestNumber,
        out: &mut Vec<Effect<T>>,
    ) {
        let Some(peer) = self.peers.get(&worker) else {
            return;
        };
        let Some(connection) = peer.connection else {
            return;
        };
        let messages = match peer.records.get(&number) {
            Some(record) => of_record(now, number, record),
            None if number <= peer.given_up => {
                let text = "the server gave the request up when it took its worker for lost";
                let status = Status::new(Code::Unavailable, text);
                vec![ToWorker::Refused { number, status }]
            }
            None => {
                // Only what owes no answer is forgotten before the worker knows.
                let stamps = Stamps::default();
                vec![ToWorker::Pushed { number, stamps }, ToWorker::Released { number }]
            }
        };
        let send = |message| Effect::Send { connection, message };
        out.extend(messages.into_iter().map(send));
    }
}

fn of_record<T: Clone>(now: Time, number: RequestNumber, record: &Record<T>) -> Vec<ToWorker<T>> {
    match &record.phase {
        Phase::Refused { status } => vec![ToWorker::Refused { number, status: status.clone() }],
        Phase::Answered { tensors } => {
            let (tensors, stamps) = (tensors.clone(), record.stamps);
            vec![ToWorker::Answer(Answer { number, tensors, stamps })]
        }
        Phase::Queued { .. } | Phase::GivenOut { .. } => {
            let mut stamps = record.stamps;
            stamps.set(Point::ResponseStart, now);
            let pushed = record.has_pushes && !record.is_single;
            let pushed = pushed.then_some(ToWorker::Pushed { number, stamps });
            let released = record.is_released.then_some(ToWorker::Released { number });
            pushed.into_iter().chain(released).collect()
        }
    }
}
