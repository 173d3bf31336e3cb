//! What workers' applications do: they push and pull, several requests at once, and wait for them.

use std::collections::BTreeMap;

use rondo_core::exchange::message::Tensor;
use rondo_core::exchange::worker::{Complete, Input, Since, Worker};
use rondo_core::exchange::{Handler, Key, Refusal, ScalarType, TensorInfo};
use rondo_core::ids::CallId;
use rondo_core::time::Duration;

use super::site::{Lent, WorkerSide};
use super::{Phase, World};
use crate::oracle::exchange::{SERIAL_BYTES, Slice, pulled_key, pushed};

/// A worker that has asked for nothing.
pub(super) const fn side(machine: Worker<Slice>) -> WorkerSide {
    WorkerSide { machine, requests: BTreeMap::new(), waits: BTreeMap::new(), over: None }
}

/// A tensor of so many bytes, of some shape.
pub(super) fn info(bytes: u64) -> TensorInfo {
    let count = i64::try_from(bytes).unwrap_or(0);
    let (dtype, shape) = match bytes % 8 {
        0 => (ScalarType::Float, [count / 8, 2]),
        _ => (ScalarType::Byte, [count, 1]),
    };
    match TensorInfo::new(dtype, &shape) {
        Ok(info) => info,
        Err(error) => unreachable!("{bytes} bytes are some tensor's: {error}"),
    }
}

impl World {
    pub(super) fn act_worker(&mut self, number: u32) {
        let (open, cancelled) = (self.shape.open, self.shape.cancelled);
        let Some(side) = self.site(number).and_then(|it| it.worker()) else {
            return;
        };
        let count = side.requests.len() as u64;
        if self.phase >= Phase::Ending {
            return self.waits_for_all(number);
        }
        let makes = count < open && (count == 0 || self.stream.chance(500));
        if makes {
            return self.makes_request(number, false);
        }
        let nth = usize::try_from(self.stream.below(count.max(1))).unwrap_or(0);
        let side = self.site(number).and_then(|it| it.worker());
        let Some(handler) = side.and_then(|it| it.requests.keys().nth(nth).copied()) else {
            return;
        };
        if self.stream.chance(cancelled / 2) {
            self.abandons(number, handler);
        } else {
            let timeout = self.some_timeout();
            self.waits_for(number, handler, timeout);
        }
        if self.stream.chance(self.shape.astray)
            && let Some(over) = self.site(number).and_then(|it| it.worker()).and_then(|it| it.over)
        {
            // What is over is not waited for again.
            self.waits_for(number, over, None);
        }
    }

    /// A worker pushes and pulls; in the end one tensor each.
    pub(super) fn makes_request(&mut self, number: u32, is_last: bool) {
        self.last_serial = self.last_serial.wrapping_add(1);
        let serial = self.last_serial;
        let (servers, bytes) = (u64::from(self.shape.servers), self.shape.bytes);
        let (keys, most_pushes) = (self.shape.keys.max(1), self.shape.pushes);
        let most_pulls = if is_last { 1 } else { self.shape.pulls };
        let s = &mut self.stream;
        let per_server = if is_last { 1 } else { s.below(most_pulls.saturating_add(1)) };
        let fewest = u64::from(per_server == 0);
        let pushes =
            if is_last { 1 } else { s.between(fewest, most_pushes.min(self.shape.keys.max(1))) };
        let first_key = s.below(keys);
        // No slot is registered for what is pushed last.
        let (first_key, keys) = if is_last { (keys, u64::MAX) } else { (first_key, keys) };
        let sizes: Vec<u64> = (0..pushes)
            .map(|index| s.between(if index == 0 { SERIAL_BYTES } else { 0 }, bytes.max(8)))
            .collect();
        let size = s.below(bytes.saturating_add(1));
        let rest = u64::from(!is_last && s.chance(self.shape.astray));
        let ignores_rest = rest > 0 && s.chance(500) && per_server > 0;
        let call = self.next_call();
        let Some(running) = self.site(number).and_then(|it| it.running()) else {
            return;
        };
        let memory = &mut running.memory;
        let pushes: Vec<Tensor<Slice>> = (0..)
            .zip(sizes)
            .map(|(index, bytes)| Tensor {
                key: Key::new(first_key.wrapping_add(index).checked_rem(keys).unwrap_or(0)),
                info: info(bytes),
                payload: memory.put(pushed(serial, index, bytes)),
            })
            .collect();
        let count = per_server.saturating_mul(servers).saturating_add(rest);
        let pulls: Vec<Tensor<Slice>> = (0..count)
            .map(|index| Tensor {
                key: Key::new(pulled_key(serial, index)),
                info: info(size),
                payload: memory.room(size),
            })
            .collect();
        let lent = Lent { pushes: pushes.iter().map(|it| it.payload).collect() };
        let input = Input::Exchange { call, pushes, pulls, ignores_rest };
        self.lends(number, lent, is_last, input);
    }

