//! After faults heal, the healed core gets on, whatever stays broken: every call is answered, every
//! reader reads, every worker is heard.

use rondo_core::time::Time;

use super::{Oracle, Seen, SeenKind, Shadow, Verdict};
use crate::checks::{Check, reached};

pub(super) struct Liveness;

impl Oracle for Liveness {
    fn name(&self) -> &'static str {
        "liveness"
    }

    fn watches(&self) -> &'static [SeenKind] {
        &[SeenKind::HealedLongAgo]
    }

    fn see(&mut self, _: Time, seen: &Seen<'_>, _: &Shadow) -> Verdict {
        let Seen::HealedLongAgo { waiting } = seen else {
            return Ok(());
        };
        reached(Check::Liveness);
        let stuck = waiting.iter().map(|waiting| format!("{}: {}", waiting.who, waiting.what));
        match stuck.collect::<Vec<_>>() {
            stuck if stuck.is_empty() => Ok(()),
            stuck => Err(format!("long after everything healed: {}", stuck.join("; "))),
        }
    }
}
