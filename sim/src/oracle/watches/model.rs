//! The keys of each life of each namespace and their changes, as the records say, by code of its own.

use std::collections::BTreeMap;
use std::sync::Arc;

use rondo_core::coordination::{Change, ChangeKind, Namespace, Record, Store};
use rondo_core::ids::{Lsn, NamespaceId, Revision, TaskIndex};

use super::Life;
use crate::oracle::Verdict;

/// A key: the revision of its newest change, and the task with which it ends.
type Entry = (u64, Option<TaskIndex>);

/// One life's changes, oldest first; each has the revision after the one before.
#[derive(Debug, Default)]
struct Log {
    /// The revision with which the life began.
    first: u64,
    changes: Vec<(Lsn, Option<TaskIndex>, Change)>,
    entries: BTreeMap<Arc<str>, Entry>,
}

/// All lives.
#[derive(Debug, Default)]
pub(in crate::oracle) struct Keys {
    logs: BTreeMap<Life, Log>,
    /// The lives of each namespace and the record with which each began, oldest first.
    lives: BTreeMap<NamespaceId, Vec<(Lsn, Life)>>,
}

/// Whether a key is another one or stands under it. All stand under "".
pub(super) fn is_at_or_under(key: &str, other: &str) -> bool {
    other.is_empty() || key == other || is_under(key, other)
}

fn is_under(key: &str, directory: &str) -> bool {
    match directory.is_empty() {
        true => !key.is_empty(),
        false => key.strip_prefix(directory).is_some_and(|rest| rest.starts_with('/')),
    }
}

/// Whether a change is one of a watched key or of a key under it.
fn concerns(change: &Change, watched: &str) -> bool {
    let takes_all = change.kind == ChangeKind::DeletedWithAllUnder;
    is_at_or_under(&change.key, watched) || takes_all && is_under(watched, &change.key)
}

impl Log {
    fn newest(&self) -> u64 {
        self.changes.last().map_or(self.first, |(_, _, change)| change.revision.get())
    }

    fn change(&mut self, lsn: Lsn, key: Arc<str>, kind: ChangeKind, lease: Option<TaskIndex>) {
        let revision = Revision::new(self.newest().saturating_add(1));
        let change = Change { key, kind, revision };
        apply(&mut self.entries, &change, lease);
        self.changes.push((lsn, lease, change));
    }

    fn delete(&mut self, lsn: Lsn, key: &Arc<str>) {
        let kind = match key.is_empty() {
            true => ChangeKind::Deleted,
            false => ChangeKind::DeletedWithAllUnder,
        };
        let is_there = self.entries.contains_key(key)
            || !key.is_empty() && self.entries.keys().any(|of| is_under(of, key));
        if is_there {
            self.change(lsn, key.clone(), kind, None);
        }
    }

    fn end_leases(&mut self, lsn: Lsn, task: TaskIndex) {
        let leased = self.entries.iter().filter(|(_, (_, lease))| *lease == Some(task));
        let leased: Vec<Arc<str>> = leased.map(|(key, _)| key.clone()).collect();
        for key in leased {
            self.change(lsn, key, ChangeKind::Deleted, None);
        }
    }

    fn at(&self, revision: u64) -> BTreeMap<Arc<str>, Entry> {
        let mut entries = BTreeMap::new();
        let until = self.changes.iter().take_while(|(_, _, of)| of.revision.get() <= revision);
        until.for_each(|(_, lease, change)| apply(&mut entries, change, *lease));
        entries
    }

    fn put_at(&self, revision: u64) -> Option<&Change> {
        let place = revision.checked_sub(self.first)?.checked_sub(1)?;
        let (_, _, change) = self.changes.get(usize::try_from(place).ok()?)?;
        Some(change).filter(|change| matches!(change.kind, ChangeKind::Put(_)))
    }

    /// Returns the first difference between a store and the keys that these changes make.
    fn difference(&self, store: &Store) -> Option<String> {
        let own = self.entries.iter().map(|(key, (revision, lease))| (&**key, *revision, *lease));
        let kept = store.entries();
        let kept_entries =
            kept.clone().map(|entry| (&**entry.key(), entry.revision().get(), entry.lease()));
        if !own.clone().eq(kept_entries.clone()) {
            let (own, kept): (Vec<_>, Vec<_>) = (own.collect(), kept_entries.collect());
            return Some(format!("the keys are {kept:?}, and should be {own:?}"));
        }
        for entry in kept {
            let put = self.put_at(entry.revision().get()).map(|change| &change.kind);
            if put != Some(&ChangeKind::Put(entry.value())) {
                return Some(format!(
                    "{:?} has {:?}, and should have {put:?}",
                    entry.key(),
                    entry.value()
                ));
            }
        }
        let remembered = store.changes();
        let newest = self.changes.iter().rev().take(remembered.len());
        match newest.map(|(_, _, change)| change).eq(remembered.iter().rev()) {
            true => None,
            false => Some(format!("the changes {remembered:?} are not the newest ones")),
        }
    }

