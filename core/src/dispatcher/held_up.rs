//! Time in which the machine was held up: its process was stopped, its virtual machine paused, or it
//! hung. It could hear nobody then, so the silence of that time counts against no client and no worker,
//! and nothing is freed for having been unused in it.
//!
//! The machine asks for a wake-up shortly after each step. A step that comes much later shows that the
//! machine was held up since the step before. Exactly that time is given back: a machine that is held
//! up again and again still finds out who is gone.

use alloc::collections::VecDeque;

use crate::time::{Duration, Time};

/// The machine asks to be woken so long after a step while it listens for somebody. So much of the time
/// before a hold-up may count as part of it.
const WAKE_UP_AFTER: Duration = Duration::from_secs(1);
/// The same while there is nobody, but something that is freed when it is unused for minutes.
const WAKE_UP_FOR_THINGS_AFTER: Duration = Duration::from_secs(30);
/// A step so much later than the wake-up shows a hold-up; one that comes sooner was in time.
const LATE: Duration = Duration::from_secs(1);
/// The latest hold-ups are remembered one by one, up to this many.
const HOLD_UPS_REMEMBERED_MAX: usize = 64;

/// The reason why a hold-up matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Watched {
    /// Clients or workers that are given up when they are silent.
    Somebody,
    /// Nobody, but iterations, jobs or datasets, which are freed when they are unused.
    Things,
    /// Nothing.
    Nothing,
}

/// How long the machine was held up so far.
#[derive(Clone, Debug)]
pub(super) struct HeldUp {
    stepped: Time,
    wake_at: Time,
    total: Duration,
    /// When the latest hold-ups began, and how long they lasted, oldest first.
    latest: VecDeque<(Time, Duration)>,
}

impl HeldUp {
    /// A machine that begins now.
    pub(super) const fn beginning(now: Time) -> Self {
        let latest = VecDeque::new();
        Self { stepped: now, wake_at: Time::NEVER, total: Duration::ZERO, latest }
    }

    /// When the machine wants to be woken, to show that nothing holds it up.
    pub(super) const fn wake_at(&self) -> Time {
        self.wake_at
    }

    /// Begins a step: notes whether the machine was held up before it.
    pub(super) fn begin_step(&mut self, now: Time) {
        if now > self.wake_at.after(LATE) {
            self.note(now.since(self.stepped));
        }
        self.stepped = self.stepped.max(now);
    }

    fn note(&mut self, lost: Duration) {
        self.total = self.total.plus(lost);
        if self.latest.len() >= HOLD_UPS_REMEMBERED_MAX {
            self.latest.pop_front();
        }
        self.latest.push_back((self.stepped, lost));
    }

    /// Ends a step, and says when the machine wants to be woken next.
    pub(super) fn end_step(&mut self, watched: Watched) {
        self.wake_at = match watched {
            Watched::Somebody => self.stepped.after(WAKE_UP_AFTER),
            Watched::Things => self.stepped.after(WAKE_UP_FOR_THINGS_AFTER),
            Watched::Nothing => Time::NEVER,
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

    /// How long the machine was held up since then, by the hold-ups that it remembers.
    pub(super) fn since(&self, time: Time) -> Duration {
        let later = self.latest.iter().rev().take_while(|(began, _)| *began >= time);
        later.map(|(_, lost)| *lost).sum()
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
        let mut held_up = HeldUp::beginning(at(100));
        held_up.end_step(Watched::Somebody);
        assert_eq!(held_up.wake_at(), at(101));
        held_up.begin_step(at(102));
        held_up.end_step(Watched::Somebody);
        assert_eq!(held_up.heard_upto(at(102)), at(102), "a second later is in time");
        held_up.begin_step(at(200));
        held_up.end_step(Watched::Somebody);
        assert_eq!(held_up.heard_upto(at(200)), at(102));
        assert_eq!(held_up.as_of_now(at(102)), at(200));
    }

    #[test]
    fn hold_ups_count_for_what_was_before_them() {
        let mut held_up = HeldUp::beginning(at(100));
        for step in [110, 111, 131] {
            held_up.end_step(Watched::Somebody);
            held_up.begin_step(at(step));
        }
        let since = |time| held_up.since(at(time)).as_millis() / 1000;
        assert_eq!([99, 100, 101, 110, 111, 112].map(since), [30, 30, 20, 20, 20, 0]);
    }

    #[test]
    fn only_the_latest_hold_ups_are_remembered() {
        let mut held_up = HeldUp::beginning(at(0));
        for step in 1..=100 {
            held_up.end_step(Watched::Somebody);
            held_up.begin_step(at(10 * step));
        }
        assert_eq!(held_up.since(at(0)), Duration::from_secs(640));
    }

    #[test]
    fn a_machine_that_watches_nothing_is_never_late() {
        let mut held_up = HeldUp::beginning(at(100));
        held_up.end_step(Watched::Nothing);
        held_up.begin_step(at(1000));
        assert_eq!((held_up.wake_at(), held_up.heard_upto(at(1000))), (Time::NEVER, at(1000)));
    }
}
