//! What a process is, and groups of such processes.

use core::fmt;

/// What a process of the exchange is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    /// It knows who takes part, and keeps barriers. There is one.
    Scheduler = 1,
    /// It collects a unit of each worker and answers them.
    Server = 2,
    /// It pushes tensors to all servers, and pulls others from them.
    Worker = 4,
}

impl Role {
    /// Its number on the wire: the mask of those who have it.
    pub const fn number(self) -> u32 {
        self as u32
    }

    /// The role with this number.
    pub const fn of_number(number: u32) -> Option<Self> {
        match number {
            1 => Some(Self::Scheduler),
            2 => Some(Self::Server),
            4 => Some(Self::Worker),
            _ => None,
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Scheduler => "scheduler",
            Self::Server => "server",
            Self::Worker => "worker",
        })
    }
}

/// Some of the roles: the sum of their numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Mask(u32);

impl Mask {
    /// The scheduler.
    pub const SCHEDULER: Self = Self(1);
    /// All servers.
    pub const SERVERS: Self = Self(2);
    /// All workers.
    pub const WORKERS: Self = Self(4);
    /// Everybody.
    pub const ALL: Self = Self(7);

    /// The mask with this number, which is 1 to 7.
    pub const fn of_number(number: u32) -> Option<Self> {
        match number {
            1..=7 => Some(Self(number)),
            _ => None,
        }
    }

    /// The number on the wire.
    pub const fn number(self) -> u32 {
        self.0
    }

    /// Those of either.
    #[must_use]
    pub const fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether those of this role are among them.
    pub const fn contains(self, role: Role) -> bool {
        self.0 & role.number() != 0
    }
}

impl fmt::Display for Mask {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "";
        for role in [Role::Scheduler, Role::Server, Role::Worker] {
            if self.contains(role) {
                write!(out, "{separator}{role}s")?;
                separator = "+";
            }
        }
        Ok(())
    }
}
