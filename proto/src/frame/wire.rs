//! Values ↔ fields of `rondo.journal.v1` messages: what a journal holds, in either direction from
//! one table.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use bytes::Bytes;
use rondo_core::dispatcher::{Compression, Repetitions, ShardingPolicy, SplitPlan, TargetWorkers};
use rondo_core::ids::{
    ClientId, DatasetId, Digest, Incarnation, IterationId, JobId, Lsn, NamespaceId, RelayId,
    Revision, ServiceIncarnation, TaskId, TaskIndex, WorkerId,
};
use rondo_core::status::Code;
use rondo_core::time::{Duration, Time};

use super::error::{FrameError, required, wrong};
use crate::journal;

/// A value that a journal can hold.
pub(super) trait Wire: Sized {
    /// What stands for it in a message.
    type Message;

    fn write(&self) -> Self::Message;

    fn read(message: Self::Message) -> Result<Self, FrameError>;
}

/// Maps a struct to a message: fields of the same names, then required submessages of the same
/// names, then fields that the message leaves out because they are derived.
macro_rules! message {
    ($value:ident { $($fields:tt)* }) => {
        message!(dispatcher::$value => crate::journal::$value { $($fields)* });
    };
    (
        $machine:ident :: $value:ident => $message:ty {
            $($plain:ident),* ; $($nested:ident),* ; $($derived:ident),*
        }
    ) => {
        impl Wire for rondo_core::$machine::$value {
            type Message = $message;

            fn write(&self) -> Self::Message {
                Self::Message {
                    $($plain: self.$plain.write(),)*
                    $($nested: Some(self.$nested.write()),)*
                }
            }

            fn read(message: Self::Message) -> Result<Self, FrameError> {
                Ok(Self {
                    $($plain: Wire::read(message.$plain)?,)*
                    $($nested: {
                        let field = concat!(stringify!($value), ".", stringify!($nested));
                        Wire::read(required(field, message.$nested)?)?
                    },)*
                    $($derived: Default::default(),)*
                })
            }
        }
    };
}
pub(super) use message;

message!(Definition { digest, size_bytes, inline; ; });
message!(SplitSource { start, stop, step; ; });
message!(WorkerProfile { uid, tags, transfer_servers; ; });
message!(TransferServer {
    protocol,
    address,
    compatibility_info,
    fall_back_to_grpc_at_client_creation_time,
    fall_back_to_grpc_at_get_element_time;
    ;
});
message!(DatasetMetadata { encoded, structure, compression, cardinality; ; });

macro_rules! as_is {
    ($($value:ty),*) => {
        $(impl Wire for $value {
            type Message = Self;

            fn write(&self) -> Self {
                self.clone()
            }

            fn read(message: Self) -> Result<Self, FrameError> {
                Ok(message)
            }
        })*
    };
}

as_is!(bool, i32, u32, i64, u64, String, Bytes);

macro_rules! newtypes {
    ($($value:ident: $message:ty, $write:ident, $read:ident;)*) => {
        $(impl Wire for $value {
            type Message = $message;

            fn write(&self) -> $message {
                self.$write().into()
            }

            fn read(message: $message) -> Result<Self, FrameError> {
                Ok(Self::$read(message))
            }
        })*
    };
}

newtypes! {
    ClientId: i64, get, new;
    IterationId: i64, get, new;
    JobId: i64, get, new;
    TaskId: i64, get, new;
    WorkerId: i64, get, new;
    Lsn: u64, get, new;
    Time: u64, as_nanos, from_nanos;
    DatasetId: String, as_str, new;
    NamespaceId: u32, get, new;
    TaskIndex: i32, get, new;
    Incarnation: u64, get, new;
    ServiceIncarnation: u64, get, new;
    Revision: u64, get, new;
    RelayId: u64, get, new;
    Duration: u64, as_nanos, from_nanos;
}

impl Wire for Arc<str> {
    type Message = String;

    fn write(&self) -> String {
        self.as_ref().to_owned()
    }

    fn read(message: String) -> Result<Self, FrameError> {
        Ok(message.into())
    }
}

