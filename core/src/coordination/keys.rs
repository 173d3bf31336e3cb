//! The key-value store: reading, putting, counting, deleting.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;
use bytes::Bytes;

use super::key::normal;
use super::live::{Doing, Seat};
use super::machine::{Answer, Asked, Coordination, Said, Turn};
use super::record::Record;
use super::refusal::Refusal;
use super::reply::{KeyEntry, Reply};
use super::request::{Caller, Condition};
use super::slot::StoredEntry;
use super::store::{Store, cost};
use super::types::{Phase, Value};
use crate::ids::{NamespaceId, Revision, TaskIndex};
use crate::limits::{KEY_BYTES_MAX, LEASED_KEYS_MAX, LISTED_KEYS_MAX};

/// The longest value that can be incremented, in bytes: the lowest number of 64 bits.
const NUMBER_BYTES_MAX: u64 = 20;

impl Coordination {
    /// `InsertKeyValue` and its relatives.
    pub(super) fn put_key(
        &mut self,
        turn: &mut Turn<'_>,
        asked: Asked<'_>,
        key: &str,
        (value, condition): (Value, Condition),
        lease: Option<TaskIndex>,
    ) -> Answer {
        let Asked { id, caller, .. } = asked;
        check_key(key)?;
        let normal = normal(key);
        let entry = self.namespace(id)?.store.get(&normal);
        check_condition(key, entry, condition)?;
        let former = entry.and_then(|entry| entry.lease());
        self.check_lease(id, caller, (former, lease))?;
        let shared = entry.map_or_else(|| Arc::from(&*normal), |entry| entry.key().clone());
        self.put(turn, asked, shared, value, lease)?;
        let revision = self.namespace(id)?.head.revision;
        Ok(Said::Now(Reply::Put { revision }, turn.log.last()))
    }

    /// Puts a key, if there is room.
    fn put(
        &mut self,
        turn: &mut Turn<'_>,
        asked: Asked<'_>,
        key: Arc<str>,
        value: Value,
        lease: Option<TaskIndex>,
    ) -> Result<(), Refusal> {
        let Asked { id, caller, .. } = asked;
        self.check_value(id, &key, &value)?;
        if let Some(task) = self.asker(id, caller) {
            self.note(id, task, Doing::PutKey(key.clone()), turn.now);
        }
        self.commit(turn, Record::PutKey { namespace: id, key, value, lease })?;
        Ok(())
    }

    fn check_value(&self, id: NamespaceId, key: &str, value: &Value) -> Result<(), Refusal> {
        let settings = &self.live(id)?.settings;
        let store = &self.namespace(id)?.store;
        let (found, bound) = (value.size_bytes(), settings.value_bytes_max);
        if found > bound {
            return Err(Refusal::TooLong { what: "the value", found, bound });
        }
        let before = store.get(key);
        if before.is_none() && store.entries().len() >= settings.keys_max {
            return Err(Refusal::TooMany { what: "keys", bound: settings.keys_max as u64 });
        }
        let freed = before.map_or(0, |entry| entry.cost());
        let rest = store.size_bytes().saturating_sub(freed);
        if rest.saturating_add(cost(key, found)) > settings.store_bytes_max {
            let bound = settings.store_bytes_max;
            return Err(Refusal::TooMany { what: "bytes of keys and values", bound });
        }
        self.check_memory_for_value(before, value)
    }

    /// A key that is there may have a value that takes no more memory, and a counter one more digit.
    fn check_memory_for_value(
        &self,
        before: Option<StoredEntry<'_>>,
        value: &Value,
    ) -> Result<(), Refusal> {
        let Err(refusal) = self.memory.check_state("keys and values") else {
            return Ok(());
        };
        let takes_no_more = before.map(|entry| entry.value()).is_some_and(|before| {
            value.size_bytes() <= before.size_bytes().max(NUMBER_BYTES_MAX)
                || self.in_memory(value) <= self.in_memory(&before)
        });
        if takes_no_more { Ok(()) } else { Err(refusal.into()) }
    }

    /// The bytes of a value that are in memory. A long value is a blob, which is in a file if there are any.
    fn in_memory(&self, value: &Value) -> u64 {
        match value {
            Value::Blob { .. } if !self.keeps_blobs => 0,
            value => value.size_bytes(),
        }
    }

    /// A key can die with a task only if that lives, and only so many keys can. A key that the task has
    /// leased already does not count once more.
    fn check_lease(
        &self,
        id: NamespaceId,
        caller: &Caller,
        (former, lease): (Option<TaskIndex>, Option<TaskIndex>),
    ) -> Result<(), Refusal> {
        let Some(task) = lease else {
            return Ok(());
        };
        let namespace = self.namespace(id)?;
        let known = namespace.tasks.get(&task);
        if known.is_none_or(|known| known.phase != Phase::Connected) {
            return Err(Refusal::NoLease { task: self.called(id, task, caller.dialect) });
        }
        let is_one_more = former != Some(task);
        match is_one_more && namespace.store.leased_by(task).count() >= LEASED_KEYS_MAX {
            true => Err(Refusal::TooMany { what: "leased keys", bound: LEASED_KEYS_MAX as u64 }),
            false => Ok(()),
        }
    }

