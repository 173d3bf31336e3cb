//! Sees when a machine of the product asks to be woken at once, again and again, and does nothing then:
//! its driver would take a whole core for it.

use rondo_core::time::Time;

/// So many wake-ups in a row that leave the machine due at once are too many.
const DUE_MAX: u32 = 50;

/// Wake-ups in a row after which a machine was due at once.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct BusyLoop {
    due: u32,
}

impl BusyLoop {
    /// A machine was woken because its time had come, and has this deadline now.
    ///
    /// # Errors
    /// When it is due at once, as it was so many times before.
    pub(super) fn woken(&mut self, now: Time, deadline: Option<Time>) -> Result<(), String> {
        self.due = match deadline.is_some_and(|at| at <= now) {
            true => self.due.saturating_add(1),
            false => 0,
        };
        match self.due < DUE_MAX {
            true => Ok(()),
            false => Err(format!("busy: due at once after each of {} wake-ups", self.due)),
        }
    }
}
