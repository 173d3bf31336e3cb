//! Parts of a snapshot of the coordination service ↔ `rondo.journal.v1.coordination`.

use std::collections::BTreeMap;

use rondo_core::coordination::{Arrival, Change, ChangeKind, Kept, Outcome, Part, Phase, Relay};
use rondo_core::ids::{Incarnation, TaskIndex};

use super::error::{FrameError, required};
use super::wire::{Wire, enumeration, message};
use crate::journal::coordination as journal;
use journal::part::Kind;

message!(coordination::Head => journal::Head {
    id, name, life, incarnation, begun, size, version, polled, sticky, revision, forgotten, former,
    changed, keys_changed;
    ;
});
message!(coordination::Task => journal::Task {
    index, incarnation, recoverable, dialect, phase, fault, since, devices, changed;
    ;
});
message!(coordination::Barrier => journal::Barrier {
    counter, participants, opened, timeout, initiator, arrived, outcome, changed;
    key;
});
message!(coordination::Entry => journal::Key { key, revision, lease, changed; value; });

enumeration!(Phase { 0 => Registering, 1 => Connected, 2 => Disconnected, 3 => Error });

macro_rules! parts {
    ($($kind:ident($message:ident { $field:ident })),*) => {
        pub(super) fn encode(part: &Part) -> Kind {
            match part {
                Part::Namespace(head) => Kind::Namespace(head.write()),
                $(Part::$kind(namespace, value) => Kind::$kind(journal::$message {
                    namespace: namespace.write(),
                    $field: Some(value.write()),
                }),)*
                Part::Relay(namespace, relay, value) => Kind::Relay(journal::RelayOf {
                    namespace: namespace.write(),
                    relay: relay.write(),
                    acknowledged: value.acknowledged,
                    results: value.results.write(),
                }),
            }
        }

        pub(super) fn decode(kind: Kind) -> Result<Part, FrameError> {
            Ok(match kind {
                Kind::Namespace(message) => Part::Namespace(Wire::read(message)?),
                $(Kind::$kind(message) => {
                    let field = concat!(stringify!($message), ".", stringify!($field));
                    let value = Wire::read(required(field, message.$field)?)?;
                    Part::$kind(Wire::read(message.namespace)?, value)
                })*
                Kind::Relay(message) => {
                    let results = Wire::read(message.results)?;
                    let (acknowledged, alive) = (message.acknowledged, BTreeMap::new());
                    let relay = Relay { acknowledged, results, alive };
                    Part::Relay(Wire::read(message.namespace)?, Wire::read(message.relay)?, relay)
                }
            })
        }
    };
}

parts!(
    Task(TaskOf { task }),
    Barrier(BarrierOf { barrier }),
    Key(KeyOf { entry }),
    Change(ChangeOf { change }),
    Alive(AliveOf { answer })
);

/// Maps a map to a list of messages, each with its key.
macro_rules! map {
    ($map:ty, $message:ident, $write:expr, $read:expr) => {
        impl Wire for $map {
            type Message = Vec<journal::$message>;

            fn write(&self) -> Self::Message {
                self.iter().map($write).collect()
            }

            fn read(message: Self::Message) -> Result<Self, FrameError> {
                message.into_iter().map($read).collect()
            }
        }
    };
}

type Former = BTreeMap<TaskIndex, Incarnation>;
map!(
    Former,
    FormerTask,
    |(task, incarnation)| journal::FormerTask {
        task: task.write(),
        incarnation: incarnation.write(),
    },
    |former| Ok((Wire::read(former.task)?, Wire::read(former.incarnation)?))
);

type Arrivals = BTreeMap<TaskIndex, Arrival>;
map!(
    Arrivals,
    Arrival,
    |(task, arrival)| journal::Arrival {
        task: task.write(),
        at: arrival.at.write(),
        stamp: arrival.stamp.write(),
    },
    |message| {
        let arrival = Arrival { at: Wire::read(message.at)?, stamp: Wire::read(message.stamp)? };
        Ok((Wire::read(message.task)?, arrival))
    }
);

type Results = BTreeMap<u64, Kept>;
map!(
    Results,
    Result,
    |(sequence, kept)| journal::Result { sequence: *sequence, kept: Some(kept.write()) },
    |result| Ok((result.sequence, Wire::read(required("Result.kept", result.kept)?)?))
);

impl Wire for Outcome {
    type Message = journal::Outcome;

    fn write(&self) -> Self::Message {
        let fault = match self {
            Self::Passed => None,
            Self::Failed(fault) => Some(fault.write()),
        };
        Self::Message { fault }
    }

    fn read(message: Self::Message) -> Result<Self, FrameError> {
        Ok(match message.fault {
            None => Self::Passed,
            Some(fault) => Self::Failed(Wire::read(fault)?),
        })
    }
}

impl Wire for Change {
    type Message = journal::Change;

    fn write(&self) -> Self::Message {
        use journal::change::Kind;
        let kind = match &self.kind {
            ChangeKind::Put(value) => Kind::Put(value.write()),
            ChangeKind::Deleted => Kind::Deleted(false),
            ChangeKind::DeletedWithAllUnder => Kind::Deleted(true),
        };
        Self::Message { key: self.key.write(), kind: Some(kind), revision: self.revision.write() }
    }

    fn read(message: Self::Message) -> Result<Self, FrameError> {
        use journal::change::Kind;
        let kind = match required("Change.kind", message.kind)? {
            Kind::Put(value) => ChangeKind::Put(Wire::read(value)?),
            Kind::Deleted(false) => ChangeKind::Deleted,
            Kind::Deleted(true) => ChangeKind::DeletedWithAllUnder,
        };
        Ok(Self { key: message.key.into(), kind, revision: Wire::read(message.revision)? })
    }
}
