//! Keys: a list, and the list of all that ever changed.

use rondo_core::coordination::{Condition, Method};
use rondo_core::ids::{CallId, TaskIndex};
use rondo_core::status::Code;

use super::heard::text;
use super::{Heard, Model, Phase, Waits};

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Key {
    key: String,
    value: String,
    revision: u64,
    lease: Option<i32>,
}

/// A change: a key put, or gone, perhaps with all under it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Changed {
    key: String,
    value: Option<String>,
    with_all_under: bool,
    revision: u64,
}

fn tidy(key: &str) -> String {
    let parts: Vec<_> = key.split('/').filter(|part| !part.is_empty()).collect();
    parts.join("/")
}

/// Everything is in "".
fn is_in(key: &str, directory: &str) -> bool {
    directory.is_empty() || key.starts_with(&format!("{directory}/"))
}

impl Changed {
    fn concerns(&self, watched: &str) -> bool {
        let above = self.with_all_under && !self.key.is_empty() && is_in(watched, &self.key);
        self.key == watched || is_in(&self.key, watched) || above
    }
}

impl Model {
    pub(super) fn of_keys(&mut self, call: CallId, method: &Method) -> Option<Heard> {
        match method {
            Method::PutKeyValue { key, value, condition, lease } => {
                Some(self.put(&tidy(key), &text(value), *condition, lease.map(TaskIndex::get)))
            }
            Method::GetKeyValue { key } => {
                let found = self.find(&tidy(key)).map(|found| Heard::Value(found.value.clone()));
                if found.is_none() {
                    self.waiting.push((call, Waits::ForKey(tidy(key))));
                }
                found
            }
            Method::TryGetKeyValue { key } => Some(match self.find(&tidy(key)) {
                Some(found) => Heard::Value(found.value.clone()),
                None => Heard::Refused(Code::NotFound),
            }),
            Method::IncrementKeyValue { key, increment } => {
                Some(self.increment(&tidy(key), *increment))
            }
            Method::GetKeyValueDir { directory } => {
                let directory = tidy(directory);
                let is_under = |key: &str| !directory.is_empty() && is_in(key, &directory);
                Some(Heard::Directory(self.keys_where(is_under)))
            }
            Method::DeleteKeyValue { key } => {
                self.delete(&tidy(key));
                Some(Heard::Deleted)
            }
            Method::WatchKeys { key, from } => {
                self.watch(call, tidy(key), from.map(rondo_core::ids::Revision::get))
            }
            other => panic!("not in the model: {other:?}"),
        }
    }

    fn find(&self, key: &str) -> Option<&Key> {
        self.kept.keys.iter().find(|there| there.key == key)
    }

    fn keys_where(&self, which: impl Fn(&str) -> bool) -> Vec<(String, String)> {
        let keys = self.kept.keys.iter().filter(|there| which(&there.key));
        let mut keys: Vec<_> = keys.map(|there| (there.key.clone(), there.value.clone())).collect();
        keys.sort();
        keys
    }

    fn put(&mut self, key: &str, value: &str, condition: Condition, lease: Option<i32>) -> Heard {
        let revision = self.find(key).map_or(0, |there| there.revision);
        let refused = match condition {
            Condition::Absent if revision > 0 => Some(Code::AlreadyExists),
            Condition::Present if revision == 0 => Some(Code::NotFound),
            Condition::Revision(asked) if asked.get() != revision => Some(Code::FailedPrecondition),
            _ => None,
        };
        if let Some(code) = refused {
            return Heard::Refused(code);
        }
        if lease.is_some_and(|task| self.phase(task) != Some(Phase::Here)) {
            return Heard::Refused(Code::FailedPrecondition);
        }
        self.set(key, value, lease);
        Heard::Put
    }

    fn set(&mut self, key: &str, value: &str, lease: Option<i32>) {
        self.kept.keys.retain(|there| there.key != key);
        self.change(vec![(key.into(), Some(value.into()), false)]);
        let (key, revision) = (key.to_owned(), self.kept.revision);
        let (wanted, value) = (key.clone(), value.to_owned());
        let heard = Heard::Value(value.clone());
        self.kept.keys.push(Key { key, value, revision, lease });
        self.release(&heard, |waits| *waits == Waits::ForKey(wanted.clone()));
    }

    fn increment(&mut self, key: &str, increment: i64) -> Heard {
        let before = self.find(key).map_or(Ok(0), |there| there.value.parse::<i64>());
        let sum = before.ok().and_then(|before| before.checked_add(increment));
        let Some(sum) = sum else {
            return Heard::Refused(Code::FailedPrecondition);
        };
        let lease = self.find(key).and_then(|there| there.lease);
        self.set(key, &sum.to_string(), lease);
        Heard::Value(sum.to_string())
    }

    fn delete(&mut self, key: &str) {
        let before = self.kept.keys.len();
        let gone = |there: &str| there == key || (!key.is_empty() && is_in(there, key));
        self.kept.keys.retain(|there| !gone(&there.key));
        if self.kept.keys.len() < before {
            self.change(vec![(key.into(), None, !key.is_empty())]);
        }
    }

    pub(super) fn end_leases(&mut self, task: i32) {
        let mut gone: Vec<_> =
            self.kept.keys.iter().filter(|key| key.lease == Some(task)).collect();
        gone.sort_by_key(|key| key.key.clone());
        let gone: Vec<_> = gone.into_iter().map(|key| (key.key.clone(), None, false)).collect();
        self.kept.keys.retain(|key| key.lease != Some(task));
        if !gone.is_empty() {
            self.change(gone);
        }
    }

    /// Keys change together.
    fn change(&mut self, changes: Vec<(String, Option<String>, bool)>) {
        let from = self.kept.revision;
        for (key, value, with_all_under) in changes {
            self.kept.revision += 1;
            let revision = self.kept.revision;
            self.kept.changes.push(Changed { key, value, with_all_under, revision });
        }
        let watches: Vec<_> = self.waiting.iter().map(|(_, waits)| waits.clone()).collect();
        for watch in watches {
            if let Waits::ForChanges(watched) = &watch
                && let Some(heard) = self.changes_of(watched, from)
            {
                self.release(&heard, |waits| *waits == watch);
            }
        }
    }

    fn changes_of(&self, watched: &str, from: u64) -> Option<Heard> {
        let changes = self.kept.changes.iter();
        let changes = changes.filter(|change| change.revision > from && change.concerns(watched));
        let changes: Vec<_> =
            changes.map(|change| (change.key.clone(), change.value.clone())).collect();
        (!changes.is_empty()).then_some(Heard::Changes(changes, self.kept.revision))
    }

    fn watch(&mut self, call: CallId, key: String, from: Option<u64>) -> Option<Heard> {
        let Some(from) = from.filter(|from| *from >= self.kept.first) else {
            let there = self.keys_where(|there| there == key || is_in(there, &key));
            return Some(Heard::Keys(there, self.kept.revision));
        };
        if from > self.kept.revision {
            return Some(Heard::Refused(Code::InvalidArgument));
        }
        let heard = self.changes_of(&key, from);
        if heard.is_none() {
            self.waiting.push((call, Waits::ForChanges(key)));
        }
        heard
    }
}