macro_rules! collections {
    ($($value:ident $(: $bound:ident)?),*) => {
        $(impl<T: Wire $(+ $bound)?> Wire for $value<T> {
            type Message = Vec<T::Message>;

            fn write(&self) -> Self::Message {
                self.iter().map(T::write).collect()
            }

            fn read(message: Self::Message) -> Result<Self, FrameError> {
                message.into_iter().map(T::read).collect()
            }
        })*
    };
}

type Shared<T> = Arc<[T]>;
collections!(Vec, VecDeque, BTreeSet: Ord, Shared);

impl<T: Wire> Wire for Option<T> {
    type Message = Option<T::Message>;

    fn write(&self) -> Self::Message {
        self.as_ref().map(T::write)
    }

    fn read(message: Self::Message) -> Result<Self, FrameError> {
        message.map(T::read).transpose()
    }
}

impl Wire for Digest {
    type Message = Bytes;

    fn write(&self) -> Bytes {
        Bytes::copy_from_slice(self.as_bytes())
    }

    fn read(message: Bytes) -> Result<Self, FrameError> {
        <[u8; 32]>::try_from(message.as_ref()).map(Self::new).map_err(|_| {
            let found = format_args!("{} bytes long", message.len()).to_string();
            wrong("Digest", found, "it has 32 bytes")
        })
    }
}

/// Maps an enum to numbers.
macro_rules! enumeration {
    ($value:ident { $($number:literal => $variant:ident),* $(,)? }) => {
        impl Wire for $value {
            type Message = i32;

            fn write(&self) -> i32 {
                match self {
                    $(Self::$variant => $number,)*
                }
            }

            fn read(message: i32) -> Result<Self, FrameError> {
                match message {
                    $($number => Ok(Self::$variant),)*
                    other => {
                        let reason = "no release writes that number";
                        Err(crate::frame::error::wrong(stringify!($value), other, reason))
                    }
                }
            }
        }
    };
}

pub(super) use enumeration;

enumeration!(ShardingPolicy {
    0 => Off,
    1 => Dynamic,
    2 => File,
    3 => Data,
    4 => FileOrData,
    5 => Hint,
});
enumeration!(TargetWorkers { 0 => Unspecified, 1 => Auto, 2 => Any, 3 => Local });
enumeration!(Compression { 0 => Unspecified, 1 => Off, 2 => Snappy, 3 => ForcedSnappy });
enumeration!(Code {
    1 => Cancelled,
    2 => Unknown,
    3 => InvalidArgument,
    4 => DeadlineExceeded,
    5 => NotFound,
    6 => AlreadyExists,
    7 => PermissionDenied,
    8 => ResourceExhausted,
    9 => FailedPrecondition,
    10 => Aborted,
    11 => OutOfRange,
    12 => Unimplemented,
    13 => Internal,
    14 => Unavailable,
    15 => DataLoss,
    16 => Unauthenticated,
});

impl Wire for Repetitions {
    type Message = Vec<journal::RepetitionRange>;

    fn write(&self) -> Self::Message {
        self.ranges().iter().map(Wire::write).collect()
    }

    fn read(message: Self::Message) -> Result<Self, FrameError> {
        Ok(Self::of(Wire::read(message)?))
    }
}

impl Wire for SplitPlan {
    type Message = journal::SplitPlan;

    fn write(&self) -> journal::SplitPlan {
        use journal::split_plan::Plan;
        let plan = match self {
            Self::Splittable(sources) => {
                let sources = sources.write();
                Plan::Splittable(journal::SplitSources { sources })
            }
            Self::Unsplittable { code, message } => {
                let (code, message) = (code.write(), message.clone());
                Plan::Unsplittable(journal::Unsplittable { code, message })
            }
        };
        journal::SplitPlan { plan: Some(plan) }
    }

    fn read(message: journal::SplitPlan) -> Result<Self, FrameError> {
        use journal::split_plan::Plan;
        Ok(match required("SplitPlan.plan", message.plan)? {
            Plan::Splittable(list) => Self::Splittable(Wire::read(list.sources)?),
            Plan::Unsplittable(refusal) => {
                let code = Wire::read(refusal.code)?;
                Self::Unsplittable { code, message: refusal.message }
            }
        })
    }
}
