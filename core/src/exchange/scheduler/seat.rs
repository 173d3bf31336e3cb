//! The place of one process among all, and who has it.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::exchange::ids::{BarrierNumber, InstanceRank};
use crate::exchange::membership::{Member, Membership, Sizes, State};
use crate::exchange::message::{Barrier, Failure, Passed, Register, Scope};
use crate::exchange::refusal::PeerLost;
use crate::exchange::role::{Mask, Role};
use crate::ids::{ConnectionId, Incarnation};
use crate::time::Time;

/// A process among all.
pub(super) type Peer = (Role, InstanceRank);
/// Runs that do not take part any more, and what they were.
pub(super) type Gone = Arc<[(Peer, Incarnation)]>;
/// A kind of barrier.
pub(super) type Kind = (Mask, Scope);

/// Whether there is a way to a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Contact {
    /// There is.
    Connected(ConnectionId),
    /// Not now; the process is given up then.
    Broken { until: Time },
    /// It is lost, or has left.
    Over,
}

/// So many runs that had a rank are remembered.
pub(super) const FORMER_MAX: usize = 16;

/// What a process has asked for last of a kind of barrier.
#[derive(Clone, Debug)]
pub(super) struct Asked {
    pub(super) number: BarrierNumber,
    /// What it is told; `None` while it waits.
    pub(super) result: Option<Result<u64, Failure>>,
}

/// A process that takes part, or did.
#[derive(Clone, Debug)]
pub(super) struct Seat {
    pub(super) incarnation: Incarnation,
    /// Runs that had the seat before this one, the latest last: they do not come back.
    pub(super) former: VecDeque<Incarnation>,
    pub(super) addresses: Vec<Arc<str>>,
    pub(super) host: Arc<str>,
    pub(super) state: State,
    pub(super) contact: Contact,
    /// Whether any rank would do for it, and it has not been told this one.
    pub(super) is_movable: bool,
    /// Whether it was told its rank through its present connection.
    pub(super) is_assigned: bool,
    /// How it was noticed that it is lost.
    pub(super) why: Arc<str>,
    pub(super) asked: BTreeMap<Kind, Asked>,
    /// Barriers that were passed as far as it knows, until the scheduler knows itself.
    pub(super) passed: BTreeMap<Kind, u64>,
    /// Of whom it was told that they are gone, until the scheduler knows itself.
    pub(super) gone: Gone,
}

impl Seat {
    /// A process that has just registered.
    pub(super) fn of(register: &Register, connection: ConnectionId) -> Self {
        let passed = register.passed.iter().map(|it| ((it.mask, it.scope), it.count)).collect();
        Self {
            incarnation: register.incarnation,
            former: VecDeque::new(),
            addresses: register.addresses.clone(),
            host: register.host.clone(),
            state: State::Up,
            contact: Contact::Connected(connection),
            is_movable: register.rank.is_none(),
            is_assigned: false,
            why: Arc::default(),
            asked: BTreeMap::new(),
            passed,
            gone: Gone::default(),
        }
    }

    /// A process that others say there is, or was.
    pub(super) fn reported(member: &Member) -> Self {
        Self {
            incarnation: member.incarnation,
            former: VecDeque::new(),
            addresses: member.addresses.clone(),
            host: member.host.clone(),
            state: member.state,
            contact: Contact::Over,
            is_movable: false,
            is_assigned: false,
            why: "the scheduler was told so when it was restarted".into(),
            asked: BTreeMap::new(),
            passed: BTreeMap::new(),
            gone: Gone::default(),
        }
    }

    /// Whether a run that wants the seat has taken part, and was given up: others took its seat, or never
    /// heard that it was there.
    pub(super) fn is_without(&self, register: &Register) -> bool {
        // Who never heard that it takes part does not know that it did.
        let took_part = register.known.is_some() || self.former.contains(&register.incarnation);
        took_part && register.incarnation != self.incarnation
    }

    /// Whether this run has the seat, or had it.
    pub(super) fn is_known_to(&self, run: Incarnation) -> bool {
        self.incarnation == run || self.former.contains(&run)
    }

    /// Those who do not come back when another run takes the seat.
    pub(super) fn with_former(&self) -> VecDeque<Incarnation> {
        let skip = self.former.len().saturating_add(1).saturating_sub(FORMER_MAX);
        self.former.iter().skip(skip).copied().chain([self.incarnation]).collect()
    }

    /// Its present connection.
    pub(super) const fn connection(&self) -> Option<ConnectionId> {
        match self.contact {
            Contact::Connected(connection) => Some(connection),
            Contact::Broken { .. } | Contact::Over => None,
        }
    }

    /// Where it is; empty for who has no address.
    pub(super) fn address(&self) -> Arc<str> {
        self.addresses.first().cloned().unwrap_or_default()
    }

    /// As everybody is told of it.
    pub(super) fn member(&self, (role, rank): Peer) -> Member {
        Member {
            role,
            rank,
            incarnation: self.incarnation,
            addresses: self.addresses.clone(),
            host: self.host.clone(),
            state: self.state,
        }
    }

    /// As those are told who need it, when it is lost.
    pub(super) fn lost(&self, (role, rank): Peer) -> PeerLost {
        let (address, why) = (self.address(), self.why.clone());
        PeerLost { role, rank, incarnation: self.incarnation, address, why }
    }

    /// As it would register again, knowing this membership.
    pub(super) fn register(
        &self,
        (role, rank): Peer,
        sizes: Sizes,
        known: Option<Arc<Membership>>,
    ) -> Register {
        let passed = self.passed.iter().map(|((mask, scope), count)| Passed {
            mask: *mask,
            scope: *scope,
            count: *count,
        });
        let waiting = self.asked.iter().filter(|(_, asked)| asked.result.is_none());
        let waiting = waiting.map(|((mask, scope), asked)| Barrier {
            number: asked.number,
            mask: *mask,
            scope: *scope,
        });
        Register {
            role,
            rank: (!self.is_movable).then_some(rank),
            incarnation: self.incarnation,
            addresses: self.addresses.clone(),
            host: self.host.clone(),
            sizes,
            known,
            passed: passed.collect(),
            waiting: waiting.collect(),
        }
    }
}
