//! What must be true of all that is said, whatever happens.

use std::collections::BTreeMap;
use std::sync::Arc;

use rondo_core::exchange::membership::{Member, Membership, State};
use rondo_core::exchange::message::{Scope, ToMember};
use rondo_core::exchange::{BarrierNumber, MembershipVersion};
use rondo_core::ids::Incarnation;

use crate::network::Line;
use crate::process::{Kind, Process};

#[derive(Default)]
pub(crate) struct Oracle {
    /// How often the scheduler was started again.
    life: u32,
    /// Memberships by the life of the scheduler and by version.
    said: BTreeMap<(u32, MembershipVersion), Arc<Membership>>,
    /// Which kind of barrier a run meant by a number.
    pub(crate) numbers: BTreeMap<(Incarnation, BarrierNumber), Kind>,
}

impl Oracle {
    pub(crate) fn scheduler_dies(&mut self) {
        self.life += 1;
    }

    /// The scheduler says something.
    pub(crate) fn is_told(&mut self, processes: &[Process], line: &Line, message: &ToMember) {
        let (ToMember::Membership(membership) | ToMember::Assigned { membership, .. }) = message
        else {
            return;
        };
        let before = self.said.entry((self.life, membership.version)).or_insert(membership.clone());
        assert_eq!(before, membership, "two memberships of one version");
        assert!(membership.is_ordered());
        assert_eq!(membership.members.len(), processes.len());
        let role = processes[line.process].role;
        let is_it =
            |member: &&Member| (member.role, member.incarnation) == (role, line.incarnation);
        let itself = membership.members.iter().find(is_it);
        assert_eq!(itself.map(|member| member.state), Some(State::Up), "who is told takes part");
    }

    /// A process takes on another membership, in which nobody is back who was gone.
    pub(crate) fn learns(process: &mut Process, membership: &Membership) {
        assert!(
            membership.version > process.version,
            "version {} after {}",
            membership.version,
            process.version
        );
        process.version = membership.version;
        for member in &membership.members {
            let run = (member.role, member.rank, member.incarnation);
            if member.state == State::Up {
                assert!(!process.gone.contains(&run), "{run:?} is back");
                let before = process.present.insert((member.role, member.rank), run);
                process.gone.extend(before.filter(|before| *before != run));
            } else {
                process.gone.insert(run);
            }
        }
    }

    /// A process hears something: of barriers, that they are passed one after the other, none without it.
    pub(crate) fn hears(&mut self, process: &mut Process, line: &Line, message: &ToMember) {
        let ToMember::BarrierDone { number, result: Ok(passed) } = message else {
            return;
        };
        if process.incarnation != line.incarnation {
            return;
        }
        let Some(kind) = self.numbers.get(&(line.incarnation, *number)).copied() else {
            return;
        };
        let gave_up = process.gave_up.insert(kind, false).unwrap_or_default();
        if let Some(before) = process.passed.insert(kind, *passed) {
            let is_next = match kind.1 {
                Scope::Instance if !gave_up => *passed == before + 1 || *passed == before,
                // Others of its group may have come in its place.
                Scope::Instance | Scope::Group => *passed >= before,
            };
            assert!(is_next, "barrier {passed} of {kind:?} follows {before}");
        }
    }
}
