//! Knowing when the service itself was held up: then nobody is blamed for what could not be heard.

use alloc::vec::Vec;

use super::config::Config;
use super::live::Alarm;
use super::machine::{Coordination, Effect, Turn};
use super::reply::Event;
use crate::limits::HELD_UP_AFTER;
use crate::time::{Duration, Time};

/// The pulse is at least this slow, however short the timeouts are.
const PULSE_MIN: Duration = Duration::from_millis(10);
/// Pulses stay quick for so many slow pulses after a hold-up: another one may follow.
const QUICK_FOR: u64 = 16;
/// Two neighbouring hold-ups are remembered as one when together they span no more than this part of the
/// time since: then at most this part of a silence is given back too much.
const MERGED_PART: u64 = 64;
/// Hold-ups that are remembered; of more, the oldest are forgotten. Merging leaves fewer than this of a year
/// in which the service was held up all the time.
const HOLD_UPS_MAX: usize = 4_096;

/// When the service has been awake.
#[derive(Clone, Debug)]
pub(super) struct Attention {
    /// When the process began.
    begun: Time,
    /// The hold-ups, ascending.
    hold_ups: Vec<HoldUp>,
    /// Its last step.
    stepped: Time,
    /// It wants to be woken as often as this while anybody could be blamed.
    pulse: Duration,
    /// It wants to be woken as often as this when it was held up not long ago, to know how long it is
    /// awake in between.
    quick_pulse: Duration,
    /// When it is woken this much later than it wants, it was held up.
    late_after: Duration,
    due: Time,
}

/// A time in which the service was held up, once or several times.
#[derive(Clone, Copy, Debug)]
struct HoldUp {
    begin: Time,
    end: Time,
    /// How long it was held up in this time.
    lost: Duration,
}

impl HoldUp {
    /// How much of a silence that began at `since` the service could not have heard.
    fn lost_since(&self, since: Time) -> Duration {
        self.lost.min(self.end.since(self.begin.max(since)))
    }
}

/// A step that begins after a hold-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Late {
    /// How much later it begins than it should.
    by: Duration,
    /// The step before it.
    stepped: Time,
}

impl Attention {
    /// A process begins.
    pub(super) fn starting(config: &Config, now: Time) -> Self {
        let timeouts = config.namespaces.iter().map(|namespace| namespace.heartbeat_timeout);
        let shortest = timeouts.min().unwrap_or(Duration::from_secs(100)).as_nanos();
        let pulse = Duration::from_nanos(shortest / 4).max(PULSE_MIN);
        // A client beats every half timeout: being late by a quarter of it blames nobody yet.
        let late_after = HELD_UP_AFTER.min(pulse);
        let quick_pulse = Duration::from_nanos(late_after.as_nanos() / 4).max(PULSE_MIN);
        Self {
            begun: now,
            hold_ups: Vec::new(),
            stepped: now,
            pulse,
            quick_pulse,
            late_after,
            due: Time::NEVER,
        }
    }

    /// When it wants to be woken.
    pub(super) fn due(&self) -> Option<Time> {
        (self.due < Time::NEVER).then_some(self.due)
    }

    /// Plans the next pulse, if there is anybody to blame.
    pub(super) fn plan(&mut self, now: Time, needed: bool) {
        if !needed {
            self.due = Time::NEVER;
        } else if self.due <= now || self.due == Time::NEVER {
            self.due = now.after(self.pulse_at(now));
        }
    }

    fn pulse_at(&self, now: Time) -> Duration {
        let quick = self.hold_ups.last().is_some_and(|last| {
            now.since(last.end).as_nanos() < self.pulse.as_nanos().saturating_mul(QUICK_FOR)
        });
        if quick { self.quick_pulse } else { self.pulse }
    }

    /// Begins a step. Returns how late it is after a hold-up: the service heard nobody since the last step.
    fn begin_step(&mut self, now: Time, alarm: Time) -> Option<Late> {
        let stepped = self.stepped;
        self.stepped = stepped.max(now);
        let by = now.since(alarm.min(self.due));
        if by <= self.late_after {
            return None;
        }
        self.hold_ups.push(HoldUp { begin: stepped, end: now, lost: now.since(stepped) });
        self.merge(now);
        Some(Late { by, stepped })
    }

    /// Merges old hold-ups, so that few are remembered and the newest ones exactly.
    fn merge(&mut self, now: Time) {
        self.hold_ups.dedup_by(|next, before| {
            let span = next.end.since(before.begin).as_nanos();
            let is_small = span.saturating_mul(MERGED_PART) <= now.since(next.end).as_nanos();
            if is_small {
                before.end = next.end;
                before.lost = before.lost.plus(next.lost);
            }
            is_small
        });
        let excess = self.hold_ups.len().saturating_sub(HOLD_UPS_MAX);
        self.hold_ups.drain(..excess);
    }

