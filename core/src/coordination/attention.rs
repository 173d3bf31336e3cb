//! Knowing when the service itself was held up: then nobody is blamed for what could not be heard.

use super::config::Config;
use super::live::Alarm;
use super::machine::{Coordination, Effect, Turn};
use super::reply::Event;
use crate::limits::HELD_UP_AFTER;
use crate::time::{Duration, Time};

/// The pulse is at least this slow, however short the timeouts are.
const PULSE_MIN: Duration = Duration::from_millis(10);

/// Since when the service has been awake.
#[derive(Clone, Debug)]
pub(super) struct Attention {
    /// It has been awake since then.
    pub(super) since: Time,
    /// It wants to be woken as often as this while anybody could be blamed.
    pulse: Duration,
    /// When it is woken this much later than it wants, it was held up.
    late_after: Duration,
    due: Time,
}

impl Attention {
    /// A process begins.
    pub(super) fn starting(config: &Config, now: Time) -> Self {
        let timeouts = config.namespaces.iter().map(|namespace| namespace.heartbeat_timeout);
        let shortest = timeouts.min().unwrap_or(Duration::from_secs(100)).as_nanos();
        let pulse = Duration::from_nanos(shortest / 4).max(PULSE_MIN);
        // A client beats every half timeout: being late by a quarter of it blames nobody yet.
        Self { since: now, pulse, late_after: HELD_UP_AFTER.min(pulse), due: Time::NEVER }
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
            self.due = now.after(self.pulse);
        }
    }
}

impl Coordination {
    /// Begins a step: sees whether it comes much later than it should.
    pub(super) fn attend(&mut self, turn: &mut Turn<'_>) {
        let alarm = self.alarms.first().map_or(Time::NEVER, |(at, _, _)| *at);
        let late = turn.now.since(alarm.min(self.attention.due));
        if late > self.attention.late_after {
            self.attention.since = turn.now;
            turn.out.push(Effect::Observe(Event::HeldUp { late }));
            self.postpone_all_due(turn.now);
        }
    }

    /// What was due while nobody could be heard is looked at once it could have been.
    fn postpone_all_due(&mut self, now: Time) {
        while let Some((at, namespace, alarm)) = self.alarms.first().cloned() {
            if at > now {
                return;
            }
            let again = match alarm {
                Alarm::Silence(_) => self.patience_from(namespace, now),
                Alarm::Barrier(_) | Alarm::Settle | Alarm::Progress => now.after(HELD_UP_AFTER),
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
