//! Numbers of the exchange, each of its own type.

use super::role::Role;
use crate::ids::numeric_id;

numeric_id!(
    /// A process of the exchange as StepMesh numbers it: 1 is the scheduler, 8 + 2r the server of
    /// instance rank r, 9 + 2r the worker of instance rank r.
    NodeId(u32)
);
numeric_id!(
    /// A process among those of its role: group size times the rank of its group, plus its index there.
    InstanceRank(u32)
);
numeric_id!(
    /// A group of workers, which servers see as one sender: the rank of its node.
    WorkerRank(u32)
);
numeric_id!(
    /// A group of servers: the rank of its node. Pull tensors are in this order.
    ServerRank(u32)
);
numeric_id!(
    /// A process within its group. Workers of an index talk to servers of the same one only.
    InstanceIndex(u32)
);
numeric_id!(
    /// One push or pull position of a worker's request, counted from 0 within the process; the first
    /// one of a request stands for all of it.
    Handler(u64)
);
numeric_id!(
    /// A unit on a server: all that one worker sent it in one request. Counted from 0 within the process.
    UnitHandler(u64)
);
numeric_id!(
    /// A request of one incarnation of a worker to one incarnation of a server, counted from 1.
    RequestNumber(u64)
);
numeric_id!(
    /// How often the scheduler has changed who takes part; 0 knows nobody.
    MembershipVersion(u64)
);
numeric_id!(
    /// A barrier that a process asks for, counted from 1 within its incarnation, whatever the mask.
    BarrierNumber(u64)
);
numeric_id!(
    /// A question for traces: tells those of one connection apart.
    TraceNumber(u64)
);
numeric_id!(
    /// The key of a tensor: any number, which is only compared.
    Key(u64)
);

impl NodeId {
    /// The scheduler.
    pub const SCHEDULER: Self = Self::new(1);

    /// The process of this role and rank; `None` where the number does not fit. Of schedulers there is
    /// one, whatever the rank.
    pub const fn of(role: Role, rank: InstanceRank) -> Option<Self> {
        let first = match role {
            Role::Scheduler => return Some(Self::SCHEDULER),
            Role::Server => 8,
            Role::Worker => 9,
        };
        let Some(doubled) = rank.get().checked_mul(2) else {
            return None;
        };
        match doubled.checked_add(first) {
            Some(number) => Some(Self::new(number)),
            None => None,
        }
    }

    /// Its role; `None` for numbers that nobody has.
    pub const fn role(self) -> Option<Role> {
        match self.get() {
            1 => Some(Role::Scheduler),
            0..8 => None,
            number if number % 2 == 0 => Some(Role::Server),
            _ => Some(Role::Worker),
        }
    }

    /// Its rank among those of its role.
    pub const fn rank(self) -> InstanceRank {
        InstanceRank::new(self.get().saturating_sub(8) / 2)
    }
}
