//! What happens to a control-plane node, and what it asks its driver to do.

use alloc::string::String;
use alloc::vec::Vec;

use crate::coordination::{self, Wake};
use crate::dispatcher::{self, TaskDef};
use crate::ids::{CallId, Digest, Lsn};
use crate::memory::Memory;
use crate::status::Status;
use crate::time::Time;

/// A request to one of the node's machines.
#[derive(Clone, Debug, PartialEq)]
pub enum Request {
    /// To the dispatcher.
    Dispatcher(dispatcher::Request),
    /// To the coordination service.
    Coordination(coordination::Request),
}

impl Request {
    /// Whether the answer shows much of the state: making it may take many times as long as an ordinary call.
    /// The driver lets other calls go before it.
    pub fn is_listing(&self) -> bool {
        use coordination::Method;
        match self {
            Self::Dispatcher(request) => {
                matches!(request, dispatcher::Request::GetWorkers | dispatcher::Request::Report)
            }
            Self::Coordination(coordination::Request::Report) => true,
            Self::Coordination(coordination::Request::Call(call)) => matches!(
                call.method,
                Method::GetKeyValueDir { .. }
                    | Method::WatchKeys { from: None, .. }
                    | Method::GetTaskState { .. }
                    | Method::GetJobState { .. }
                    | Method::WatchTasks { .. }
            ),
        }
    }
}

/// An answer of one of the node's machines.
#[derive(Clone, Debug, PartialEq)]
pub enum Reply {
    /// The dispatcher's.
    Dispatcher(dispatcher::Reply),
    /// The coordination service's.
    Coordination(coordination::Reply),
}

/// A change of the durable state of one of the node's machines.
#[derive(Clone, Debug, PartialEq)]
pub enum Record {
    /// The dispatcher's.
    Dispatcher(dispatcher::Record),
    /// The coordination service's.
    Coordination(coordination::Record),
}

impl Record {
    /// Whether it may wait for the next sync when nobody waits for it: a task that comes to a barrier
    /// is answered when the barrier ends, and until then comes again if its coming is forgotten.
    pub(super) const fn may_wait(&self) -> bool {
        matches!(self, Self::Coordination(coordination::Record::ArriveAtBarrier { .. }))
    }
}

/// A piece of the durable state of one of the node's machines.
#[derive(Clone, Debug, PartialEq)]
pub enum Part {
    /// The dispatcher's.
    Dispatcher(dispatcher::Part),
    /// The coordination service's.
    Coordination(coordination::Part),
}

/// Something worth a log line or a counter, from one of the node's machines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The dispatcher's.
    Dispatcher(dispatcher::Event),
    /// The coordination service's.
    Coordination(coordination::Event),
}

/// The settings of a node's machines.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Config {
    /// The dispatcher's.
    pub dispatcher: dispatcher::Config,
    /// The coordination service's.
    pub coordination: coordination::Config,
}

impl From<dispatcher::Config> for Config {
    fn from(dispatcher: dispatcher::Config) -> Self {
        Self { dispatcher, coordination: coordination::Config::default() }
    }
}

/// What happens to a node.
#[derive(Clone, Debug)]
pub enum Input {
    /// Somebody asks for something.
    Request {
        /// Names the call in its answer.
        call: CallId,
        /// What is asked.
        request: Request,
        /// A fresh random number, for names that must be hard to guess.
        entropy: u64,
    },
    /// Whoever made this call does not wait any more.
    Cancel {
        /// The call.
        call: CallId,
    },
    /// Time has passed. Early and repeated ticks do nothing.
    Tick,
    /// Everything up to this position is durable.
    Synced {
        /// The last durable record.
        upto: Lsn,
    },
    /// The journal refused to take the records from this position on (a full disk). The driver
    /// keeps them and tries again on [`Effect::RetryAppend`].
    AppendRefused {
        /// The first record not taken.
        from: Lsn,
        /// Why.
        reason: String,
    },
    /// The journal took the records it had refused.
    AppendAccepted,
    /// The process has so much memory left. While it is short, the driver says anew how much is in use.
    Memory(Memory),
    /// A sync failed; what was written since the last one may be lost or not.
    SyncFailed {
        /// Why.
        reason: String,
    },
}

/// What a node asks of its driver, to be carried out in order.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// Write this record at this position. All of one step, and of one batch of steps, go into
    /// one commit group.
    Append {
        /// The record's position.
        lsn: Lsn,
        /// The record.
        record: Record,
    },
    /// Make everything up to this position durable, then report [`Input::Synced`].
    Sync {
        /// The last record that must be durable.
        upto: Lsn,
    },
    /// Try again to write the records that were refused.
    RetryAppend,
    /// Answer a call.
    Reply {
        /// The call.
        call: CallId,
        /// The answer.
        result: Result<Reply, Status>,
    },
    /// Tell a worker of a task (`ProcessTask`) at the address in the task, with a deadline and
    /// beside everything else; failure is harmless, since the worker's heartbeat brings the task.
    Push {
        /// The task.
        task: TaskDef,
    },
    /// No record names this blob any more, and none will before it is put again: it can go.
    ForgetBlob {
        /// The blob.
        digest: Digest,
    },
    /// Something worth a log line or a counter.
    Observe(Event),
    /// Stop at once: every promise made so far is kept, none can be made from here on.
    Halt {
        /// Why.
        reason: String,
    },
}

/// Effects of one or several steps, in order. The caller owns and reuses it.
#[derive(Debug, Default)]
pub struct Effects(pub(super) Vec<Effect>);

impl Effects {
    /// No effects.
    pub const fn new() -> Self {
        Self(Vec::new())
    }

    pub(super) fn push(&mut self, effect: Effect) {
        self.0.push(effect);
    }

    /// The effects, in order.
    pub fn as_slice(&self) -> &[Effect] {
        &self.0
    }

    /// Takes all effects out, in order.
    pub fn drain(&mut self) -> impl Iterator<Item = Effect> + '_ {
        self.0.drain(..)
    }

    /// True when there is nothing to do.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Why the node wants to be woken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Timer {
    /// The dispatcher's maintenance: expired clients, iterations to collect.
    Maintenance,
    /// A consumer has waited long enough for the others to give up a task.
    Removal,
    /// Records were refused and should be tried again.
    AppendRetry,
    /// Some worker may have been silent for too long.
    Silence,
    /// The coordination service wants to go on.
    Coordination(Wake),
}

/// A wake-up: when, and for whose sake.
pub type Deadline = (Time, Timer);
