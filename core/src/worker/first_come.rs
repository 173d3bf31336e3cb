//! Elements go to whoever comes first, each to one consumer.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use super::buffer::{Buffer, End};
use super::refusal;
use super::runner::{Back, Given, Handed};
use crate::ids::CallId;
use crate::time::Time;

/// Those who wait.
#[derive(Clone, Debug, Default)]
pub(super) struct FirstCome {
    /// In the order in which they came, with when each is told to ask again.
    waiting: BTreeMap<CallId, Option<Time>>,
}

impl FirstCome {
    pub(super) fn ask(&mut self, call: CallId, skip_at: Option<Time>) {
        self.waiting.insert(call, skip_at);
    }

    pub(super) fn hand_out(
        &mut self,
        now: Time,
        ready: &mut Buffer,
        is_told: bool,
        out: &mut Vec<Handed>,
    ) {
        while let Some(first) = self.waiting.first_entry() {
            let Some((place, element)) = ready.take() else { break };
            out.push((first.remove_entry().0, Ok(Given::Element(element, Back::Ready(place)))));
        }
        let everybody = match &ready.end {
            Some(End::Failed(status)) => Some(Err(status.clone())),
            Some(End::Cut) => Some(Err(refusal::shutting_down())),
            Some(End::Over) if is_told => Some(Ok(Given::End)),
            Some(End::Over) | None => None,
        };
        if let Some(told) = everybody {
            out.extend(self.take_waiting().into_iter().map(|call| (call, told.clone())));
        }
        self.waiting.retain(|call, skip_at| {
            let skips = skip_at.is_some_and(|at| at <= now);
            if skips {
                out.push((*call, Ok(Given::Skip)));
            }
            !skips
        });
    }

    pub(super) fn deadline(&self) -> Option<Time> {
        self.waiting.values().flatten().min().copied()
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
