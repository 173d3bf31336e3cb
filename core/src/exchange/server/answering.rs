//! Answers to units.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use super::machine::Server;
use super::peer::Phase;
use super::types::{Answering, Effect};
use crate::exchange::ids::{RequestNumber, UnitHandler, WorkerRank};
use crate::exchange::info::TensorInfo;
use crate::exchange::message::{Answer, Pull, Tensor, ToWorker};
use crate::exchange::refusal::Refusal;
use crate::exchange::stamps::Point;
use crate::time::Time;

/// What a unit that was given out is, now.
pub(super) enum Known<'a> {
    /// It can be answered.
    Open { worker: WorkerRank, number: RequestNumber, pulls: &'a [Pull] },
    /// Its worker is lost.
    Orphan,
    /// It owed no answer, and is over.
    Excused,
}

impl<T: Clone> Server<T> {
    /// Answers units: all of them, or none if anything is wrong.
    pub(super) fn respond(
        &mut self,
        now: Time,
        answers: Vec<Answering<T>>,
        out: &mut Vec<Effect<T>>,
    ) -> Result<(), Refusal> {
        let mut units = BTreeSet::new();
        for answering in &answers {
            self.check_answer(answering)?;
            if !units.insert(answering.unit) {
                return Err(Refusal::AnsweredBefore { unit: answering.unit });
            }
        }
        let mut lost = None;
        for Answering { unit, tensors } in answers {
            if self.excused.remove(&unit) {
                continue;
            }
            match self.end_orphan(unit) {
                Some(of) => lost = lost.or(Some(of)),
                None => self.answer(now, unit, tensors, out),
            }
        }
        lost.map_or(Ok(()), |lost| Err(Refusal::PeerLost(lost)))
    }

    fn check_answer(&self, answering: &Answering<T>) -> Result<(), Refusal> {
        let (unit, tensors) = (answering.unit, &answering.tensors);
        let pulls = match self.known(unit)? {
            Known::Open { pulls, .. } => pulls,
            Known::Excused => &[],
            Known::Orphan => return Ok(()),
        };
        if tensors.len() != pulls.len() {
            return Err(Refusal::AnswerCount { unit, tensors: tensors.len(), pulls: pulls.len() });
        }
        let differs = |(_, (pull, (info, _))): &(usize, (&Pull, &(TensorInfo, T)))| {
            pull.info.bytes() != info.bytes()
        };
        match pulls.iter().zip(tensors).enumerate().find(differs) {
            None => Ok(()),
            Some((index, (pull, (info, _)))) => Err(Refusal::AnswerSize {
                unit,
                index,
                key: pull.key,
                bytes: info.bytes(),
                wanted: pull.info.bytes(),
            }),
        }
    }

    /// What a unit is that somebody wants to answer.
    pub(super) fn known(&self, unit: UnitHandler) -> Result<Known<'_>, Refusal> {
        if self.orphans.contains_key(&unit) {
            return Ok(Known::Orphan);
        }
        if self.excused.contains(&unit) {
            return Ok(Known::Excused);
        }
        let next = self.next;
        let Some((worker, number)) = self.units.get(&unit).copied() else {
            return Err(match unit < next {
                true => Refusal::AnsweredBefore { unit },
                false => Refusal::UnknownUnit { unit, next },
            });
        };
        let record = self.peers.get(&worker).and_then(|peer| peer.records.get(&number));
        match record {
            Some(record) if matches!(record.phase, Phase::GivenOut { .. }) => {
                Ok(Known::Open { worker, number, pulls: &record.pulls })
            }
            _ => Err(Refusal::NotGivenOut { unit }),
        }
    }

    fn answer(
        &mut self,
        now: Time,
        unit: UnitHandler,
        tensors: Vec<(TensorInfo, T)>,
        out: &mut Vec<Effect<T>>,
    ) {
        let Some((worker, number)) = self.units.get(&unit).copied() else {
            return;
        };
        let peer = self.peers.get_mut(&worker);
        let Some(record) = peer.and_then(|peer| peer.records.get_mut(&number)) else {
            return;
        };
        if !record.owes_answer() {
            return self.release(worker, number, true, out);
        }
        let with_keys = record.pulls.iter().zip(tensors);
        let tensors: Vec<Tensor<T>> = with_keys
            .map(|(pull, (info, payload))| Tensor { key: pull.key, info, payload })
            .collect();
        record.stamps.set(Point::ResponseStart, now);
        record.phase = Phase::Answered { tensors: tensors.clone() };
        let stamps = record.stamps;
        self.units.remove(&unit);
        // The answer says so.
        self.release(worker, number, false, out);
        if let Some(connection) = self.peers.get(&worker).and_then(|peer| peer.connection) {
            let message = ToWorker::Answer(Answer { number, tensors, stamps });
            out.push(Effect::Send { connection, message });
        }
    }
}
