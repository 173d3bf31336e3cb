//! What a node keeps beside its durable state is bounded by what lives: the length of its description
//! stays within a multiple of the entities in the state and the calls under way.

use rondo_core::control::Node;
use rondo_core::time::Time;

use super::{Oracle, Seen, SeenKind, Shadow, Verdict};
use crate::call_map::CallMap;
use crate::checks::{Check, reached};
use crate::cost::length;
use crate::turns::Turns;

/// Looks at the node between two that count.
const LOOKS: u64 = 60;
/// The length of a description of nothing, in characters.
const BARE: u64 = 6_000;
/// The characters that an entity may add to it. A task takes most: the list that clients get names it with
/// its worker and its servers.
const PER_ENTITY: u64 = 1_000;
/// The characters that a call under way may add to it.
const PER_CALL: u64 = 400;

#[derive(Default)]
pub(super) struct Size {
    turns: Turns<LOOKS>,
    open: CallMap<()>,
}

/// How many things there are that may have something kept for them.
pub(super) fn entities(node: &Node) -> u64 {
    let (state, other) = (node.dispatcher().state(), node.coordination().state());
    let dispatcher = [
        state.workers().len(),
        state.tasks().len(),
        state.clients().len(),
        state.iterations().len(),
        state.jobs().len(),
        state.datasets().len(),
    ];
    let namespaces = other.namespaces().values();
    let coordination = namespaces.map(|namespace| {
        let head = namespace.head();
        let size = head.size.map_or(0, |size| size as usize);
        1 + size + namespace.tasks().len() + namespace.barriers().len() + head.former.len()
    });
    dispatcher.into_iter().chain(coordination).map(|count| count as u64).sum()
}

impl Size {
    fn check(&self, node: &Node) -> Verdict {
        let (dispatcher, coordination) = (node.dispatcher(), node.coordination());
        let all = length(dispatcher).saturating_add(length(coordination));
        let durable = length(dispatcher.state()).saturating_add(length(coordination.state()));
        let (kept, entities) = (all.saturating_sub(durable), entities(node));
        let calls = self.open.len() as u64;
        let most = BARE
            .saturating_add(entities.saturating_mul(PER_ENTITY))
            .saturating_add(calls.saturating_mul(PER_CALL));
        reached(Check::Size);
        match kept <= most {
            true => Ok(()),
            false => Err(format!(
                "{kept} characters are kept beside the state; {entities} entities and {calls} calls \
                 allow for {most}"
            )),
        }
    }
}

impl Oracle for Size {
    fn name(&self) -> &'static str {
        "size"
    }

    fn watches(&self) -> &'static [SeenKind] {
        &[
            SeenKind::Taken,
            SeenKind::Answered,
            SeenKind::Asked,
            SeenKind::Told,
            SeenKind::GivenUp,
            SeenKind::Died,
            SeenKind::Looked,
            SeenKind::GoneLongAgo,
        ]
    }

    fn see(&mut self, _: Time, seen: &Seen<'_>, _: &Shadow) -> Verdict {
        match seen {
            Seen::Taken { call, .. } | Seen::Asked { call, .. } => {
                self.open.insert(*call, ());
            }
            Seen::Answered { call, .. } | Seen::Told { call, .. } | Seen::GivenUp { call } => {
                self.open.remove(call);
            }
            Seen::Died => self.open.clear(),
            Seen::Looked(node) if self.turns.is_due() => return self.check(node),
            Seen::GoneLongAgo(node) => return self.check(node),
            _ => {}
        }
        Ok(())
    }
}
