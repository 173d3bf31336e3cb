//! Where the ids of a journal begin. A server whose data directory is lost begins a new journal; if its
//! ids began where those of the lost one began, it would take clients of the lost one for its own.

use alloc::format;

use super::machine::{Dispatcher, Turn};
use super::record::Record;
use super::refusal::Refusal;
use super::state::State;
use crate::limits::IDS_ABOVE_MAX;
use crate::log::ApplyError;

/// Ids of each kind that two journals with neighbouring numbers give out before they meet.
const IDS_BETWEEN: i64 = 10_000;
/// How many numbers there are to draw from.
const DRAWS: i64 = IDS_ABOVE_MAX / IDS_BETWEEN;

impl Dispatcher {
    /// Begins the ids of a journal that has given out none.
    pub(super) fn begin_ids(&mut self, turn: &mut Turn<'_>, entropy: u64) -> Result<(), Refusal> {
        let above = self.config.ids_above.unwrap_or_else(|| draw(entropy));
        if above > 0 && self.state.counters().are_at_start() {
            self.commit(turn, [Record::RaiseIds { above }])?;
        }
        Ok(())
    }
}

impl State {
    pub(super) fn raise_ids(&mut self, above: i64) -> Result<(), ApplyError> {
        if !(1..=IDS_ABOVE_MAX).contains(&above) {
            let text = format!("ids begin above {above}; it must be from 1 to {IDS_ABOVE_MAX}");
            return Err(ApplyError(text));
        }
        self.counters.raise(above);
        self.skip_taken_dataset_ids();
        Ok(())
    }
}

/// A multiple of [`IDS_BETWEEN`], so that ids still end as TensorFlow's do.
const fn draw(entropy: u64) -> i64 {
    let number = entropy % DRAWS.cast_unsigned();
    (number.cast_signed() + 1) * IDS_BETWEEN
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drawn_numbers_differ_and_stay_in_bounds() {
        for entropy in [0, 1, 149_999, 150_000, 1 << 31, 1 << 63, u64::MAX] {
            assert!((1..=IDS_ABOVE_MAX).contains(&draw(entropy)), "{entropy}");
        }
        assert_eq!([0, 1, 149_999].map(draw), [10_000, 20_000, 1_500_000_000]);
    }
}
