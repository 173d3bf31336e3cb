//! Handing records on: splits in the order of their places, one to its end and then the next.

use alloc::vec::Vec;

use super::Splits;
use super::holding::HOLD_MAX;
use crate::reader::shared::Shared;
use crate::reader::types::{Delivery, Effect};

impl Splits {
    pub(super) fn deliver(&mut self, shared: &mut Shared, out: &mut Vec<Effect>) {
        loop {
            self.leave_delivered();
            let Some(place) = self.front().filter(|_| shared.wanted > 0) else {
                return;
            };
            let Some(batch) = self.held.get_mut(&place).and_then(|held| held.next()) else {
                return;
            };
            self.current = Some(place);
            self.buffered = self.buffered.saturating_sub(1);
            let size = batch.records.len() as u64;
            self.buffered_bytes = self.buffered_bytes.saturating_sub(size);
            shared.wanted = shared.wanted.saturating_sub(1);
            out.push(Effect::Deliver(Delivery::Batch(batch)));
        }
    }

    /// Tells the application, once, that it has all it can have now, and that it must say what it has
    /// consumed for more to come, or the end.
    pub(super) fn tell_if_drained(&mut self, out: &mut Vec<Effect>) {
        let is_all = self.holding.is_dry || self.held.len() >= HOLD_MAX as usize;
        let is_drained = is_all && self.held.values().all(|held| held.is_delivered());
        if is_drained && self.unconsumed() > 0 && !self.holding.has_told {
            self.holding.has_told = true;
            out.push(Effect::Drained);
        }
    }

    /// A split that was handed on to its end makes way for the next.
    fn leave_delivered(&mut self) {
        let is_over = |place: u64| self.held.get(&place).is_none_or(|held| held.is_delivered());
        if self.current.is_some_and(is_over) {
            self.current = None;
        }
    }
}
