//! What happens to a process of an exchange, and what it asks its driver to do.

use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::exchange::config::Config;
use crate::exchange::ids::{InstanceRank, MembershipVersion, NodeId, TraceNumber};
use crate::exchange::membership::{Membership, Sizes};
use crate::exchange::message::{Failure, Scope, ToMember, ToScheduler};
use crate::exchange::role::{Mask, Role};
use crate::ids::{CallId, ConnectionId, Incarnation};
use crate::status::Status;
use crate::time::Duration;

/// Who a process is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Server or worker.
    pub role: Role,
    /// The rank it wants; `None` for any.
    pub rank: Option<InstanceRank>,
    /// Its run: a random number.
    pub incarnation: Incarnation,
    /// Where it can be reached, the best way first.
    pub addresses: Vec<Arc<str>>,
    /// Its host, by a name that no other has.
    pub host: Arc<str>,
    /// How many it believes there are.
    pub sizes: Sizes,
}

/// The settings of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Who it is.
    pub identity: Identity,
    /// Bounds and times.
    pub config: Config,
    /// How long the scheduler may be away until calls that need it fail; `None` for ever.
    pub scheduler_patience: Option<Duration>,
}

/// How a process stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It has not been asked to take part.
    Idle,
    /// It registers, and waits until all have.
    Joining,
    /// It takes part.
    Joined,
    /// It says that it is done.
    Leaving,
    /// It is done.
    Left,
    /// The scheduler does not let it take part, or has given it up.
    Over(Status),
}

/// What happens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// The application wants something.
    Asked {
        /// Names the call.
        call: CallId,
        /// What it wants.
        ask: Ask,
    },
    /// Nobody waits for this call any more.
    Cancel {
        /// The call.
        call: CallId,
    },
    /// A connection is there.
    Connected {
        /// The connection.
        connection: ConnectionId,
    },
    /// It could not be made.
    NotConnected {
        /// The connection.
        connection: ConnectionId,
        /// Why not.
        status: Status,
    },
    /// It is broken, or was closed at its other end.
    Disconnected {
        /// The connection.
        connection: ConnectionId,
        /// Why.
        status: Status,
    },
    /// The scheduler says something.
    Received {
        /// The connection.
        connection: ConnectionId,
        /// What it says.
        message: ToMember,
    },
    /// Time has passed. Early and repeated ticks do nothing.
    Tick,
}

/// What the application may want. Each timeout is `None` for as long as it takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ask {
    /// Takes part, once all do.
    Join {
        /// How long it waits. Then the process is as if it had not been asked.
        timeout: Option<Duration>,
    },
    /// Waits at a barrier.
    Barrier {
        /// Who meets.
        mask: Mask,
        /// Who counts.
        scope: Scope,
        /// How long it waits. Then the others go on waiting for it.
        timeout: Option<Duration>,
    },
    /// Waits until who takes part is another membership than this, or a later one.
    Changed {
        /// The membership that is known; 0 if none is.
        after: MembershipVersion,
        /// How long it waits.
        timeout: Option<Duration>,
    },
    /// Says that it is done. Whatever else was asked for fails.
    Leave,
}

/// What the application gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// The answer to [`Ask::Join`].
    Joined {
        /// The process' number.
        node: NodeId,
        /// Its rank among those of its role.
        rank: InstanceRank,
    },
    /// The answer to [`Ask::Barrier`] and [`Ask::Leave`].
    Done,
    /// The answer to [`Ask::Changed`].
    Membership(Arc<Membership>),
}

/// What a process asks of its driver, to be carried out in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Connect to the scheduler, and report [`Input::Connected`] or [`Input::NotConnected`].
    Connect {
        /// The number of the connection, which no other has.
        connection: ConnectionId,
    },
    /// Say this to the scheduler.
    Send {
        /// The connection.
        connection: ConnectionId,
        /// What to say.
        message: ToScheduler,
    },
    /// Close a connection when what was said before is written, or give up making it. Nothing of it is
    /// reported any more.
    Close {
        /// The connection.
        connection: ConnectionId,
    },
    /// The answer to [`Input::Asked`].
    Done {
        /// The call.
        call: CallId,
        /// The answer.
        result: Result<Reply, Failure>,
    },
    /// Who takes part has changed: tell the machines that tensors pass through.
    Membership(Arc<Membership>),
    /// Say to the scheduler what the process knows of its requests: a
    /// [`Traces`](crate::exchange::message::ToScheduler::Traces) by this connection.
    AskTraces {
        /// The connection.
        connection: ConnectionId,
        /// As asked.
        number: TraceNumber,
        /// Passages with greater numbers are wanted.
        after: u64,
    },
    /// The process takes part no more, without having asked for it: tell them so.
    Over(Status),
    /// Something worth a log line or a counter.
    Observe(Event),
}

/// Something worth a log line or a counter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// There is no way to the scheduler now.
    Away {
        /// Why.
        status: Status,
    },
    /// The scheduler knows the process again.
    Back {
        /// How long it did not.
        after: Duration,
    },
}