    /// The moment at which somebody has been silent for a timeout, as far as the service could hear: it
    /// gives back the time in which it was held up, and a moment to hear what was said meanwhile.
    pub(super) fn patience(&self, since: Time, timeout: Duration) -> Time {
        let since = since.max(self.begun);
        let held_up = self.hold_ups.iter().rev().take_while(|held_up| held_up.end > since);
        let lost = held_up.map(|held_up| held_up.lost_since(since)).sum();
        let ends = since.after(timeout).after(lost);
        match self.hold_ups.last().filter(|last| last.end > since) {
            Some(last) => ends.max(last.end.after(self.quick_pulse)),
            None => ends,
        }
    }
}

impl Coordination {
    /// Begins a step: sees whether it comes much later than it should.
    pub(super) fn attend(&mut self, turn: &mut Turn<'_>) {
        let alarm = self.alarms.first().map_or(Time::NEVER, |(at, _, _)| *at);
        if let Some(late) = self.attention.begin_step(turn.now, alarm) {
            turn.out.push(Effect::Observe(Event::HeldUp { late: late.by }));
            self.postpone_all_due(turn.now, late.stepped);
        }
    }

    /// Postpones the alarms that fell due in a hold-up, so that what was sent meanwhile is heard first. The
    /// time until the hold-up counts: otherwise hold-ups that return would postpone an alarm for ever.
    fn postpone_all_due(&mut self, now: Time, stepped: Time) {
        while let Some((at, namespace, alarm)) = self.alarms.first().cloned() {
            if at > now {
                return;
            }
            let again = match alarm {
                Alarm::Silence(task) => self.silence_ends(namespace, task),
                Alarm::Barrier(_) | Alarm::Settle | Alarm::Progress => {
                    let left = at.since(stepped).min(HELD_UP_AFTER);
                    now.after(left.max(self.attention.quick_pulse))
                }
                // They could not ask again, and may take a while to.
                Alarm::SilentRelays => self.silence_look_from(namespace, now),
            };
            self.set_alarm(
                namespace,
                alarm,
                Some(again.max(Time::from_nanos(now.as_nanos().saturating_add(1)))),
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::coordination::NamespaceConfig;

    const fn at(millis: u64) -> Time {
        Time::from_millis(millis)
    }

    fn attention() -> Attention {
        let namespaces = alloc::vec![NamespaceConfig {
            heartbeat_timeout: Duration::from_secs(10),
            ..NamespaceConfig::named("n")
        }];
        let mut attention = Attention::starting(&Config { namespaces }, at(0));
        attention.plan(at(0), true);
        attention
    }

    #[test]
    fn only_the_time_of_a_hold_up_is_given_back() {
        let mut attention = attention();
        assert_eq!(attention.due(), Some(at(2_500)));
        assert_eq!(attention.begin_step(at(3_400), Time::NEVER), None, "a moment is no hold-up");
        attention.plan(at(3_400), true);
        let timeout = Duration::from_secs(10);
        assert_eq!(attention.patience(at(1_000), timeout), at(11_000));
        assert!(attention.begin_step(at(8_400), Time::NEVER).is_some());
        attention.plan(at(8_400), true);
        assert_eq!(attention.patience(at(1_000), timeout), at(16_000));
        assert_eq!(attention.patience(at(5_000), timeout), at(18_400), "heard in the midst of it");
        assert_eq!(attention.patience(at(8_400), timeout), at(18_400));
        let almost_over = Duration::from_millis(2_500);
        assert_eq!(attention.patience(at(1_000), almost_over), at(8_650), "a moment to hear it");
        assert_eq!(attention.due(), Some(at(8_650)), "another one may follow");
        attention.plan(at(48_400), true);
        assert_eq!(attention.due(), Some(at(50_900)));
    }

    #[test]
    fn many_hold_ups_are_remembered_in_little_room() {
        let mut attention = attention();
        for round in 1..=1_000_u64 {
            assert!(attention.begin_step(at(round * 10_000), Time::NEVER).is_some());
            attention.plan(at(round * 10_000), true);
        }
        assert!(attention.hold_ups.len() < 400, "{}", attention.hold_ups.len());
        let ends = attention.patience(at(5_000), Duration::from_secs(10));
        assert_eq!(ends, at(10_010_000), "it never was awake");
    }

    #[test]
    fn time_awake_between_hold_ups_counts_however_many_there_are() {
        const TIMEOUT: u64 = 200_000_000;
        // Awake for two seconds, held up for two.
        let mut attention = attention();
        let mut now = 0;
        for _ in 0..20_000 {
            (attention.stepped, attention.due) = (at(now + 2_000), at(now + 2_000));
            now += 4_000;
            assert!(attention.begin_step(at(now), Time::NEVER).is_some());
        }
        assert!(attention.hold_ups.len() < 1_000, "{}", attention.hold_ups.len());
        for since in [0, now / 3, now / 2, now - 30_000] {
            let lost = (now - since) / 2;
            let ends = attention.patience(at(since), Duration::from_millis(TIMEOUT));
            let ends = ends.as_nanos() / 1_000_000 - TIMEOUT;
            let too_much = ends.saturating_sub(since + lost);
            assert!(ends >= since + lost && too_much <= (now - since) / 60 + 2_000);
        }
    }
}
