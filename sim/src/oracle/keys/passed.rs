//! Calls as tasks see them that talk to a relay: each lasts from being made until the relay answers it,
//! however often the relay sends it, and over deaths of the node. What nobody waits for any more
//! happens once until the relay has no more of it, or never.

use rondo_core::coordination::{Call, Method, Reply};
use rondo_core::ids::{CallId, ServiceIncarnation};
use rondo_core::status::{Code, Detail, Status};

use super::history::What;
use super::{Keys, Life, Open, Place, is_under, normal};
use crate::call_map::CallMap;
use crate::oracle::Verdict;

/// What is known of them besides.
#[derive(Default)]
pub(super) struct Passed {
    /// Calls that nobody waits for.
    alone: CallMap<Open>,
    /// Deletions that may yet happen: since when, in which life, of what.
    deletes: CallMap<(u64, Life, String)>,
}

/// Whether a refusal says that the life is over: the call may have happened while it was not, and
/// been sent again since.
fn is_of_other_life(status: &Status, asked: ServiceIncarnation) -> bool {
    let mismatch = |detail: &Detail| matches!(detail, Detail::ServiceMismatch { .. });
    let is_over = format!("the job that registered here as life {asked} is over; ");
    status.details.iter().any(mismatch)
        || status.code == Code::Aborted && status.message.starts_with(&is_over)
}

impl Keys {
    /// One that watches where tasks are.
    pub(in crate::oracle) fn through_relays() -> Self {
        Self { passed: Some(Passed::default()), ..Self::default() }
    }

    pub(super) fn pass(&mut self, call: CallId, asked: &Call) {
        // Only who has registered does anything with keys.
        let Some(life) = asked.caller.life.filter(|_| self.passed.is_some()) else {
            return;
        };
        let (life, at) = ((asked.namespace.clone(), life), self.tick());
        let method = asked.method.clone();
        let ops = self.invoke(at, &life, &method);
        self.endure(&ops);
        if let (Method::DeleteKeyValue { key }, Some(passed)) = (&method, &mut self.passed) {
            passed.deletes.insert(call, (at, life.clone(), normal(key)));
        }
        let (stamp, perhaps) = (None, Vec::new());
        self.open.insert(call, Open { life, method, stamp, ops, passed: true, perhaps });
    }

    fn endure(&mut self, ops: &[(Place, usize)]) {
        for (place, op) in ops {
            if let Some(history) = self.histories.get_mut(place) {
                history.endure(*op);
            }
        }
    }

    /// A key is named for the first time: what deletes its directory, and may yet happen, deletes it
    /// too.
    pub(super) fn delete_from_new(&mut self, place: &Place) {
        let Some(passed) = &mut self.passed else {
            return;
        };
        if self.histories.contains_key(place) {
            return;
        }
        let history = self.histories.entry(place.clone()).or_default();
        for (call, (at, life, directory)) in passed.deletes.iter() {
            if *life != place.0 || !(place.1 == *directory || is_under(&place.1, directory)) {
                continue;
            }
            let op = history.invoke(*at, What::Delete);
            history.endure(op);
            let open = self.open.get_mut(call).or_else(|| passed.alone.get_mut(call));
            if let Some(open) = open {
                open.ops.push((place.clone(), op));
            }
        }
    }

    pub(super) fn pass_back(&mut self, call: CallId, answer: &Result<Reply, Status>) -> Verdict {
        let life = self.open.get(&call).map(|open| open.life.1);
        let unclear = |status: &Status| {
            super::may_have_happened(status)
                || life.is_some_and(|life| is_of_other_life(status, life))
        };
        if answer.as_ref().is_err_and(unclear) {
            self.pass_alone(call);
            return Ok(());
        }
        if let Some(passed) = &mut self.passed {
            passed.deletes.remove(&call);
        }
        self.told(call, answer)
    }

    /// Nobody waits for the call any more: it may have happened, or may yet.
    pub(super) fn pass_alone(&mut self, call: CallId) {
        if let (Some(passed), Some(open)) = (&mut self.passed, self.open.remove(&call)) {
            passed.alone.insert(call, open);
        }
    }

    /// The call has happened by now, or never will.
    pub(super) fn pass_over(&mut self, call: CallId) {
        let Some(passed) = &mut self.passed else {
            return;
        };
        passed.deletes.remove(&call);
        let Some(open) = passed.alone.remove(&call) else {
            return;
        };
        let at = self.tick();
        for (place, op) in &open.ops {
            if let Some(history) = self.histories.get_mut(place) {
                history.close(at, *op);
            }
        }
    }
}
