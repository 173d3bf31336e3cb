//! The coordination service's records ↔ `rondo.journal.v1.coordination`.

use std::sync::Arc;

use rondo_core::coordination::{self, BarrierKey, Dialect, Fault, Kept, Participants, Value};
use rondo_core::ids::{Incarnation, TaskIndex};

use super::error::{FrameError, required};
use super::records::kinds;
use super::wire::{Wire, enumeration, message};
use crate::journal::coordination as journal;
use journal::record::Kind;

kinds! {
    coordination in journal;
    BeginLife { namespace, name, incarnation, tasks, at; }
    LearnSize { namespace, tasks; }
    RegisterTask { namespace, task, incarnation, recoverable, dialect, at; }
    ConnectTask { namespace, task, incarnation, recoverable, dialect, at; }
    DisconnectTask { namespace, task, at; }
    FailTask { namespace, task, at; fault }
    FailAllTasks { namespace, at; fault }
    NotePolling { namespace; }
    StickError { namespace; fault }
    OfferDevices { namespace, task, devices; }
    ArriveAtBarrier { namespace, counter, task, stamp, opening, at; barrier }
    LeaveBarrier { namespace, task; barrier }
    EndBarrier { namespace, counter, fault, at; barrier }
    PutKey { namespace, key, lease; value }
    DeleteKey { namespace, key; }
    EndLeases { namespace, task; }
    KeepResult { namespace, relay, sequence, acknowledged; kept }
    AnswerAlive { namespace; answer }
    ForgetRelays { namespace, relays; }
}

message!(coordination::Fault => journal::Fault { code, message, reported, source; ; });
message!(coordination::Stamp => journal::Stamp { relay, sequence, acknowledged; ; });
message!(coordination::AliveAnswer => journal::AliveAnswer { tasks, stamps; ; });
message!(coordination::Opening => journal::Opening { timeout; participants; });

enumeration!(Dialect { 0 => T, 1 => X, 2 => Rondo });

impl Wire for BarrierKey {
    type Message = journal::BarrierKey;

    fn write(&self) -> Self::Message {
        use journal::OwnBarrier::{Devices, Register, Shutdown};
        use journal::barrier_key::Key;
        let key = match self {
            Self::Register => Key::Own(Register.into()),
            Self::Shutdown => Key::Own(Shutdown.into()),
            Self::Devices => Key::Own(Devices.into()),
            Self::Named(id) => Key::Named(id.write()),
        };
        Self::Message { key: Some(key) }
    }

    fn read(message: Self::Message) -> Result<Self, FrameError> {
        use journal::OwnBarrier;
        use journal::barrier_key::Key;
        Ok(match required("BarrierKey.key", message.key)? {
            Key::Named(id) => Self::Named(id.into()),
            Key::Own(own) => match OwnBarrier::try_from(own) {
                Ok(OwnBarrier::Register) => Self::Register,
                Ok(OwnBarrier::Shutdown) => Self::Shutdown,
                Ok(OwnBarrier::Devices) => Self::Devices,
                Err(_) => {
                    let right = "no release writes that number";
                    return Err(super::error::wrong("BarrierKey.own", own, right));
                }
            },
        })
    }
}

impl Wire for Participants {
    type Message = journal::Participants;

    fn write(&self) -> Self::Message {
        match self {
            Self::All => Self::Message { all: true, tasks: Vec::new() },
            Self::Some(tasks) => Self::Message { all: false, tasks: tasks.write() },
        }
    }

    fn read(message: Self::Message) -> Result<Self, FrameError> {
        Ok(match message.all {
            true => Self::All,
            false => Self::Some(Wire::read(message.tasks)?),
        })
    }
}

impl Wire for Value {
    type Message = journal::Value;

    fn write(&self) -> Self::Message {
        use journal::value::Value;
        let value = match self {
            Self::Inline(bytes) => Value::Inline(bytes.clone()),
            Self::Blob { digest, size_bytes } => {
                Value::Blob(journal::Blob { digest: digest.write(), size_bytes: *size_bytes })
            }
        };
        Self::Message { value: Some(value) }
    }

    fn read(message: Self::Message) -> Result<Self, FrameError> {
        use journal::value::Value;
        Ok(match required("Value.value", message.value)? {
            Value::Inline(bytes) => Self::Inline(bytes),
            Value::Blob(blob) => {
                Self::Blob { digest: Wire::read(blob.digest)?, size_bytes: blob.size_bytes }
            }
        })
    }
}

impl Wire for Kept {
    type Message = journal::Kept;

    fn write(&self) -> Self::Message {
        use journal::kept::Kind;
        let kind = match self {
            Self::Put(revision) => Kind::Put(revision.write()),
            Self::Deleted(revision) => Kind::Deleted(revision.write()),
            Self::Incremented { value, revision } => {
                let (value, revision) = (value.clone(), revision.write());
                Kind::Incremented(journal::Incremented { value, revision })
            }
            Self::Barrier { counter, fault } => {
                let (counter, fault) = (*counter, fault.write());
                Kind::Barrier(journal::KeptBarrier { counter, fault })
            }
            Self::Done => Kind::Done(journal::Done {}),
        };
        Self::Message { kind: Some(kind) }
    }

    fn read(message: Self::Message) -> Result<Self, FrameError> {
        use journal::kept::Kind;
        Ok(match required("Kept.kind", message.kind)? {
            Kind::Put(revision) => Self::Put(Wire::read(revision)?),
            Kind::Deleted(revision) => Self::Deleted(Wire::read(revision)?),
            Kind::Incremented(message) => {
                let revision = Wire::read(message.revision)?;
                Self::Incremented { value: message.value, revision }
            }
            Kind::Barrier(message) => {
                let fault = Wire::read(message.fault)?;
                Self::Barrier { counter: message.counter, fault }
            }
            Kind::Done(journal::Done {}) => Self::Done,
        })
    }
}

impl Wire for (TaskIndex, Incarnation) {
    type Message = journal::AliveTask;

    fn write(&self) -> Self::Message {
        Self::Message { task: self.0.write(), incarnation: self.1.write() }
    }

    fn read(message: Self::Message) -> Result<Self, FrameError> {
        Ok((Wire::read(message.task)?, Wire::read(message.incarnation)?))
    }
}

impl Wire for Arc<Fault> {
    type Message = journal::Fault;

    fn write(&self) -> Self::Message {
        self.as_ref().write()
    }

    fn read(message: Self::Message) -> Result<Self, FrameError> {
        Fault::read(message).map(Self::new)
    }
}
