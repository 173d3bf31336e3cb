//! How much is held, and who waits for room.

use alloc::collections::{BTreeMap, BTreeSet};

use super::config::Config;
use super::key::Key;
use crate::ids::{CallId, StepId};

/// Tensors that are held.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// How many.
    pub tensors: usize,
    /// Their bytes.
    pub bytes: u64,
}

impl Held {
    pub(super) const fn add(&mut self, bytes: u64) {
        self.tensors = self.tensors.saturating_add(1);
        self.bytes = self.bytes.saturating_add(bytes);
    }

    pub(super) const fn take(&mut self, bytes: u64) {
        self.tensors = self.tensors.saturating_sub(1);
        self.bytes = self.bytes.saturating_sub(bytes);
    }
}

/// A bound that one more tensor would break.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NoRoom {
    pub(super) bound: Bound,
    /// Whether it would fit if nothing else were held.
    pub(super) is_for_now: bool,
}

/// Which bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Bound {
    StepBytes,
    StepTensors,
    Bytes,
    Tensors,
}

impl Bound {
    pub(super) const fn is_of_bytes(self) -> bool {
        matches!(self, Self::StepBytes | Self::Bytes)
    }

    const fn is_of_step(self) -> bool {
        matches!(self, Self::StepBytes | Self::StepTensors)
    }
}

/// What is held of all steps, and the senders that wait for room, by their tensors' numbers.
#[derive(Clone, Debug, Default)]
pub(super) struct Room {
    pub(super) held: Held,
    /// Of these, bytes of answers that are kept.
    pub(super) kept_bytes: u64,
    pub(super) parked: BTreeMap<u64, Parked>,
    /// Those for which the bounds of all steps together leave no room.
    pub(super) by_all: BTreeSet<u64>,
}

/// A sender that waits for room.
#[derive(Clone, Debug)]
pub(super) struct Parked {
    pub(super) call: CallId,
    pub(super) step: StepId,
    /// Which of the steps of that id.
    pub(super) serial: u64,
    pub(super) key: Key,
    pub(super) bytes: u64,
}

impl Room {
    /// An answer is kept no more.
    pub(super) const fn take_kept(&mut self, bytes: u64) {
        self.held.take(bytes);
        self.kept_bytes = self.kept_bytes.saturating_sub(bytes);
    }

    /// Whether a tensor of so many bytes fits beside what its step holds.
    pub(super) fn check(&self, config: &Config, step: Held, bytes: u64) -> Result<(), NoRoom> {
        let bounds = [
            (Bound::StepBytes, step.bytes, bytes, config.step_bytes_max),
            (Bound::StepTensors, step.tensors as u64, 1, config.step_tensors_max as u64),
            (Bound::Bytes, self.held.bytes, bytes, config.bytes_max),
            (Bound::Tensors, self.held.tensors as u64, 1, config.tensors_max as u64),
        ];
        let broken =
            bounds.into_iter().filter(|(_, held, more, max)| held.saturating_add(*more) > *max);
        let mut broken = broken.map(|(bound, _, more, max)| (bound, more <= max));
        let Some((bound, is_for_now)) = broken.next() else {
            return Ok(());
        };
        let is_for_now = is_for_now && broken.all(|(_, is_for_now)| is_for_now);
        Err(NoRoom { bound, is_for_now })
    }

    /// A sender waits for room, because of this bound.
    pub(super) fn park(
        &mut self,
        number: u64,
        parked: Parked,
        bound: Bound,
        of_step: &mut BTreeSet<u64>,
    ) {
        self.parked.insert(number, parked);
        self.park_again(number, bound, of_step);
    }

    /// A sender waits no more.
    pub(super) fn unpark(&mut self, number: u64, of_step: &mut BTreeSet<u64>) -> Option<Parked> {
        of_step.remove(&number);
        self.by_all.remove(&number);
        self.parked.remove(&number)
    }

    /// A sender that waits because of one bound waits because of another one.
    pub(super) fn park_again(&mut self, number: u64, bound: Bound, of_step: &mut BTreeSet<u64>) {
        of_step.remove(&number);
        self.by_all.remove(&number);
        if bound.is_of_step() {
            of_step.insert(number);
        } else {
            self.by_all.insert(number);
        }
    }
}
