//! Once faults have stopped, those that read together in rounds get on within a stated time, however
//! many they are and whatever workers are gone for ever.

use rondo_core::dispatcher::Config;
use rondo_core::time::{Duration, Time};

use super::{Oracle, Seen, SeenKind, Shadow, Verdict};
use crate::checks::{Check, reached};

/// So long they may take besides the votes on the tasks of workers that are gone.
const ROUNDS: Duration = Duration::from_secs(60);
/// Votes that may run out of time one after the other before all are of one mind.
const VOTES: u64 = 6;

pub(super) struct Progress {
    config: Config,
}

impl Progress {
    pub(super) const fn new(config: Config) -> Self {
        Self { config }
    }
}

impl Oracle for Progress {
    fn name(&self) -> &'static str {
        "progress"
    }

    fn watches(&self) -> &'static [SeenKind] {
        &[SeenKind::Configured, SeenKind::Healing]
    }

    fn see(&mut self, _: Time, seen: &Seen<'_>, _: &Shadow) -> Verdict {
        match seen {
            Seen::Configured(config) => self.config.clone_from(config),
            Seen::Healing { in_rounds, since } => {
                let votes = self.config.removal_timeout.as_nanos().saturating_mul(VOTES);
                let most = ROUNDS.as_nanos().saturating_add(votes);
                if !in_rounds.is_empty() {
                    reached(Check::Progress);
                }
                if let Some(stuck) = in_rounds.first().filter(|_| since.as_nanos() > most) {
                    return Err(format!(
                        "{} ms after faults have stopped {} has not got on: {}",
                        since.as_millis(),
                        stuck.who,
                        stuck.what
                    ));
                }
            }
            _ => {}
        }
        Ok(())
    }
}
