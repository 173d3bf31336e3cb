//! Connections between processes and the scheduler: each delivers in order, or breaks.

use std::collections::VecDeque;

use rondo_core::exchange::message::{ToMember, ToScheduler};
use rondo_core::ids::{ConnectionId, Incarnation};

/// A connection from a process to the scheduler.
#[derive(Debug)]
pub(crate) struct Line {
    /// Which process, and which run of it.
    pub(crate) process: usize,
    pub(crate) incarnation: Incarnation,
    /// What the process calls it, and what the scheduler does.
    pub(crate) there: ConnectionId,
    pub(crate) here: ConnectionId,
    pub(crate) to_scheduler: VecDeque<ToScheduler>,
    pub(crate) to_member: VecDeque<ToMember>,
    /// Whether each end still has it.
    pub(crate) is_open_there: bool,
    pub(crate) is_open_here: bool,
    /// Whether nothing comes through any more, and nobody is told.
    pub(crate) is_silent: bool,
}

/// What can happen next on a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Delivery {
    /// An attempt to connect succeeds or fails.
    Attempt(usize),
    /// The scheduler hears the next word, or that the connection is gone.
    ToScheduler(usize),
    /// The process does.
    ToMember(usize),
}

impl Line {
    /// The other end is gone, and all that it said has been heard.
    pub(crate) fn ends_here(&self) -> bool {
        self.is_open_here && !self.is_open_there && self.to_scheduler.is_empty()
    }

    pub(crate) fn ends_there(&self) -> bool {
        self.is_open_there && !self.is_open_here && self.to_member.is_empty()
    }
}
