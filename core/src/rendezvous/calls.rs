//! The calls that wait, where each of them does, and until when.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;

use super::config::Config;
use super::key::Key;
use super::types::Args;
use crate::ids::{CallId, RequestId, StepId};
use crate::time::Time;

/// A call that waits.
#[derive(Clone, Debug)]
pub(super) struct Pending {
    pub(super) step: StepId,
    pub(super) place: Place,
    /// When it gives up.
    pub(super) due: Option<Time>,
}

/// Where a call waits.
#[derive(Clone, Debug)]
pub(super) enum Place {
    /// For a tensor, under its key.
    Waiting { key: Key, number: u64 },
    /// For the step to be initialised.
    Deferred { number: u64 },
    /// For room for its tensor, which is under its key.
    Parked { key: Key, number: u64 },
    /// For what another call of the same request gets.
    Following { request: RequestId },
    /// For another worker.
    Fetching(Arc<Fetching>),
}

/// What is fetched from another worker.
#[derive(Clone, Debug)]
pub(super) struct Fetching {
    pub(super) key: Key,
    pub(super) args: Args,
    pub(super) worker: Arc<str>,
    pub(super) request: RequestId,
    /// When it was last asked.
    pub(super) asked: Time,
    /// Since when the worker is away, and how often it was tried since.
    pub(super) away: Option<(Time, u32)>,
}

/// All calls that wait.
#[derive(Clone, Debug, Default)]
pub(super) struct Calls {
    pub(super) pending: BTreeMap<CallId, Pending>,
    pub(super) dues: BTreeSet<(Time, CallId)>,
    /// When to ask other workers again.
    pub(super) retries: BTreeSet<(Time, CallId)>,
}

impl Calls {
    /// Whether no more may wait.
    pub(super) fn are_full(&self, config: &Config) -> bool {
        self.pending.len() >= config.calls_max
    }

    pub(super) fn wait(&mut self, call: CallId, step: StepId, place: Place, due: Option<Time>) {
        if let Some(due) = due {
            self.dues.insert((due, call));
        }
        self.pending.insert(call, Pending { step, place, due });
    }

    /// The call waits no more.
    pub(super) fn end(&mut self, call: CallId) {
        let due = self.pending.remove(&call).and_then(|pending| pending.due);
        if let Some(due) = due {
            self.dues.remove(&(due, call));
        }
    }

    /// The call's time is over. If its step has ended, it still waits to be told that.
    pub(super) fn no_longer_due(&mut self, at: Time, call: CallId) {
        self.dues.remove(&(at, call));
        if let Some(pending) = self.pending.get_mut(&call) {
            pending.due = None;
        }
    }

    /// The call waits somewhere else.
    pub(super) fn go_to(&mut self, call: CallId, place: Place) {
        if let Some(pending) = self.pending.get_mut(&call) {
            pending.place = place;
        }
    }
}
