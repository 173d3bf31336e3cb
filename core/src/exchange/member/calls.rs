//! The calls of the application that wait.

use alloc::collections::{BTreeMap, BTreeSet};

use super::barriers::Kind;
use crate::exchange::ids::MembershipVersion;
use crate::ids::CallId;
use crate::time::Time;

/// What a call waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// To take part.
    Join,
    /// That others come to a barrier.
    Barrier(Kind),
    /// That who takes part changes.
    Changed(MembershipVersion),
    /// That the scheduler knows that the process is done.
    Leave,
}

/// A call that waits, and until when.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waiting {
    pub(super) place: Place,
    pub(super) since: Time,
    pub(super) due: Option<Time>,
}

/// All calls that wait.
#[derive(Clone, Debug, Default)]
pub(super) struct Calls {
    pub(super) waiting: BTreeMap<CallId, Waiting>,
    pub(super) dues: BTreeSet<(Time, CallId)>,
}

impl Calls {
    pub(super) fn wait(&mut self, call: CallId, place: Place, since: Time, due: Option<Time>) {
        self.dues.extend(due.map(|due| (due, call)));
        self.waiting.insert(call, Waiting { place, since, due });
    }

    /// A call waits no more.
    pub(super) fn end(&mut self, call: CallId) -> Option<Waiting> {
        let waiting = self.waiting.remove(&call)?;
        if let Some(due) = waiting.due {
            self.dues.remove(&(due, call));
        }
        Some(waiting)
    }

    /// The first call that waits for something like that.
    pub(super) fn first(&self, is_it: impl Fn(Place) -> bool) -> Option<CallId> {
        self.waiting.iter().find(|(_, waiting)| is_it(waiting.place)).map(|(call, _)| *call)
    }
}
