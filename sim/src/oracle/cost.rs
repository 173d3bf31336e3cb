//! The work of a step stays within a multiple of what it takes, says and records, and of the entities of
//! the state: a walk over all of them for each of them, or for each item of a request, is too much. Seen
//! only in a build that counts work (`sim/cost`).

use rondo_core::time::Time;

use super::size::entities;
use super::{Oracle, Seen, SeenKind, Shadow, Verdict};
use crate::checks::{Check, reached};
use crate::cost::compare;

/// Blocks that any step may run.
const BARE: u64 = 5_000;
/// Blocks more for each character of the descriptions of what the step took and of its effects.
const PER_CHARACTER: u64 = 8;
/// Blocks more for each entity of the state.
const PER_ENTITY: u64 = 300;

#[derive(Default)]
pub(super) struct Cost;

impl Oracle for Cost {
    fn name(&self) -> &'static str {
        "cost"
    }

    fn watches(&self) -> &'static [SeenKind] {
        &[SeenKind::Worked]
    }

    fn see(&mut self, _: Time, seen: &Seen<'_>, _: &Shadow) -> Verdict {
        let Seen::Worked { blocks, characters, node } = seen else {
            return Ok(());
        };
        let entities = entities(node);
        let most = BARE
            .saturating_add(characters.saturating_mul(PER_CHARACTER))
            .saturating_add(entities.saturating_mul(PER_ENTITY));
        reached(Check::Cost);
        compare(*blocks, most);
        match *blocks <= most {
            true => Ok(()),
            false => Err(format!(
                "a step has run {blocks} blocks; {characters} characters taken and said and \
                 {entities} entities allow for {most}"
            )),
        }
    }
}