    fn lends(&mut self, number: u32, lent: Lent, is_last: bool, input: Input<Slice>) {
        let next = self.site(number).and_then(|it| it.worker()).map(|side| {
            // What begins in this step has the number that follows.
            side.requests.insert(Handler::new(u64::MAX), lent);
        });
        if next.is_none() {
            return;
        }
        self.step_worker(number, input);
        let Some(running) = self.site(number).and_then(|it| it.running()) else {
            return;
        };
        if let super::site::Side::Worker(side) = &mut running.side {
            // It was refused, or has its handler.
            side.requests.remove(&Handler::new(u64::MAX));
            if is_last {
                running.last.request = side.requests.keys().next_back().copied();
            }
        }
    }

    pub(super) fn is_started(&mut self, number: u32, _: CallId, result: &Result<Handler, Refusal>) {
        let Some(side) = self.site(number).and_then(|it| it.worker()) else {
            return;
        };
        if let (Ok(handler), Some(lent)) = (result, side.requests.remove(&Handler::new(u64::MAX))) {
            side.requests.insert(*handler, lent);
        }
    }

    fn waits_for(&mut self, number: u32, handler: Handler, timeout: Option<Duration>) {
        let call = self.next_call();
        let since = match self.stream.chance(500) {
            true => Since::Request,
            false => Since::Call,
        };
        if let Some(side) = self.site(number).and_then(|it| it.worker()) {
            side.waits.insert(call, handler);
            self.step_worker(number, Input::Wait { call, handler, timeout, since });
            self.maybe_give_up(number, call);
        }
    }

    pub(super) fn abandons(&mut self, number: u32, handler: Handler) {
        self.step_worker(number, Input::Abandon { handler });
        if let Some(side) = self.site(number).and_then(|it| it.worker()) {
            side.requests.remove(&handler);
        }
    }

    /// Somebody waits for each request without end.
    fn waits_for_all(&mut self, number: u32) {
        let Some(side) = self.site(number).and_then(|it| it.worker()) else {
            return;
        };
        let waited: Vec<Handler> = side.waits.values().copied().collect();
        let open: Vec<Handler> = side.requests.keys().copied().collect();
        let unwaited = open.into_iter().filter(|handler| !waited.contains(handler)).take(4);
        for handler in unwaited.collect::<Vec<_>>() {
            self.waits_for(number, handler, None);
        }
    }

    /// Who waits is told.
    pub(super) fn has_waited(
        &mut self,
        number: u32,
        call: CallId,
        result: &Result<Complete, Refusal>,
    ) {
        let Some(running) = self.site(number).and_then(|it| it.running()) else {
            return;
        };
        let super::site::Side::Worker(side) = &mut running.side else {
            return;
        };
        let Some(handler) = side.waits.remove(&call) else {
            return;
        };
        let is_over = match result {
            Ok(_) | Err(Refusal::PeerLost(_) | Refusal::Refused { .. } | Refusal::Stopped) => true,
            Err(_) => false,
        };
        if running.last.request == Some(handler) && is_over {
            let is_whole = result.as_ref().is_ok_and(|complete| complete.missing.is_empty());
            running.last.is_answered = is_whole;
            running.last.request = None;
        }
        if is_over && let Some(lent) = side.requests.remove(&handler) {
            side.over = Some(handler);
            // The memory is the application's again.
            lent.pushes.iter().for_each(|slice| running.memory.free(slice));
        }
    }
}