    fn cut(&mut self, upto: Lsn) {
        if self.changes.last().is_some_and(|(lsn, _, _)| *lsn > upto) {
            self.changes.retain(|(lsn, _, _)| *lsn <= upto);
            self.entries = self.at(u64::MAX);
        }
    }
}

fn apply(entries: &mut BTreeMap<Arc<str>, Entry>, change: &Change, lease: Option<TaskIndex>) {
    match change.kind {
        ChangeKind::Put(_) => {
            entries.insert(change.key.clone(), (change.revision.get(), lease));
        }
        ChangeKind::Deleted => drop(entries.remove(&change.key)),
        ChangeKind::DeletedWithAllUnder => {
            entries.retain(|key, _| !is_at_or_under(key, &change.key));
        }
    }
}

impl Keys {
    /// A record was written.
    pub(in crate::oracle) fn record(&mut self, lsn: Lsn, record: &Record) {
        if let Record::BeginLife { namespace, name, incarnation, .. } = record {
            let before = self.log_of(*namespace).map(|log| log.newest().saturating_add(1));
            let life = (name.clone(), *incarnation);
            let log = Log { first: before.unwrap_or(0), ..Log::default() };
            self.logs.insert(life.clone(), log);
            self.lives.entry(*namespace).or_default().push((lsn, life));
            return;
        }
        let Some(log) = self.log_of(record.namespace()) else {
            return;
        };
        match record {
            Record::PutKey { key, value, lease, .. } => {
                log.change(lsn, key.clone(), ChangeKind::Put(value.clone()), *lease);
            }
            Record::DeleteKey { key, .. } => log.delete(lsn, key),
            Record::EndLeases { task, .. } => log.end_leases(lsn, *task),
            _ => {}
        }
    }

    /// Only the records up to this one are left.
    pub(in crate::oracle) fn recovered(&mut self, upto: Lsn) {
        for lives in self.lives.values_mut() {
            lives.retain(|(lsn, _)| *lsn <= upto);
        }
        self.logs.values_mut().for_each(|log| log.cut(upto));
    }

    /// Returns the first difference between a namespace's keys and those that the records make.
    pub(in crate::oracle) fn difference(&self, of: &Namespace) -> Option<String> {
        let (_, life) = self.lives.get(&of.head().id)?.last()?;
        let log = self.logs.get(life)?;
        let (own, revision) = (log.newest(), of.head().revision.get());
        match own == revision {
            true => log.difference(of.store()),
            false => Some(format!("the revision is {revision}, and should be {own}")),
        }
    }

    fn log_of(&mut self, namespace: NamespaceId) -> Option<&mut Log> {
        let (_, life) = self.lives.get(&namespace)?.last()?;
        self.logs.get_mut(life)
    }

    /// The present life of a namespace.
    pub(super) fn life_of(&self, name: &str) -> Option<Life> {
        let mut present = self.lives.values().filter_map(|lives| lives.last());
        present.find(|(_, life)| *life.0 == *name).map(|(_, life)| life.clone())
    }

    /// The revision with which a life began.
    pub(super) fn first(&self, life: &Life) -> u64 {
        self.logs.get(life).map_or(0, |log| log.first)
    }

    /// The newest revision of a life.
    pub(super) fn newest(&self, life: &Life) -> u64 {
        self.logs.get(life).map_or(0, Log::newest)
    }

    /// The changes of a key, and of keys under it, after one revision and up to another.
    pub(super) fn changes<'a>(
        &'a self,
        life: &Life,
        key: &'a str,
        (from, upto): (u64, u64),
    ) -> impl Iterator<Item = &'a Change> {
        let all = self.logs.get(life).into_iter().flat_map(|log| &log.changes);
        let all = all.map(|(_, _, change)| change);
        all.filter(move |change| {
            let revision = change.revision.get();
            revision > from && revision <= upto && concerns(change, key)
        })
    }

    /// The keys that there are at a revision, each with that of its newest change.
    pub(super) fn at(&self, life: &Life, revision: u64) -> BTreeMap<Arc<str>, u64> {
        let entries = self.logs.get(life).map(|log| log.at(revision)).unwrap_or_default();
        entries.into_iter().map(|(key, (revision, _))| (key, revision)).collect()
    }

    /// A put that was answered with a revision made it.
    pub(super) fn has_put(&self, life: &Life, key: &str, revision: u64) -> Verdict {
        let put = self.logs.get(life).and_then(|log| log.put_at(revision));
        match put.is_some_and(|put| *put.key == *key) {
            true => Ok(()),
            false => {
                Err(format!("a put of {key:?} was answered with revision {revision}: {put:?}"))
            }
        }
    }

    /// Nothing is left of a key at the revision with which its deletion was answered.
    pub(super) fn has_deleted(&self, life: &Life, key: &str, revision: u64) -> Verdict {
        let is_gone = |of: &str| *of == *key || !key.is_empty() && is_under(of, key);
        match self.at(life, revision).keys().find(|of| is_gone(of)) {
            None => Ok(()),
            Some(left) => {
                Err(format!("{key:?} was deleted at revision {revision}, and {left:?} is there"))
            }
        }
    }
}
