//! What holds of a scheduler between two steps of it.

use super::machine::Scheduler;
use crate::invariant::{Invariant, Violation, check_each};

/// Checks a scheduler.
///
/// # Errors
/// The first invariant that does not hold.
pub fn check(scheduler: &Scheduler) -> Result<(), Violation> {
    check_each(SCHEDULER_INVARIANTS, scheduler)
}

/// The invariants of a scheduler.
pub(crate) const SCHEDULER_INVARIANTS: &[Invariant<Scheduler>] = &[];
