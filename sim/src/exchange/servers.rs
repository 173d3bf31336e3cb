//! What servers' applications do: they take batches, make answers of what was pushed, and give them.

use std::collections::BTreeMap;

use rondo_core::exchange::server::{Answering, Input, Partial, Server, Unit};
use rondo_core::exchange::{Key, Refusal, TensorInfo, UnitHandler, WorkerRank};
use rondo_core::ids::CallId;
use rondo_core::time::Duration;

use super::site::{Held, ServerSide, Side};
use super::workers::info;
use super::{Phase, World};
use crate::oracle::exchange::{Slice, answer};

/// Calls for batches that wait at one server.
const WAITING_MAX: usize = 2;

/// A server whose application has nothing.
pub(super) const fn side(machine: Server<Slice>) -> ServerSide {
    ServerSide { machine, held: BTreeMap::new(), over: None, waits: BTreeMap::new() }
}

impl World {
    pub(super) fn act_server(&mut self, number: u32) {
        let Some(side) = self.site(number).and_then(|it| it.server()) else {
            return;
        };
        let (waiting, held) = (side.waits.len(), side.held.len());
        if side.machine.report().slots == 0 && self.stream.chance(self.shape.registered) {
            self.registers(number);
        }
        if self.phase >= Phase::Ending {
            self.wants_batch(number, Partial::AtDeadline, Some(Duration::ZERO));
            return self.answers(number, usize::MAX, 0);
        }
        if waiting < WAITING_MAX && (held == 0 || self.stream.chance(400)) {
            let partial = match self.stream.chance(self.shape.partial) {
                true => self.stream.pick(&[Partial::UpMembersOnly, Partial::AtDeadline]).copied(),
                false => None,
            };
            let partial = partial.unwrap_or(Partial::Never);
            let timeout = self.some_timeout();
            let call = self.wants_batch(number, partial, timeout);
            self.maybe_give_up(number, call);
        }
        let skip = usize::try_from(self.stream.below(held.max(1) as u64)).unwrap_or(0);
        if self.stream.chance(200) {
            self.releases(number, skip);
        } else {
            let count = if self.stream.chance(300) { usize::MAX } else { 1 };
            self.answers(number, count, skip);
        }
        if self.stream.chance(self.shape.astray) {
            self.answers_again(number);
        }
    }

    fn wants_batch(&mut self, number: u32, partial: Partial, timeout: Option<Duration>) -> CallId {
        let call = self.next_call();
        if let Some(side) = self.site(number).and_then(|it| it.server()) {
            // What it was given before and owes no answer it reads no more.
            side.held.retain(|_, held| held.owes_answer);
            side.waits.insert(call, partial);
            self.step_server(number, Input::GetBatch { call, timeout, partial });
        }
        call
    }

    pub(super) fn has_batch(
        &mut self,
        number: u32,
        call: CallId,
        result: Result<Vec<Unit<Slice>>, Refusal>,
    ) {
        let Some(running) = self.site(number).and_then(|it| it.running()) else {
            return;
        };
        let Side::Server(side) = &mut running.side else {
            return;
        };
        side.waits.remove(&call);
        for unit in result.unwrap_or_default() {
            let read = |slice| running.memory.read(slice).map(<[u8]>::to_vec).unwrap_or_default();
            let pulls: Vec<(u64, u64)> =
                unit.pulls.iter().map(|pull| (pull.key.get(), pull.info.bytes())).collect();
            let owes_answer =
                unit.tensors.len().saturating_add(pulls.len()) == 1 || !pulls.is_empty();
            let pushes = unit.tensors.iter().map(|it| read(&it.payload)).collect();
            let held = Held { pushes, pulls, owes_answer, is_released: false };
            side.held.insert(unit.handler, held);
        }
    }

    /// The application answers units that it has.
    fn answers(&mut self, number: u32, count: usize, skip: usize) {
        let Some(running) = self.site(number).and_then(|it| it.running()) else {
            return;
        };
        let (Side::Server(side), Some(rank)) = (&mut running.side, running.rank) else {
            return;
        };
        let units: Vec<UnitHandler> = match count {
            1 => side.held.keys().copied().skip(skip).take(1).collect(),
            _ => side.held.keys().copied().collect(),
        };
        let mut answers = Vec::new();
        for unit in units {
            let Some(held) = side.held.remove(&unit) else {
                continue;
            };
            let made = |(key, bytes): &(u64, u64)| {
                let pushes = held.pushes.iter().map(Vec::as_slice);
                let made = answer(rank.get(), pushes, *key, *bytes);
                (info(*bytes), running.memory.put(made))
            };
            let tensors: Vec<(TensorInfo, Slice)> = held.pulls.iter().map(made).collect();
            side.over = Some(unit);
            answers.push(Answering { unit, tensors });
        }
        if !answers.is_empty() {
            let call = self.next_call();
            self.step_server(number, Input::Respond { call, answers });
        }
    }

    /// Of some units one cannot be answered any more: the others are.
    pub(super) fn answers_others(&mut self, number: u32, input: &Input<Slice>, not: UnitHandler) {
        let Input::Respond { answers, .. } = input else {
            return;
        };
        let others = answers.iter().filter(|answer| answer.unit != not).cloned();
        let answers: Vec<Answering<Slice>> = others.collect();
        if !answers.is_empty() {
            let call = self.next_call();
            self.step_server(number, Input::Respond { call, answers });
        }
    }

    /// The application reads no more what a unit has pushed, and answers later.
    fn releases(&mut self, number: u32, skip: usize) {
        let side = self.site(number).and_then(|it| it.server());
        let held = side.and_then(|it| it.held.iter_mut().nth(skip));
        let Some((unit, held)) = held.filter(|(_, held)| held.owes_answer && !held.is_released)
        else {
            return;
        };
        held.is_released = true;
        let unit = *unit;
        let call = self.next_call();
        self.step_server(number, Input::Release { call, unit });
    }

    /// What was answered is not answered again, nor what never was.
    fn answers_again(&mut self, number: u32) {
        let never = self.stream.chance(500);
        let over = self.site(number).and_then(|it| it.server()).and_then(|side| side.over);
        let Some(unit) = over else {
            return;
        };
        let unit = if never { UnitHandler::new(u64::MAX) } else { unit };
        let call = self.next_call();
        let answers = vec![Answering { unit, tensors: Vec::new() }];
        self.step_server(number, Input::Respond { call, answers });
    }

    /// A server registers slots for some keys of all workers, as a rule large enough.
    fn registers(&mut self, number: u32) {
        let (workers, keys) = (self.shape.workers, self.shape.keys.max(1));
        let is_small = self.stream.chance(self.shape.astray);
        let bytes = if is_small { 4 } else { self.shape.bytes.max(8) };
        let some = self.stream.between(1, keys);
        let slots = (0..workers).flat_map(|worker| (0..some).map(move |key| (worker, key)));
        let (workers, keys): (Vec<WorkerRank>, Vec<Key>) =
            slots.map(|(worker, key)| (WorkerRank::new(worker), Key::new(key))).unzip();
        let call = self.next_call();
        let bytes = bytes.saturating_mul(keys.len() as u64);
        if let Some(running) = self.site(number).and_then(|it| it.running()) {
            let buffer = running.memory.room(bytes);
            self.step_server(number, Input::RegisterBuffer { call, buffer, bytes, workers, keys });
        }
    }
}
