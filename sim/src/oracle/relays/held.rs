//! What is known of a call that a relay has.

use rondo_core::ids::{ConnectionId, Incarnation, ServiceIncarnation, TaskIndex};
use rondo_core::relay::Kind;
use rondo_core::time::Time;

use super::Number;

/// A call that a relay has.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) kind: Kind,
    pub(super) client: ConnectionId,
    /// The task of its connection when it came, the task's process, and the life.
    pub(super) identity: (Option<TaskIndex>, Option<Incarnation>, Option<ServiceIncarnation>),
    /// Whether somebody waits for the answer.
    pub(super) waits: bool,
    /// Whether the relay itself has answered it, and the server's answer may yet come.
    pub(super) stood_in: bool,
    pub(super) number: Option<Number>,
    /// Whether the relay has refused it.
    pub(super) refused: bool,
    /// When it was last sent.
    pub(super) sent_at: Option<Time>,
    /// Whether it was sent on the connection there is, and the server may have it.
    pub(super) is_with_server: bool,
    /// The length of its message.
    pub(super) bytes: u64,
}

impl Held {
    /// Whether a task comes, lives or leaves by it.
    pub(super) const fn is_of_tasks(&self) -> bool {
        matches!(self.kind, Kind::Register(_) | Kind::Heartbeat(_) | Kind::Shutdown(_))
    }

    /// Whether a task comes or lives by it.
    pub(super) const fn shows_life(&self) -> bool {
        matches!(self.kind, Kind::Register(_) | Kind::Heartbeat(_))
    }
}
