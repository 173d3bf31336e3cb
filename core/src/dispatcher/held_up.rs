//! Time in which the machine was held up: its process was stopped, its virtual machine paused, or it
//! hung. It could hear no client then, so the silence of that time counts against none.
//!
//! The machine asks for a wake-up a while after each step. A step that comes much later shows that
//! the machine was held up since the step before.

use super::rhythm::LATE;
use crate::time::{Duration, Time};

/// The machine asks to be woken after this part of the time that a client may be silent.
const WAKE_UPS_PER_TIMEOUT: u64 = 4;
/// It does not ask to be woken sooner than this after a step.
const WAKE_UP_AFTER_MIN: Duration = Duration::from_secs(1);

/// How long the machine was held up so far.
#[derive(Clone, Debug)]
pub(super) struct HeldUp {
    stepped: Time,
    wake_at: Time,
    wake_after: Duration,
    total: Duration,
}

impl HeldUp {
    /// A machine that begins now, and gives up clients that are silent for longer than `timeout`.
    pub(super) fn beginning(timeout: Duration, now: Time) -> Self {
        let part = timeout.as_nanos().checked_div(WAKE_UPS_PER_TIMEOUT).unwrap_or_default();
        let wake_after = Duration::from_nanos(part).max(WAKE_UP_AFTER_MIN);
        Self { stepped: now, wake_at: Time::NEVER, wake_after, total: Duration::ZERO }
    }

    /// When the machine wants to be woken, to show that nothing holds it up.
    pub(super) const fn wake_at(&self) -> Time {
        self.wake_at
    }

    /// Begins a step: notes whether the machine was held up before it.
    pub(super) fn begin_step(&mut self, now: Time) {
        if now > self.wake_at.after(LATE) {
            let lost = now.since(self.stepped).as_nanos();
            self.total = Duration::from_nanos(self.total.as_nanos().saturating_add(lost));
        }
        self.stepped = self.stepped.max(now);
    }

    /// Ends a step; with `watches`, the machine wants to be woken again.
    pub(super) fn end_step(&mut self, watches: bool) {
        self.wake_at = match watches {
            true => self.stepped.after(self.wake_after),
            false => Time::NEVER,
        };
    }

    /// A time less the hold-ups so far: the difference of two of these is time in which the machine
    /// could hear.
    pub(super) fn heard_upto(&self, now: Time) -> Time {
        Time::from_nanos(now.as_nanos().saturating_sub(self.total.as_nanos()))
    }

    /// The time that [`HeldUp::heard_upto`] takes back to this one now.
    pub(super) fn as_of_now(&self, heard_upto: Time) -> Time {
        heard_upto.after(self.total)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(secs: u64) -> Time {
        Time::from_millis(secs * 1000)
    }

    #[test]
    fn a_step_much_later_than_the_wake_up_shows_a_hold_up() {
        let mut held_up = HeldUp::beginning(Duration::from_secs(40), at(100));
        held_up.end_step(true);
        assert_eq!(held_up.wake_at(), at(110));
        held_up.begin_step(at(111));
        held_up.end_step(true);
        assert_eq!(held_up.heard_upto(at(111)), at(111), "a second later is in time");
        held_up.begin_step(at(200));
        held_up.end_step(true);
        assert_eq!(held_up.heard_upto(at(200)), at(111));
        assert_eq!(held_up.as_of_now(at(111)), at(200));
    }

    #[test]
    fn a_machine_that_watches_nobody_is_never_late() {
        let mut held_up = HeldUp::beginning(Duration::from_secs(40), at(100));
        held_up.end_step(false);
        held_up.begin_step(at(1000));
        assert_eq!((held_up.wake_at(), held_up.heard_upto(at(1000))), (Time::NEVER, at(1000)));
    }
}
