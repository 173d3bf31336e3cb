//! A watcher of keys misses no change: an answer has exactly the changes since the revision that the
//! caller knew, deletions among them, or all keys that there are at its revision.
//!
//! What changes there are follows from the records, by a model of the keys of its own. Acknowledged
//! puts and deletions are compared with it, too.

pub(super) mod model;

use std::sync::Arc;

use rondo_core::control::Record;
use rondo_core::coordination::{self, Call, Change, KeyEntry, Method, Reply};
use rondo_core::ids::{CallId, ServiceIncarnation};
use rondo_core::time::Time;

use self::model::{Keys, is_at_or_under};
use super::{Oracle, Seen, SeenKind, Shadow, Verdict};
use crate::call_map::CallMap;
use crate::checks::{Check, reached};

type Life = (Arc<str>, ServiceIncarnation);

/// A call under way.
#[derive(Debug)]
enum Open {
    Put(Life, String),
    Delete(Life, String),
    Watch(Life, Watch),
}

#[derive(Debug)]
struct Watch {
    key: String,
    from: Option<u64>,
    /// The newest revision when the node took the call.
    newest: u64,
}

#[derive(Default)]
pub(super) struct Watches {
    keys: Keys,
    open: CallMap<Open>,
}

fn normal(key: &str) -> String {
    key.split('/').filter(|part| !part.is_empty()).collect::<Vec<_>>().join("/")
}

impl Watches {
    fn asked(&mut self, call: CallId, asked: &Call) {
        let Some(life) = self.keys.life_of(&asked.namespace) else {
            return;
        };
        let open = match &asked.method {
            Method::PutKeyValue { key, .. } | Method::IncrementKeyValue { key, .. } => {
                Open::Put(life, normal(key))
            }
            Method::DeleteKeyValue { key } => Open::Delete(life, normal(key)),
            Method::WatchKeys { key, from } => {
                let newest = self.keys.newest(&life);
                let from = from.map(|from| from.get());
                Open::Watch(life, Watch { key: normal(key), from, newest })
            }
            _ => return,
        };
        self.open.insert(call, open);
    }

    fn told(&mut self, call: CallId, reply: Option<&Reply>) -> Verdict {
        match (self.open.remove(&call), reply) {
            (
                Some(Open::Put(life, key)),
                Some(Reply::Put { revision } | Reply::Value { revision, .. }),
            ) => {
                reached(Check::WatchPut);
                self.keys.has_put(&life, &key, revision.get())
            }
            (Some(Open::Delete(life, key)), Some(Reply::Deleted { revision })) => {
                reached(Check::WatchDelete);
                self.keys.has_deleted(&life, &key, revision.get())
            }
            (Some(Open::Watch(life, watch)), Some(Reply::Changes { changes, upto })) => {
                self.changed(&life, &watch, changes, upto.get())
            }
            (Some(Open::Watch(life, watch)), Some(Reply::Keys { entries, upto })) => {
                self.listed(&life, &watch, entries, upto.get())
            }
            _ => Ok(()),
        }
    }

    /// A watcher is told the changes since what it knew.
    fn changed(&self, life: &Life, watch: &Watch, changes: &[Change], upto: u64) -> Verdict {
        let Watch { key, from, .. } = watch;
        let Some(from) = *from else {
            return Err(format!("changes {changes:?} for one that knew nothing before"));
        };
        if from < self.keys.first(life) {
            return Err(format!("changes {changes:?} for one that knows a former life only"));
        }
        if upto > self.keys.newest(life) {
            return Err(format!("an answer to a watch knows revision {upto}, which is to come"));
        }
        let expected: Vec<&Change> = self.keys.changes(life, key, (from, upto)).collect();
        reached(Check::WatchChanges);
        if expected.iter().any(|change| !matches!(change.kind, coordination::ChangeKind::Put(_))) {
            reached(Check::WatchDeletion);
        }
        match expected.iter().copied().eq(changes) {
            true => Ok(()),
            false => Err(format!(
                "a watch of {key:?} from revision {from} up to {upto} was told {changes:?}; the \
                 changes are {expected:?}"
            )),
        }
    }

    /// A watcher is told all keys in place of what it knew.
    fn listed(&self, life: &Life, watch: &Watch, entries: &[KeyEntry], upto: u64) -> Verdict {
        let Watch { key, newest, .. } = watch;
        if upto < *newest || upto > self.keys.newest(life) {
            return Err(format!(
                "a watch of {key:?} was told the keys at revision {upto}; the newest was {newest}"
            ));
        }
        let at = self.keys.at(life, upto);
        let expected = at.iter().filter(|(of, _)| is_at_or_under(of, key));
        let expected: Vec<(&str, u64)> = expected.map(|(of, at)| (&**of, *at)).collect();
        reached(Check::WatchKeys);
        let told = entries.iter().map(|entry| (&*entry.key, entry.revision.get()));
        match expected.iter().copied().eq(told) {
            true => Ok(()),
            false => Err(format!(
                "a watch of {key:?} was told {entries:?} at revision {upto}; the keys are {expected:?}"
            )),
        }
    }
}

impl Oracle for Watches {
    fn name(&self) -> &'static str {
        "watch"
    }

    fn watches(&self) -> &'static [SeenKind] {
        &[
            SeenKind::Asked,
            SeenKind::Told,
            SeenKind::Died,
            SeenKind::Recovered,
            SeenKind::CoordinationRecord,
        ]
    }

    fn see(&mut self, _: Time, seen: &Seen<'_>, _: &Shadow) -> Verdict {
        match seen {
            Seen::Asked { call, asked, .. } => self.asked(*call, asked),
            Seen::Told { call, answer, .. } => return self.told(*call, answer.as_ref().ok()),
            Seen::Recorded { lsn, record: Record::Coordination(record), .. } => {
                self.keys.record(*lsn, record);
            }
            Seen::Died => self.open.clear(),
            Seen::Recovered { state, .. } => self.keys.recovered(state.applied),
            _ => {}
        }
        Ok(())
    }
}
