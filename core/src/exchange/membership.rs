//! Who takes part in an exchange.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;

use super::ids::{InstanceIndex, InstanceRank, MembershipVersion, ServerRank, WorkerRank};
use super::role::Role;
use crate::ids::Incarnation;

/// How many take part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// Groups of workers.
    pub workers: u32,
    /// Groups of servers.
    pub servers: u32,
    /// Processes of each group.
    pub group: u32,
}

impl Sizes {
    /// Processes of a role; of schedulers there is one.
    pub const fn instances(self, role: Role) -> u32 {
        match role {
            Role::Scheduler => 1,
            Role::Server => self.servers.saturating_mul(self.group),
            Role::Worker => self.workers.saturating_mul(self.group),
        }
    }

    /// Workers and servers together.
    pub const fn processes(self) -> u32 {
        self.instances(Role::Server).saturating_add(self.instances(Role::Worker))
    }

    /// The index of a process in its group.
    pub const fn index(self, rank: InstanceRank) -> InstanceIndex {
        let index = rank.get().checked_rem(self.group);
        InstanceIndex::new(match index {
            Some(index) => index,
            None => 0,
        })
    }

    /// The rank of a process' group among those of its role.
    pub const fn group_of(self, rank: InstanceRank) -> u32 {
        match rank.get().checked_div(self.group) {
            Some(group) => group,
            None => 0,
        }
    }

    /// The process of this index in this group of workers.
    pub const fn worker(self, group: WorkerRank, index: InstanceIndex) -> InstanceRank {
        InstanceRank::new(group.get().saturating_mul(self.group).saturating_add(index.get()))
    }

    /// The process of this index in this group of servers.
    pub const fn server(self, group: ServerRank, index: InstanceIndex) -> InstanceRank {
        InstanceRank::new(group.get().saturating_mul(self.group).saturating_add(index.get()))
    }
}

impl fmt::Display for Sizes {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { workers, servers, group } = self;
        write!(out, "{workers} workers and {servers} servers of {group} processes each")
    }
}

/// Whether a process takes part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum State {
    /// It does.
    Up = 1,
    /// It said that it is done.
    Left = 2,
    /// It was not heard of for too long, or somebody took its place.
    Lost = 3,
}

impl State {
    /// The number on the wire.
    pub const fn number(self) -> i32 {
        self as i32
    }

    /// The state with this number.
    pub const fn of_number(number: i32) -> Option<Self> {
        match number {
            1 => Some(Self::Up),
            2 => Some(Self::Left),
            3 => Some(Self::Lost),
            _ => None,
        }
    }
}

/// A process that takes part, or did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Its role: server or worker.
    pub role: Role,
    /// Its rank among those of its role.
    pub rank: InstanceRank,
    /// Its present run, or its last one.
    pub incarnation: Incarnation,
    /// Where it can be reached, the best way first, as transports write it. Workers need none.
    pub addresses: Vec<Arc<str>>,
    /// The host it runs on, by a name that no other has: who shares it may share memory.
    pub host: Arc<str>,
    /// Whether it takes part now.
    pub state: State,
}

/// Who takes part, as the scheduler sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Membership {
    /// A later one has a higher number.
    pub version: MembershipVersion,
    /// How many there are.
    pub sizes: Sizes,
    /// Every process that has registered, ordered by role and rank, one for each rank.
    pub members: Vec<Member>,
}

impl Membership {
    /// The process of this role and rank.
    pub fn member(&self, role: Role, rank: InstanceRank) -> Option<&Member> {
        let found =
            self.members.binary_search_by(|member| (member.role, member.rank).cmp(&(role, rank)));
        found.ok().and_then(|at| self.members.get(at))
    }

    /// Whether members stand in their order, each rank once and within the sizes.
    pub fn is_ordered(&self) -> bool {
        let key = |member: &Member| (member.role, member.rank);
        let fits = |member: &Member| {
            member.role != Role::Scheduler && member.rank.get() < self.sizes.instances(member.role)
        };
        self.members.iter().all(fits) && self.members.is_sorted_by(|a, b| key(a) < key(b))
    }
}
