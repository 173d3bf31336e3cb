//! A relay's marks on a task's calls: what must not happen twice is sent again under the same one.

use std::collections::BTreeSet;

use rondo_core::coordination::{Method, Stamp};
use rondo_core::ids::RelayId;

/// The marks of one relay, which lives as long as its task's process.
#[derive(Clone, Debug)]
pub(super) struct Marks {
    relay: RelayId,
    next: u64,
    /// Those whose result has not come.
    open: BTreeSet<u64>,
}

impl Marks {
    pub(super) const fn of(relay: u64) -> Self {
        Self { relay: RelayId::new(relay), next: 1, open: BTreeSet::new() }
    }

    /// The number of the next call.
    pub(super) fn draw(&mut self) -> u64 {
        let number = self.next;
        self.next = self.next.saturating_add(1);
        self.open.insert(number);
        number
    }

    /// The mark of a call of a number as it is sent now.
    pub(super) fn stamp(&self, sequence: u64) -> Stamp {
        let first = self.open.first().copied().unwrap_or(self.next);
        Stamp { relay: self.relay, sequence, acknowledged: first.saturating_sub(1) }
    }

    /// The result of a call has come.
    pub(super) fn close(&mut self, sequence: u64) {
        self.open.remove(&sequence);
    }
}

/// Whether a relay marks it.
pub(super) const fn happens_once(method: &Method) -> bool {
    matches!(
        method,
        Method::ShutdownTask { .. }
            | Method::ReportErrorToService { .. }
            | Method::Barrier { .. }
            | Method::CancelBarrier { .. }
            | Method::PutKeyValue { .. }
            | Method::IncrementKeyValue { .. }
            | Method::DeleteKeyValue { .. }
    )
}
