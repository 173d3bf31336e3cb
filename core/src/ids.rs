//! One newtype per kind of id, made by one macro so that all look and print alike.

use alloc::sync::Arc;
use core::fmt;

/// Makes a type of ids from its documentation, its name and the number it is on the wire.
macro_rules! numeric_id {
    ($(#[$doc:meta])* $name:ident($repr:ty)) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name($repr);

        impl $name {
            /// Wraps the number as it stands on the wire.
            #[inline]
            pub const fn new(value: $repr) -> Self {
                Self(value)
            }

            /// The number as it stands on the wire.
            #[inline]
            pub const fn get(self) -> $repr {
                self.0
            }

            /// The id that follows this one, saturating at the end of the range.
            #[must_use]
            pub const fn next(self) -> Self {
                Self(self.0.saturating_add(1))
            }
        }

        impl core::fmt::Display for $name {
            fn fmt(&self, out: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                self.0.fmt(out)
            }
        }
    };
}

pub(crate) use numeric_id;

numeric_id!(
    /// A job: one dataset read in one way by one group of consumers.
    JobId(i64)
);
numeric_id!(
    /// An iteration: one repetition of a job.
    IterationId(i64)
);
numeric_id!(
    /// A client of an iteration (`iteration_client_id` on the wire).
    ClientId(i64)
);
numeric_id!(
    /// A task: one worker's share of one iteration.
    TaskId(i64)
);
numeric_id!(
    /// A registered worker. Never on the wire, where a worker's address names it.
    WorkerId(i64)
);
numeric_id!(
    /// A namespace: the coordination of one ML job. Never on the wire, where its name or its port
    /// stands for it.
    NamespaceId(u32)
);
numeric_id!(
    /// A coordination task: one process of the job, counted from 0 (`task_id` on the wire).
    TaskIndex(i32)
);
numeric_id!(
    /// One run of a coordination task's process, drawn by the process itself.
    Incarnation(u64)
);
numeric_id!(
    /// One life of a namespace, drawn when it begins; clients know it as the service's incarnation.
    ServiceIncarnation(u64)
);
numeric_id!(
    /// A namespace's count of changes to its keys.
    Revision(u64)
);
numeric_id!(
    /// A relay, by the number it drew for itself.
    RelayId(u64)
);
numeric_id!(
    /// A client's connection, by a number that no other has in this process.
    ConnectionId(u64)
);
numeric_id!(
    /// A call a driver waits to have answered; unique within one run of the driver.
    CallId(u64)
);
numeric_id!(
    /// A step: one run of a graph, whose tensors pass through one rendezvous.
    StepId(i64)
);
numeric_id!(
    /// A request of a worker for another one's tensor, drawn by who asks; 0 tells nothing.
    RequestId(i64)
);
numeric_id!(
    /// Log sequence number: a record's position in the journal. The first record has 1; 0 means
    /// "no record".
    Lsn(u64)
);

impl Lsn {
    /// Before the first record.
    pub const NONE: Self = Self(0);
    /// After every record.
    pub const MAX: Self = Self(u64::MAX);
}

/// A dataset's id: the client's own string, or the next number in decimal.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DatasetId(Arc<str>);

impl DatasetId {
    /// Wraps the id as it stands on the wire.
    pub fn new(value: impl Into<Arc<str>>) -> Self {
        Self(value.into())
    }

    /// The id as it stands on the wire.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for DatasetId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

/// A 256-bit content hash, computed by the driver (BLAKE3 in production).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest([u8; 32]);

impl Digest {
    /// Wraps the hash's bytes.
    pub const fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// The hash's bytes.
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(out, "{byte:02x}"))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Digest({self})")
    }
}
