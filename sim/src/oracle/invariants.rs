//! The numbered invariants, by the core's own functions.

use rondo_core::invariant;
use rondo_core::time::Time;

use super::{Oracle, Relayed, Seen, SeenKind, Shadow, Verdict};
use crate::checks::{Check, reached};

pub(super) struct Invariants;

impl Oracle for Invariants {
    fn name(&self) -> &'static str {
        "invariant"
    }

    fn watches(&self) -> &'static [SeenKind] {
        &[SeenKind::Relay, SeenKind::Recovered, SeenKind::Looked, SeenKind::Violated]
    }

    fn see(&mut self, _: Time, seen: &Seen<'_>, _: &Shadow) -> Verdict {
        match seen {
            Seen::Looked(node) => {
                reached(Check::InvariantNode);
                invariant::check_all(node).map_err(|violation| violation.to_string())
            }
            Seen::Recovered { state, .. } => {
                reached(Check::InvariantRecovered);
                invariant::check_state(&state.dispatcher)
                    .map_err(|violation| violation.to_string())?;
                let violated = invariant::check_coordination_state(&state.coordination);
                violated.map_err(|violation| violation.to_string())
            }
            Seen::Relay { what: Relayed::Looked(relay), .. } => {
                reached(Check::InvariantRelay);
                invariant::check_relay(relay).map_err(|violation| violation.to_string())
            }
            Seen::Violated(text) => Err((*text).to_owned()),
            _ => Ok(()),
        }
    }
}
