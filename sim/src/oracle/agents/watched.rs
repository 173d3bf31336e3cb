//! Keys that an agent watches: each asked for once at a time and again soon, each change told once.

use std::collections::BTreeMap;
use std::sync::Arc;

use rondo_core::agent::Reply;
use rondo_core::ids::{CallId, Revision};
use rondo_core::status::Status;
use rondo_core::time::{Duration, Time};

use super::{SLACK, Verdict};
use crate::checks::{Check, reached};
use crate::workload::agents::AppCall;

/// A watch that broke goes on no later than after so long.
const PAUSE_MAX: Duration = Duration::from_millis(400);
/// The same of one for which the service had no room.
const PAUSE_MAX_FOR_ROOM: Duration = Duration::from_millis(4000);

/// A key that is watched.
#[derive(Debug, Default)]
struct OneKey {
    /// The call that began it.
    begun_by: Option<CallId>,
    /// The newest change that was told.
    told: Revision,
    /// Since when the service is not asked for changes.
    unasked: Option<Time>,
    /// Whether the service had no room for it when it was asked last.
    has_no_room: bool,
}

/// All keys that are watched.
#[derive(Debug, Default)]
pub(super) struct Watched {
    keys: BTreeMap<Arc<str>, OneKey>,
}

impl Watched {
    pub(super) fn has(&self, key: &str) -> bool {
        self.keys.contains_key(key)
    }

    pub(super) fn begin(&mut self, key: Arc<str>, call: CallId) {
        self.keys.insert(key, OneKey { begun_by: Some(call), ..OneKey::default() });
    }

    /// The service refused the watch, for want of room or for another reason.
    pub(super) fn has_no_room(&mut self, key: &str, has_no_room: bool) {
        if let Some(of) = self.keys.get_mut(key) {
            of.has_no_room = has_no_room;
        }
    }

    pub(super) fn end(&mut self, key: &str) {
        self.keys.remove(key);
    }

    /// A call of the application is answered.
    pub(super) fn done(&mut self, call: CallId, what: &AppCall, result: &Result<Reply, Status>) {
        match (what, result) {
            (AppCall::StartWatch(key), Err(_)) => {
                let is_of_it = |of: &OneKey| of.begun_by == Some(call);
                if self.keys.get(key).is_some_and(is_of_it) {
                    self.keys.remove(key);
                }
            }
            (AppCall::StopWatch(key), Ok(_)) => drop(self.keys.remove(key)),
            _ => {}
        }
    }

    /// Changes come in order, each once; or all keys there are, in place of what was told.
    pub(super) fn changed(&mut self, key: &str, whole: bool, revisions: &[Revision]) -> Verdict {
        reached(Check::AgentChanged);
        let Some(of) = self.keys.get_mut(key) else {
            return Err(format!("changes of {key:?} are told, which is not watched"));
        };
        if whole {
            of.told = revisions.iter().copied().max().unwrap_or_default();
            return Ok(());
        }
        for revision in revisions {
            if *revision <= of.told {
                let (told, again) = (of.told.get(), revision.get());
                return Err(format!("change {again} of {key:?} is told after change {told}"));
            }
            of.told = *revision;
        }
        Ok(())
    }

    pub(super) fn looked<'a>(
        &mut self,
        now: Time,
        asked: impl Iterator<Item = &'a Arc<str>>,
    ) -> Verdict {
        let mut counts: BTreeMap<&Arc<str>, u32> = BTreeMap::new();
        for key in asked {
            let count = counts.entry(key).or_default();
            *count = count.saturating_add(1);
        }
        let too_often = counts.iter().find(|(key, count)| **count > 1 || !self.has(key));
        if let Some((key, count)) = too_often {
            let watched = self.has(key);
            return Err(format!("{key:?}, watched {watched}, is asked for {count} times"));
        }
        for (key, of) in &mut self.keys {
            if counts.contains_key(key) {
                of.unasked = None;
                continue;
            }
            let since = *of.unasked.get_or_insert(now);
            let pause = if of.has_no_room { PAUSE_MAX_FOR_ROOM } else { PAUSE_MAX };
            if now > since.after(pause).after(SLACK) {
                return Err(format!("{key:?} is watched, and the service is not asked for it"));
            }
        }
        Ok(())
    }
}