    /// `GetKeyValue`.
    pub(super) fn get_key(&mut self, turn: &Turn<'_>, asked: Asked<'_>, key: &str) -> Answer {
        let Asked { id, call, caller } = asked;
        check_key(key)?;
        let normal = normal(key);
        if let Some(entry) = self.namespace(id)?.store.get(&normal) {
            return Ok(found(entry));
        }
        let key: Arc<str> = match self.live(id)?.gets.get_key_value(&*normal) {
            Some((key, _)) => key.clone(),
            None => Arc::from(&*normal),
        };
        self.park(call, id, Seat::Key(key.clone()))?;
        if let Some(task) = self.asker(id, caller) {
            self.note(id, task, Doing::WaitsForKey(key.clone()), turn.now);
        }
        self.live_mut(id)?.gets.entry(key).or_default().insert(call, turn.now);
        Ok(Said::Later)
    }

    /// `TryGetKeyValue`.
    pub(super) fn try_get_key(&self, id: NamespaceId, key: &str) -> Answer {
        check_key(key)?;
        let namespace = self.namespace(id)?;
        Ok(match namespace.store.get(&normal(key)) {
            Some(entry) => found(entry),
            None => Said::No(Refusal::NoKey(key.into()), namespace.head.keys_changed),
        })
    }

    /// `IncrementKeyValue`: values are decimal numbers.
    pub(super) fn increment_key(
        &mut self,
        turn: &mut Turn<'_>,
        asked: Asked<'_>,
        key: &str,
        increment: i64,
    ) -> Answer {
        let id = asked.id;
        check_key(key)?;
        let normal = normal(key);
        let entry = self.namespace(id)?.store.get(&normal);
        let refusal =
            |reason: String| Refusal::CannotIncrement { key: key.into(), increment, reason };
        let before = entry.map_or(Ok(0), |entry| number(&entry.value())).map_err(refusal)?;
        let sum = before.checked_add(increment);
        let sum =
            sum.ok_or_else(|| refusal(format!("{before} would leave the range of 64 bits")))?;
        let lease = entry.and_then(|entry| entry.lease());
        let shared = entry.map_or_else(|| Arc::from(&*normal), |entry| entry.key().clone());
        let value = Bytes::from(sum.to_string());
        self.put(turn, asked, shared, Value::Inline(value.clone()), lease)?;
        let (value, revision) = (Value::Inline(value), self.namespace(id)?.head.revision);
        Ok(Said::Now(Reply::Value { value, revision }, turn.log.last()))
    }

    /// `DeleteKeyValue`.
    pub(super) fn delete_key(&mut self, turn: &mut Turn<'_>, id: NamespaceId, key: &str) -> Answer {
        check_key(key)?;
        let normal = normal(key);
        let store = &self.namespace(id)?.store;
        let below = !normal.is_empty() && store.under(&normal).next().is_some();
        if below || store.get(&normal).is_some() {
            let key = Arc::from(&*normal);
            self.commit(turn, Record::DeleteKey { namespace: id, key })?;
        }
        let head = &self.namespace(id)?.head;
        Ok(Said::Now(Reply::Deleted { revision: head.revision }, head.keys_changed))
    }
}

fn found(entry: StoredEntry<'_>) -> Said {
    let (value, revision) = (entry.value(), entry.revision());
    Said::Now(Reply::Value { value, revision }, entry.changed())
}

/// Entries of a store as one answer. If there may be too many, they are counted first: that is quick, and an
/// answer's entries take memory of their own.
pub(super) fn listed<'a>(
    store: &Store,
    entries: impl Iterator<Item = StoredEntry<'a>> + Clone,
) -> Result<Vec<KeyEntry>, Refusal> {
    let may_be_many = store.entries().len() > LISTED_KEYS_MAX;
    match may_be_many && entries.clone().nth(LISTED_KEYS_MAX).is_some() {
        true => Err(Refusal::TooMany { what: "keys in one answer", bound: LISTED_KEYS_MAX as u64 }),
        false => Ok(entries.map(entry_of).collect()),
    }
}

fn entry_of(entry: StoredEntry<'_>) -> KeyEntry {
    KeyEntry { key: entry.key().clone(), value: entry.value(), revision: entry.revision() }
}

pub(super) fn check_key(key: &str) -> Result<(), Refusal> {
    let (found, bound) = (key.len() as u64, KEY_BYTES_MAX as u64);
    match found > bound {
        true => Err(Refusal::TooLong { what: "the key", found, bound }),
        false => Ok(()),
    }
}

fn check_condition(
    key: &str,
    entry: Option<StoredEntry<'_>>,
    condition: Condition,
) -> Result<(), Refusal> {
    let revision = entry.map_or(Revision::new(0), |entry| entry.revision());
    match (condition, entry) {
        (Condition::Absent, Some(_)) => Err(Refusal::KeyExists(key.into())),
        (Condition::Present, None) => Err(Refusal::NoKey(key.into())),
        (Condition::Revision(asked), _) if asked != revision => {
            let (found, asked) = (revision.get(), asked.get());
            Err(Refusal::OtherRevision { key: key.into(), found, asked })
        }
        _ => Ok(()),
    }
}

/// A value as a decimal number.
fn number(value: &Value) -> Result<i64, String> {
    let Value::Inline(bytes) = value else {
        return Err("its value is too long to be a number".into());
    };
    let text = core::str::from_utf8(bytes).map_err(|_| String::from("its value is no text"))?;
    let text = text.trim_matches(|c: char| c.is_ascii_whitespace());
    text.parse().map_err(|_| match text.len() > 40 {
        true => "its value is no decimal number of 64 bits".into(),
        false => format!("its value {text:?} is no decimal number of 64 bits"),
    })
}
