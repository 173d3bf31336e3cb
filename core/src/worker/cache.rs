//! Elements that all trainers get: a window over the stream, in which each has its place.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::string::String;
use alloc::vec::Vec;
use bytes::Bytes;

use super::buffer::{Buffer, End};
use super::refusal;
use super::runner::{Back, Given, Handed};
use crate::ids::CallId;
use crate::limits::TRAINERS_MAX;
use crate::status::Status;

/// The window, and where trainers are.
#[derive(Clone, Debug)]
pub(super) struct Cache {
    bytes_max: u64,
    window: VecDeque<Bytes>,
    /// The place of the window's first element in the stream.
    start: u64,
    bytes: u64,
    trainers: BTreeMap<String, Trainer>,
    waiting: BTreeMap<CallId, String>,
}

#[derive(Clone, Debug, Default)]
struct Trainer {
    next: u64,
    /// Elements before `next` that have not left.
    again: BTreeSet<u64>,
}

impl Cache {
    pub(super) const fn new(bytes_max: u64) -> Self {
        Self {
            bytes_max,
            window: VecDeque::new(),
            start: 0,
            bytes: 0,
            trainers: BTreeMap::new(),
            waiting: BTreeMap::new(),
        }
    }

    pub(super) fn ask(&mut self, call: CallId, trainer: String) -> Result<(), Status> {
        if trainer.is_empty() {
            return Err(refusal::no_trainer());
        }
        if !self.trainers.contains_key(&trainer) {
            if self.trainers.len() >= TRAINERS_MAX {
                return Err(refusal::too_many_trainers());
            }
            self.trainers.insert(trainer.clone(), Trainer::default());
        }
        self.waiting.insert(call, trainer);
        Ok(())
    }

    pub(super) fn hand_out(&mut self, ready: &mut Buffer, out: &mut Vec<Handed>) {
        for (call, trainer) in core::mem::take(&mut self.waiting) {
            match self.next_of(&trainer, ready) {
                Some(Ok((place, element))) => {
                    let back = Back::Trainer(trainer, place);
                    out.push((call, Ok(Given::Element(element, back))));
                }
                Some(Err(status)) => out.push((call, Err(status))),
                None => {
                    self.waiting.insert(call, trainer);
                }
            }
        }
    }

    /// The trainer's next element with its place; `None` when it is not there yet.
    fn next_of(
        &mut self,
        trainer: &str,
        ready: &mut Buffer,
    ) -> Option<Result<(u64, Bytes), Status>> {
        let at = self.trainers.get_mut(trainer)?;
        while let Some(place) = at.again.pop_first() {
            if let Some(element) = in_window(&self.window, self.start, place) {
                return Some(Ok((place, element)));
            }
        }
        let place = at.next.max(self.start);
        if in_window(&self.window, self.start, place).is_none() {
            match ready.take() {
                Some((_, element)) => {
                    if let Err(status) = self.push(element) {
                        return Some(Err(status));
                    }
                }
                None => return self.ended(ready).map(Err),
            }
        }
        let at = self.trainers.get_mut(trainer)?;
        let place = at.next.max(self.start);
        let element = in_window(&self.window, self.start, place)?;
        at.next = place.saturating_add(1);
        Some(Ok((place, element)))
    }

    fn ended(&self, ready: &Buffer) -> Option<Status> {
        Some(match ready.end.as_ref()? {
            End::Over => refusal::cache_needs_endless_data(),
            End::Failed(status) => status.clone(),
            End::Cut => refusal::shutting_down(),
        })
    }

    /// Adds an element behind all others, and lets go of the first ones until all fit.
    fn push(&mut self, element: Bytes) -> Result<(), Status> {
        let size = element.len() as u64;
        if size > self.bytes_max {
            return Err(refusal::too_large_for_cache(size, self.bytes_max));
        }
        while self.bytes.saturating_add(size) > self.bytes_max {
            let Some(first) = self.window.pop_front() else { break };
            self.bytes = self.bytes.saturating_sub(first.len() as u64);
            self.start = self.start.saturating_add(1);
        }
        self.bytes = self.bytes.saturating_add(size);
        self.window.push_back(element);
        Ok(())
    }

    /// An element has not left: the trainer gets it again, while it is there.
    pub(super) fn again(&mut self, trainer: &str, place: u64) {
        if let Some(at) = self.trainers.get_mut(trainer) {
            at.again.insert(place);
        }
    }

    pub(super) fn is_waited_for(&self) -> bool {
        !self.waiting.is_empty()
    }

    pub(super) fn cancel(&mut self, call: CallId) {
        self.waiting.remove(&call);
    }

    pub(super) fn take_waiting(&mut self) -> Vec<CallId> {
        core::mem::take(&mut self.waiting).into_keys().collect()
    }
}

fn in_window(window: &VecDeque<Bytes>, start: u64, place: u64) -> Option<Bytes> {
    let index = usize::try_from(place.checked_sub(start)?).ok()?;
    window.get(index).cloned()
}
