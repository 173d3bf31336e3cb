//! What happens to a relay, and what it asks its driver to do.

use alloc::string::String;
use alloc::sync::Arc;
use bytes::Bytes;

use crate::ids::{CallId, ConnectionId, Incarnation, ServiceIncarnation, TaskIndex};
use crate::stamp::Stamp;
use crate::status::{Code, Status};
use crate::time::Duration;

/// A task as a client names it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Task {
    /// Its job; empty in dialect X, which has none.
    pub job: Arc<str>,
    /// Its number in the job.
    pub index: TaskIndex,
}

/// One run of a task's process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Who {
    /// The task.
    pub task: Task,
    /// The run.
    pub incarnation: Incarnation,
}

/// What a relay must know of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A task registers; the same once more changes nothing.
    Register(Who),
    /// A task shows that it lives.
    Heartbeat(Who),
    /// A task leaves, which must not happen twice.
    Shutdown(Task),
    /// It must not happen twice.
    Once {
        /// Whether it may wait for others for a long time.
        waits: bool,
    },
    /// A task asks which tasks are alive. The answer is one for all that ask together, so it must not be
    /// given twice; a task that gives the call up asks no longer.
    Alive,
    /// It may be asked as often as one likes.
    Again,
}

impl Kind {
    /// Whether it must not happen twice.
    pub(super) const fn is_once(&self) -> bool {
        matches!(self, Self::Once { .. } | Self::Alive | Self::Shutdown(_))
    }

    /// Whether it goes on when its client has gone: it may have happened already.
    pub(super) const fn outlives_client(&self) -> bool {
        matches!(self, Self::Once { .. } | Self::Shutdown(_))
    }

    /// Whether a task comes, lives or leaves.
    pub(super) const fn is_of_tasks(&self) -> bool {
        matches!(self, Self::Register(_) | Self::Heartbeat(_) | Self::Shutdown(_))
    }

    /// Whether a task registers by it, or shows that it lives. It ends with its client.
    pub(super) const fn shows_life(&self) -> bool {
        matches!(self, Self::Register(_) | Self::Heartbeat(_))
    }

    /// Whether a server answers it without waiting for other callers.
    pub(super) const fn is_prompt(&self) -> bool {
        matches!(self, Self::Heartbeat(_) | Self::Once { waits: false })
    }

    /// Whether it may wait for others for a long time, of what must not happen twice.
    pub(super) const fn waits(&self) -> bool {
        matches!(self, Self::Once { waits: true } | Self::Alive | Self::Shutdown(_))
    }
}

/// A call as it comes from a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    /// The connection it came on.
    pub client: ConnectionId,
    /// The client's address.
    pub peer: Arc<str>,
    /// The method's path.
    pub path: Arc<str>,
    /// The encoded request.
    pub message: Bytes,
    /// What must be known of it.
    pub kind: Kind,
}

/// A way to the server, counted from 1: a connection, and all calls on it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Link(pub u64);

/// A call as it goes to the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Forwarding {
    /// The method's path.
    pub path: Arc<str>,
    /// The encoded request.
    pub message: Bytes,
    /// The client's address.
    pub peer: Arc<str>,
    /// The mark on what must not happen twice.
    pub stamp: Option<Stamp>,
    /// The task that registered on the client's connection, or else sends heartbeats on it.
    pub task: Option<TaskIndex>,
    /// The process of that task which the client's connection belongs to, if it belongs to one alone.
    pub incarnation: Option<Incarnation>,
    /// The life of the namespace in which it did.
    pub life: Option<ServiceIncarnation>,
    /// Whether the client still waits for the answer.
    pub waits: bool,
}

/// A refusal on its way to a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// The gRPC code.
    pub code: Code,
    /// What is wrong.
    pub message: String,
    /// What programs read, encoded; empty if there is nothing.
    pub details: Bytes,
}

impl From<Status> for Refused {
    /// A refusal of the relay's own, or of the way to the server: with nothing for programs.
    fn from(status: Status) -> Self {
        Self { code: status.code, message: status.message, details: Bytes::new() }
    }
}

/// An answer on its way to a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The server's, encoded.
    Passed(Bytes),
    /// To a heartbeat, from what is known: the namespace's life when it was last heard of.
    Heartbeat(ServiceIncarnation),
}

/// What happens to a relay.
#[derive(Clone, Debug)]
pub enum Input {
    /// A client asks for something.
    Asked {
        /// Names the call; later calls have higher numbers.
        call: CallId,
        /// What is asked.
        asked: Asked,
        /// A fresh random number.
        entropy: u64,
    },
    /// The client does not wait for this call any more.
    Cancel {
        /// The call.
        call: CallId,
    },
    /// A client's connection is closed; no more calls come on it.
    Closed {
        /// The connection.
        client: ConnectionId,
    },
    /// The server answers.
    Answered {
        /// The call.
        call: CallId,
        /// The answer.
        result: Result<Bytes, Refused>,
        /// The namespace's life, where the answer tells it: to a registration or a heartbeat.
        life: Option<ServiceIncarnation>,
    },
    /// A call brought no answer of the server, but a failure of the way to it.
    Failed {
        /// The call.
        call: CallId,
        /// The way it went.
        link: Link,
        /// The failure.
        status: Status,
    },
    /// The server is there.
    Reached {
        /// The way to it.
        link: Link,
    },
    /// The server is not there.
    Unreachable {
        /// The way that was tried.
        link: Link,
        /// Why not.
        reason: Arc<str>,
        /// A fresh random number.
        entropy: u64,
    },
    /// Time has passed. Early and repeated ticks do nothing.
    Tick,
    /// The relay is to end: nobody is kept waiting any more but for what must not happen twice.
    Stop,
}

/// What a relay asks of its driver, to be carried out in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Find out whether the server is there, on a new connection of this number, and report
    /// [`Input::Reached`] or, within some seconds, [`Input::Unreachable`]. The server is told the
    /// number, and must take nothing that comes on earlier connections from then on: what was
    /// sent on them is sent again on this one, and the older must not take the newer's place.
    Reach {
        /// The number.
        link: Link,
    },
    /// Drop a connection and all calls on it.
    Abandon {
        /// The connection.
        link: Link,
    },
    /// Send a call to the server, without a deadline.
    Forward {
        /// On this connection.
        link: Link,
        /// The call.
        call: CallId,
        /// What to send.
        forwarding: Forwarding,
    },
    /// Take back a call that was sent: nobody waits for its answer.
    Withdraw {
        /// The call.
        call: CallId,
    },
    /// Answer a client.
    Reply {
        /// The call.
        call: CallId,
        /// The answer.
        result: Result<Answer, Refused>,
    },
    /// Something worth a log line or a counter.
    Observe(Event),
}

/// Something worth a log line or a counter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The server has gone.
    UpstreamLost {
        /// As far as can be told, because of this.
        reason: Arc<str>,
        /// Calls that wait for it.
        calls: usize,
    },
    /// The server is there.
    UpstreamReached {
        /// How long it was away.
        away: Duration,
        /// Calls that are sent now.
        calls: usize,
    },
    /// The server has been away for too long: clients are told.
    GaveUp {
        /// The text they get.
        reason: Arc<str>,
    },
    /// A task is registered.
    TaskRegistered {
        /// The task.
        task: Task,
        /// In this life.
        life: ServiceIncarnation,
    },
    /// The namespace has another life than before.
    LifeChanged {
        /// The one before.
        before: ServiceIncarnation,
        /// The one now.
        now: ServiceIncarnation,
    },
    /// A heartbeat was answered in the server's place.
    HeartbeatAnswered {
        /// Whose.
        task: Task,
    },
}
