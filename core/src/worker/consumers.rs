//! The calls of consumers that are under way, and how many of them each connection has.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use bytes::Bytes;

use super::refusal;
use super::runner::Back;
use crate::ids::{CallId, ConnectionId, TaskId};
use crate::limits::CONSUMER_CALLS_MIN;
use crate::status::Status;

/// A call that is under way.
#[derive(Clone, Debug)]
pub(super) enum Call {
    /// It waits for something of a task.
    Waiting(TaskId),
    /// Its element is on its way.
    Leaving(TaskId, Bytes, Back),
}

/// All consumers' calls under way.
#[derive(Clone, Debug)]
pub(super) struct Consumers {
    calls: BTreeMap<CallId, (ConnectionId, Call)>,
    /// How many calls each connection has; none that has no call.
    of_client: BTreeMap<ConnectionId, usize>,
}

impl Consumers {
    /// No call is under way.
    pub(super) const fn new() -> Self {
        Self { calls: BTreeMap::new(), of_client: BTreeMap::new() }
    }

    /// Checks that a connection may have a call more. It may have as many as it leaves free, and some in any
    /// case, so that others cannot keep it from its elements.
    ///
    /// # Errors
    /// UNAVAILABLE with the bound: clients ask again after it.
    pub(super) fn check_room(&self, client: ConnectionId, calls_max: usize) -> Result<(), Status> {
        let (mine, all) = (self.of_client.get(&client).copied().unwrap_or(0), self.calls.len());
        let free = calls_max.saturating_sub(all);
        match mine < free.max(CONSUMER_CALLS_MIN) {
            true => Ok(()),
            false => Err(refusal::too_many_calls(calls_max, free, mine)),
        }
    }

    /// A call begins to wait for something of a task.
    pub(super) fn begin(&mut self, call: CallId, client: ConnectionId, task: TaskId) {
        self.calls.insert(call, (client, Call::Waiting(task)));
        let count = self.of_client.entry(client).or_default();
        *count = count.saturating_add(1);
    }

    /// A call that waited gets its element, which is on its way from now on.
    pub(super) fn leave(&mut self, call: CallId, task: TaskId, element: Bytes, back: Back) {
        if let Some((_, state)) = self.calls.get_mut(&call) {
            *state = Call::Leaving(task, element, back);
        }
    }

    /// Ends a call. Returns what it was doing.
    pub(super) fn end(&mut self, call: CallId) -> Option<Call> {
        let (client, state) = self.calls.remove(&call)?;
        if let Some(count) = self.of_client.get_mut(&client) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                self.of_client.remove(&client);
            }
        }
        Some(state)
    }

    /// Ends all calls whose element of this task is on its way.
    pub(super) fn end_leaving(&mut self, task: TaskId) {
        let leaving = self
            .calls
            .iter()
            .filter(|(_, (_, call))| matches!(call, Call::Leaving(of, ..) if *of == task));
        let leaving: Vec<CallId> = leaving.map(|(call, _)| *call).collect();
        for call in leaving {
            self.end(call);
        }
    }

    /// Whether no call is under way.
    pub(super) fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    /// All calls, in the order in which they came.
    pub(super) fn iter(&self) -> impl Iterator<Item = (CallId, &Call)> {
        self.calls.iter().map(|(call, (_, state))| (*call, state))
    }

    /// Whether the count of each connection is that of its calls.
    pub(super) fn is_counted(&self) -> bool {
        let mut counts: BTreeMap<ConnectionId, usize> = BTreeMap::new();
        for (client, _) in self.calls.values() {
            let count = counts.entry(*client).or_default();
            *count = count.saturating_add(1);
        }
        counts == self.of_client
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_count_is_seen() {
        let mut consumers = Consumers::new();
        let client = ConnectionId::new(1);
        consumers.begin(CallId::new(1), client, TaskId::new(5));
        consumers.begin(CallId::new(2), client, TaskId::new(5));
        assert!(consumers.is_counted());
        consumers.end(CallId::new(1));
        assert!(consumers.is_counted());
        consumers.of_client.insert(client, 2);
        assert!(!consumers.is_counted());
        consumers.of_client.clear();
        assert!(!consumers.is_counted());
    }
}
