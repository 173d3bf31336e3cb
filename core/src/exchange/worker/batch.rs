//! A request: what is pushed to all servers and pulled from each, and how far it is.

use alloc::vec::Vec;

use crate::exchange::ids::{Handler, Key, ServerRank};
use crate::exchange::message::{Pull, Tensor};
use crate::exchange::refusal::{PeerLost, Refusal};
use crate::exchange::stamps::Stamps;
use crate::ids::CallId;
use crate::time::Time;

/// How far one server is with a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::exchange) enum Part {
    /// It waits to be sent.
    Queued,
    /// It was sent, and some of what is awaited has not come.
    Sent { is_pushed: bool, is_answered: bool },
    /// All has come.
    Over,
    /// The request does without this server.
    Missing(PeerLost),
}

impl Part {
    /// Whether nothing more is awaited.
    pub(in crate::exchange) const fn is_over(&self) -> bool {
        matches!(self, Self::Over | Self::Missing(_))
    }
}

/// A request.
#[derive(Clone, Debug)]
pub(in crate::exchange) struct Batch<T> {
    pub(in crate::exchange) started: Time,
    pub(in crate::exchange) pushes: Vec<Tensor<T>>,
    pub(in crate::exchange) pulls: Vec<Tensor<T>>,
    /// How many of the pulls are of each server.
    pub(in crate::exchange) per_server: usize,
    /// One for each server.
    pub(in crate::exchange) parts: Vec<Part>,
    /// Parts that are not over.
    pub(in crate::exchange) missing: usize,
    /// Answers that are being written to where it pulls to.
    pub(in crate::exchange) landings: usize,
    /// Why it failed, if it did.
    pub(in crate::exchange) failure: Option<Refusal>,
    /// Whether nobody wants to know how it ends.
    pub(in crate::exchange) is_abandoned: bool,
    /// Calls that wait for it.
    pub(in crate::exchange) calls: Vec<CallId>,
    pub(in crate::exchange) trace: Trace,
}

/// The stamps of a request.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::exchange) struct Trace {
    /// How many of its handlers are of pushes; they come first.
    pub(in crate::exchange) pushes: u64,
    /// All of its handlers.
    pub(in crate::exchange) handlers: u64,
    pub(in crate::exchange) push: Stamps,
    pub(in crate::exchange) pull: Stamps,
}

impl<T> Batch<T> {
    /// Whether it is one push or one pull alone.
    pub(in crate::exchange) const fn is_single(&self) -> bool {
        self.pushes.len().saturating_add(self.per_server) == 1
    }

    /// Whether the server says that pushes have arrived.
    pub(in crate::exchange) const fn awaits_pushed(&self) -> bool {
        !self.pushes.is_empty() && !self.is_single()
    }

    /// Whether the server answers.
    pub(in crate::exchange) const fn awaits_answer(&self) -> bool {
        self.per_server > 0 || self.is_single()
    }

    /// Whether who waits for it can be told: nothing is awaited, and nobody writes to its memory.
    pub(in crate::exchange) const fn is_complete(&self) -> bool {
        self.landings == 0 && (self.missing == 0 || self.failure.is_some())
    }

    /// Whether what comes for it is of use.
    pub(in crate::exchange) const fn is_alive(&self) -> bool {
        self.failure.is_none() && !self.is_abandoned
    }

    /// What a server's answer goes to.
    pub(super) fn pulls_of(&self, server: ServerRank) -> &[Tensor<T>] {
        let server = usize::try_from(server.get()).unwrap_or(usize::MAX);
        let from = server.saturating_mul(self.per_server);
        self.pulls.get(from..from.saturating_add(self.per_server)).unwrap_or_default()
    }

    /// The same as a server is asked.
    pub(super) fn asked_of(&self, server: ServerRank) -> Vec<Pull> {
        let asked = |pull: &Tensor<T>| Pull { key: pull.key, info: pull.info };
        self.pulls_of(server).iter().map(asked).collect()
    }

    /// Bytes that it pushes to each server.
    pub(super) fn bytes(&self) -> u64 {
        self.pushes.iter().fold(0, |sum, push| push.info.bytes().saturating_add(sum))
    }

    /// Keys that it pushes, each once.
    pub(super) fn keys(&self) -> Vec<Key> {
        let mut keys: Vec<Key> = self.pushes.iter().map(|push| push.key).collect();
        keys.sort_unstable();
        keys.dedup();
        keys
    }

    /// Servers of which something is awaited.
    pub(super) fn awaited(&self) -> Vec<ServerRank> {
        let parts = (0..).map(ServerRank::new).zip(&self.parts);
        parts.filter(|(_, part)| !part.is_over()).map(|(server, _)| server).collect()
    }

    /// Servers that it does without.
    pub(super) fn without(&self) -> Vec<PeerLost> {
        let lost = |part: &Part| match part {
            Part::Missing(lost) => Some(lost.clone()),
            Part::Queued | Part::Sent { .. } | Part::Over => None,
        };
        self.parts.iter().filter_map(lost).collect()
    }

    /// Whether nothing more is awaited of a server.
    pub(super) fn is_over(&self, server: ServerRank) -> bool {
        let part = self.parts.get(usize::try_from(server.get()).unwrap_or(usize::MAX));
        part.is_none_or(Part::is_over)
    }

    pub(super) fn part(&mut self, server: ServerRank) -> Option<&mut Part> {
        self.parts.get_mut(usize::try_from(server.get()).unwrap_or(usize::MAX))
    }

    /// A part becomes what it is from now on.
    pub(super) fn set(&mut self, server: ServerRank, to: Part) {
        let Some(part) = self.part(server) else {
            return;
        };
        let was_over = part.is_over();
        let is_over = to.is_over();
        *part = to;
        if is_over && !was_over {
            self.missing = self.missing.saturating_sub(1);
        }
    }
}

impl Trace {
    /// The stamps of one of the handlers, counted from the request's first.
    pub(super) const fn of(&self, handler: Handler, first: Handler) -> Option<Stamps> {
        match handler.get().checked_sub(first.get()) {
            Some(index) if index < self.pushes => Some(self.push),
            Some(index) if index < self.handlers => Some(self.pull),
            _ => None,
        }
    }
}
