//! What happens to a scheduler, and what it asks its driver to do.

use alloc::string::String;

use crate::exchange::config::Config;
use crate::exchange::ids::{InstanceRank, MembershipVersion};
use crate::exchange::membership::Sizes;
use crate::exchange::message::{Failure, Scope, ToMember, ToScheduler};
use crate::exchange::refusal::PeerLost;
use crate::exchange::role::{Mask, Role};
use crate::ids::{CallId, ConnectionId, Incarnation};
use crate::status::Status;
use crate::time::Duration;

/// The settings of a scheduler.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// Bounds and times.
    pub config: Config,
    /// How many take part; `None` if the first process that registers is to say it.
    pub sizes: Option<Sizes>,
    /// Whether the process that runs the scheduler comes to barriers itself. Otherwise those with the
    /// scheduler in their mask do not wait for it.
    pub takes_part: bool,
    /// Whether barriers go on without those who are lost. Otherwise they fail while somebody is.
    pub goes_on_without_lost: bool,
}

/// What happens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// A process has connected.
    Connected {
        /// The connection.
        connection: ConnectionId,
    },
    /// A process says something.
    Received {
        /// The connection.
        connection: ConnectionId,
        /// What it says.
        message: ToScheduler,
    },
    /// A connection is broken, or was closed at its other end.
    Disconnected {
        /// The connection.
        connection: ConnectionId,
    },
    /// The process that runs the scheduler wants something.
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
    /// Time has passed. Early and repeated ticks do nothing.
    Tick,
}

/// What the process that runs the scheduler may want.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ask {
    /// Waits until all have registered.
    Ready,
    /// Waits at a barrier whose mask has the scheduler.
    Barrier {
        /// Who meets.
        mask: Mask,
        /// Who counts.
        scope: Scope,
        /// How long it waits; `None` for as long as it takes.
        timeout: Option<Duration>,
    },
    /// Waits until nobody takes part any more.
    Ended,
}

/// What a scheduler asks of its driver, to be carried out in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Say this.
    Send {
        /// The connection.
        connection: ConnectionId,
        /// What to say.
        message: ToMember,
    },
    /// Close a connection when what was said before is written. Nothing of it comes in any more.
    Close {
        /// The connection.
        connection: ConnectionId,
    },
    /// The answer to [`Input::Asked`].
    Done {
        /// The call.
        call: CallId,
        /// The answer.
        result: Result<(), Failure>,
    },
    /// Something worth a log line or a counter.
    Observe(Event),
}

/// Something worth a log line or a counter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// All have registered.
    Begun {
        /// How many they are.
        sizes: Sizes,
        /// The first membership.
        version: MembershipVersion,
    },
    /// Not all have registered in time.
    NotBegun {
        /// Who is missing.
        missing: String,
    },
    /// Processes of an exchange that was under way come back to a scheduler that was restarted.
    Rebuilding {
        /// The membership they know.
        version: MembershipVersion,
    },
    /// All of them are back, or given up.
    Rebuilt {
        /// How many take part.
        up: usize,
        /// How many are lost.
        lost: usize,
    },
    /// A process is lost.
    Lost(PeerLost),
    /// A process has left.
    Left {
        /// Its role.
        role: Role,
        /// Its rank.
        rank: InstanceRank,
    },
    /// Another run of a process takes its place.
    Returned {
        /// Its role.
        role: Role,
        /// Its rank.
        rank: InstanceRank,
        /// The new run.
        incarnation: Incarnation,
    },
    /// A process is refused.
    Refused {
        /// Its connection.
        connection: ConnectionId,
        /// Why.
        status: Status,
    },
    /// A barrier failed.
    BarrierFailed {
        /// Who was to meet.
        mask: Mask,
        /// Who counted.
        scope: Scope,
        /// Why.
        lost: PeerLost,
    },
    /// The scheduler itself was held up for so long; nobody is given up for that.
    HeldUp {
        /// How late it looked at the clock.
        late: Duration,
    },
    /// Nobody takes part any more.
    Ended {
        /// The last membership.
        version: MembershipVersion,
    },
}
