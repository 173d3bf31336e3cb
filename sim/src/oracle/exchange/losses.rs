//! The scheduler gives a process up no sooner than it had its time to be heard: a scheduler that stood
//! still heard nobody meanwhile.

use std::collections::BTreeMap;

use rondo_core::exchange::Config;
use rondo_core::exchange::message::ToScheduler;
use rondo_core::exchange::scheduler::{Effect, Event, Input};
use rondo_core::ids::{ConnectionId, Incarnation};
use rondo_core::time::{Duration, Time};

use super::{Seen, wrong};
use crate::checks::{Check, reached};

/// A scheduler that finds times over so much too late was held up, and everybody has their time anew;
/// or half the time that a process may be silent, if that is less.
const HELD_UP: Duration = Duration::from_secs(1);

/// A connection.
#[derive(Debug)]
struct Link {
    run: Option<Incarnation>,
    heard: Time,
}

/// What the present scheduler could know of processes.
#[derive(Debug, Default)]
pub(super) struct Losses {
    links: BTreeMap<ConnectionId, Link>,
    /// When the last connection of a process broke.
    broken: BTreeMap<Incarnation, Time>,
    /// When the scheduler went on, each time that it stood still; or said that it was held up, as it does
    /// when its clock jumps, too.
    resumed: Vec<(Time, bool)>,
}

impl Losses {
    pub(super) fn resumed(&mut self, now: Time) {
        self.resumed.push((now, false));
    }

    pub(super) fn scheduler(
        &mut self,
        now: Time,
        input: &Input,
        effects: &[Effect],
        config: &Config,
    ) -> Seen {
        let mut comes = None;
        match input {
            Input::Connected { connection } => {
                self.links.insert(*connection, Link { run: None, heard: now });
            }
            Input::Received { connection, message } => {
                if let Some(link) = self.links.get_mut(connection) {
                    link.heard = now;
                    if let ToScheduler::Register(register) = message {
                        link.run = Some(register.incarnation);
                        comes = link.run;
                        self.broken.remove(&register.incarnation);
                    }
                }
            }
            Input::Disconnected { connection } => self.disconnected(now, *connection),
            _ => {}
        }
        for effect in effects {
            match effect {
                // One that comes may say that it dropped what it had of somebody who takes part.
                Effect::Observe(Event::Lost(lost)) if comes != Some(lost.incarnation) => {
                    self.lost(now, lost.incarnation, config)?;
                }
                Effect::Observe(Event::HeldUp { .. }) => self.resumed.push((now, true)),
                Effect::Close { connection } => drop(self.links.remove(connection)),
                _ => {}
            }
        }
        Ok(())
    }

    fn disconnected(&mut self, now: Time, connection: ConnectionId) {
        let run = self.links.remove(&connection).and_then(|link| link.run);
        let Some(run) = run.filter(|run| !self.links.values().any(|it| it.run == Some(*run)))
        else {
            return;
        };
        self.broken.insert(run, now);
    }

    /// A process is given up. One of which nothing is known was never heard by this scheduler.
    fn lost(&self, now: Time, run: Incarnation, config: &Config) -> Seen {
        let heard = self.links.values().filter(|link| link.run == Some(run));
        let heard = heard.map(|link| link.heard).max();
        let (since, may) = match (heard, self.broken.get(&run)) {
            (Some(heard), _) => (heard, config.heartbeat_timeout),
            (None, Some(broken)) => (*broken, config.reconnect_grace),
            (None, None) => return Ok(()),
        };
        reached(Check::ExchangeLost);
        let half = Duration::from_nanos(config.heartbeat_timeout.as_nanos() / 2);
        // Where the scheduler found the time over much too late, it begins anew; and where it has said so.
        let least = self.resumed.iter().fold(since.after(may), |due, (at, is_told)| {
            let is_late = at.since(due) > HELD_UP.min(half);
            if *is_told || is_late { due.max(at.after(may)) } else { due }
        });
        match now < least {
            true => wrong(
                "rank",
                format!(
                    "{run:?} is lost {} ms after it was heard last; the scheduler went on at {:?} \
                     and has given it no time since",
                    now.since(since).as_millis(),
                    self.resumed
                ),
            ),
            false => Ok(()),
        }
    }
}
