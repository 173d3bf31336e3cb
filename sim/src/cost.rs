//! The work of a step, where somebody counts it: `sim/cost` is the simulator in a build that counts the
//! blocks of instructions that run.

use std::fmt::{Debug, Write};
use std::sync::{Mutex, OnceLock, PoisonError};

static METER: OnceLock<fn() -> u64> = OnceLock::new();
/// The step that came nearest to its bound: what it ran and what it was allowed, in blocks.
static NEAREST: Mutex<Option<(u64, u64)>> = Mutex::new(None);

/// From now on each step of the node is measured with this meter, which says how many blocks have run
/// since the process began. Only one thread may run simulations then. The first meter stays.
pub fn measure_with(meter: fn() -> u64) {
    METER.get_or_init(|| meter);
}

/// Whether somebody counts.
pub(crate) fn is_measured() -> bool {
    METER.get().is_some()
}

/// A step that is being measured.
pub(crate) struct Measured {
    meter: fn() -> u64,
    /// The length of the description of what the step takes, in characters.
    taken: u64,
    /// Blocks that had run before.
    began: u64,
}

/// A step begins that takes this; `None` where nobody counts.
pub(crate) fn begin(takes: &impl Debug) -> Option<Measured> {
    let meter = *METER.get()?;
    let taken = length(takes);
    Some(Measured { meter, taken, began: meter() })
}

impl Measured {
    /// The step has ended and says this. The blocks that it ran, and the length of the descriptions of what
    /// it took and says, in characters.
    pub(crate) fn end(self, says: &impl Debug) -> (u64, u64) {
        let blocks = (self.meter)().saturating_sub(self.began);
        (blocks, self.taken.saturating_add(length(says)))
    }
}

/// A step ran so many blocks and was allowed so many.
pub(crate) fn compare(ran: u64, allowed: u64) {
    let mut nearest = NEAREST.lock().unwrap_or_else(PoisonError::into_inner);
    let share = |ran: u64, allowed: u64| u128::from(ran) * 1000 / u128::from(allowed.max(1));
    if nearest.is_none_or(|(most, of)| share(most, of) < share(ran, allowed)) {
        *nearest = Some((ran, allowed));
    }
}

/// The step that came nearest to its bound so far: what it ran and what it was allowed, in blocks.
pub(crate) fn nearest() -> Option<(u64, u64)> {
    *NEAREST.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Counts characters and keeps none.
struct Length(u64);

impl Write for Length {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        self.0 = self.0.saturating_add(text.len() as u64);
        Ok(())
    }
}

/// The length of a value's description, in characters.
pub(crate) fn length(of: &impl Debug) -> u64 {
    let mut length = Length(0);
    // Counting cannot fail.
    let _ = write!(length, "{of:?}");
    length.0
}
