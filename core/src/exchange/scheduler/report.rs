//! A picture of a scheduler, for people.

use alloc::vec::Vec;

use super::machine::Scheduler;
use super::seat::Contact;
use crate::exchange::ids::{InstanceRank, MembershipVersion};
use crate::exchange::membership::{Member, Sizes, State};
use crate::exchange::message::Scope;
use crate::exchange::role::{Mask, Role};

/// How far an exchange is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Not all have registered.
    Gathering,
    /// The scheduler was restarted, and not all are back.
    Rebuilding,
    /// It is under way.
    Running,
}

/// A picture of a scheduler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// How far the exchange is.
    pub phase: Phase,
    /// The latest membership.
    pub version: MembershipVersion,
    /// How many take part; `None` if nobody has said it.
    pub sizes: Option<Sizes>,
    /// Who has registered, and whether there is a connection to it now.
    pub members: Vec<(Member, bool)>,
    /// Who has not registered yet, or takes part no more.
    pub missing: Vec<(Role, InstanceRank)>,
    /// Processes that wait for the place of another one.
    pub parked: usize,
    /// Connections.
    pub connections: usize,
    /// Barriers at which somebody waits, and who.
    pub barriers: Vec<WaitingAt>,
}

/// A barrier at which somebody waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WaitingAt {
    /// Who meets.
    pub mask: Mask,
    /// Who counts.
    pub scope: Scope,
    /// How many such barriers have been passed.
    pub passed: u64,
    /// Who waits.
    pub waiting: Vec<(Role, InstanceRank)>,
}

impl Scheduler {
    /// How it stands.
    pub fn report(&self) -> Report {
        let members = self.seats.iter().map(|(peer, seat)| {
            (seat.member(*peer), matches!(seat.contact, Contact::Connected(_)))
        });
        Report {
            phase: self.phase,
            version: self.version,
            sizes: self.sizes,
            members: members.collect(),
            missing: self.missing().collect(),
            parked: self.parked.len(),
            connections: self.links.len(),
            barriers: self.meetings.report(),
        }
    }

    /// Who is not there of those that there should be.
    pub(super) fn missing(&self) -> impl Iterator<Item = (Role, InstanceRank)> {
        let ranks = |role: Role| {
            let count = self.sizes.map_or(0, |sizes| sizes.instances(role));
            (0..count).map(move |rank| (role, InstanceRank::new(rank)))
        };
        ranks(Role::Server).chain(ranks(Role::Worker)).filter(|peer| {
            self.seats.get(peer).is_none_or(|seat| {
                seat.state != State::Up || !matches!(seat.contact, Contact::Connected(_))
            })
        })
    }
}
