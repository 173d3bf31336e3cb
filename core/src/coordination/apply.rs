//! The only code that changes the durable state: namespaces and their lives, keys, relays. Tasks
//! and barriers go on in [`super::apply_tasks`] and [`super::apply_barriers`].
//!
//! Every function first looks at all it needs and changes nothing when something does not fit, so
//! that a refused record leaves the state as it was.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::sync::Arc;

use super::record::{AliveAnswer, Changes, Kept, Record};
use super::request::Stamp;
use super::slot::Slot;
use super::state::{Head, Index, Namespace, Relay, State};
use super::store::{Freed, Store};
use super::types::Phase;
use crate::ids::{Lsn, NamespaceId, RelayId, Revision, ServiceIncarnation};
use crate::log::{ApplyError, exists, missing};
use crate::time::Time;

/// What a record did besides.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Applied {
    /// What its namespace has no more.
    pub(super) freed: Freed,
    /// Changes of keys.
    pub(super) changes: Changes,
}

impl State {
    /// Applies one record.
    ///
    /// # Errors
    /// When the record names what does not exist, or makes what does.
    pub fn apply(&mut self, lsn: Lsn, record: &Record) -> Result<(), ApplyError> {
        self.apply_telling(lsn, record).map(drop)
    }

    pub(super) fn apply_telling(
        &mut self,
        lsn: Lsn,
        record: &Record,
    ) -> Result<Applied, ApplyError> {
        let mut applied = Applied::default();
        if let Record::BeginLife { .. } = record {
            self.begin_life(lsn, record, &mut applied)?;
            return Ok(applied);
        }
        let id = record.namespace();
        let namespace = self.namespaces.get_mut(&id).ok_or_else(|| missing("namespace", id))?;
        match record {
            Record::PutKey { .. } | Record::DeleteKey { .. } | Record::EndLeases { .. } => {
                namespace.apply_keys(lsn, record, &mut applied);
                Ok(())
            }
            Record::ArriveAtBarrier { .. }
            | Record::LeaveBarrier { .. }
            | Record::EndBarrier { .. } => namespace.apply_barrier(lsn, record),
            Record::LearnSize { tasks, .. } => namespace.learn_size(lsn, *tasks),
            Record::NotePolling { .. } | Record::StickError { .. } => {
                namespace.apply_head(lsn, record);
                Ok(())
            }
            Record::KeepResult { relay, sequence, acknowledged, kept, .. } => {
                namespace.keep_result(*relay, *sequence, *acknowledged, kept.clone());
                Ok(())
            }
            Record::AnswerAlive { answer, .. } => {
                namespace.keep_alive_answer(answer);
                Ok(())
            }
            Record::ForgetRelays { relays, .. } => namespace.forget_relays(relays),
            _ => namespace.apply_task(lsn, record),
        }?;
        Ok(applied)
    }

    fn begin_life(
        &mut self,
        lsn: Lsn,
        record: &Record,
        applied: &mut Applied,
    ) -> Result<(), ApplyError> {
        let Record::BeginLife { namespace: id, name, incarnation, tasks, at } = record else {
            return Ok(());
        };
        let known = self.by_name.get(name);
        if known.is_some_and(|known| known != id) {
            return Err(exists("namespace with name", name));
        }
        if known.is_none() && self.namespaces.contains_key(id) {
            return Err(exists("namespace", id));
        }
        let life = Life { incarnation: *incarnation, tasks: *tasks, at: *at, lsn };
        match self.namespaces.get_mut(id) {
            Some(namespace) => namespace.begin(&life, applied),
            None => {
                self.by_name.insert(name.clone(), *id);
                self.namespaces.insert(*id, Namespace::first(*id, name.clone(), &life));
            }
        }
        Ok(())
    }
}

/// What a new life begins with.
struct Life {
    incarnation: ServiceIncarnation,
    tasks: Option<u32>,
    at: Time,
    lsn: Lsn,
}

impl Namespace {
    fn first(id: NamespaceId, name: Arc<str>, life: &Life) -> Self {
        Self::of(Head {
            id,
            name,
            life: 1,
            incarnation: life.incarnation,
            begun: life.at,
            size: life.tasks,
            version: 0,
            polled: false,
            sticky: None,
            revision: Revision::new(0),
            forgotten: Revision::new(0),
            former: BTreeMap::new(),
            changed: life.lsn,
            keys_changed: life.lsn,
        })
    }

    /// A life in which nothing has happened yet.
    pub(super) fn of(head: Head) -> Self {
        Self {
            head,
            tasks: BTreeMap::new(),
            barriers: BTreeMap::new(),
            store: Store::default(),
            relays: BTreeMap::new(),
            index: Index::default(),
        }
    }

    fn begin(&mut self, life: &Life, applied: &mut Applied) {
        let former = self.tasks.values().map(|task| (task.index, task.incarnation)).collect();
        let head = Head {
            life: self.head.life.saturating_add(1),
            incarnation: life.incarnation,
            begun: life.at,
            size: life.tasks,
            version: self.head.version.saturating_add(1),
            polled: false,
            sticky: None,
            // Whoever watched the keys of the life before does not know that they are gone.
            revision: self.head.revision.next(),
            forgotten: self.head.revision.next(),
            former,
            changed: life.lsn,
            keys_changed: life.lsn,
            ..self.head.clone()
        };
        applied.freed.blobs.extend(self.store.blobs.keys());
        applied.freed.entries.push(core::mem::take(&mut self.store.entries));
        *self = Self::of(head);
    }

    fn learn_size(&mut self, lsn: Lsn, tasks: u32) -> Result<(), ApplyError> {
        let outside = self
            .tasks
            .keys()
            .find(|task| u32::try_from(task.get()).map_or(true, |index| index >= tasks));
        if let Some(task) = outside {
            return Err(ApplyError(format!("a job of {tasks} tasks cannot have task {task}")));
        }
        if self.head.size.is_some() {
            return Err(exists("a number of tasks of namespace", self.head.id));
        }
        self.head.size = Some(tasks);
        self.head.version = self.head.version.saturating_add(1);
        self.head.changed = lsn;
        Ok(())
    }

    fn apply_keys(&mut self, lsn: Lsn, record: &Record, applied: &mut Applied) {
        let Applied { freed, changes } = applied;
        match record {
            Record::PutKey { key, value, lease, .. } => {
                let slot = Slot::new(value, self.head.revision, lsn, *lease);
                changes.push(self.store.put(&mut self.head, key, slot, freed));
            }
            Record::DeleteKey { key, .. } => {
                changes.extend(self.store.delete(&mut self.head, key, freed));
            }
            Record::EndLeases { task, .. } => {
                changes.extend(self.store.end_leases(&mut self.head, *task, freed));
            }
            _ => return,
        }
        self.head.keys_changed = lsn;
    }

    /// Keeps the result of a relay's request, and drops those that the relay has.
    pub(super) fn keep_result(
        &mut self,
        relay: RelayId,
        sequence: u64,
        acknowledged: u64,
        kept: Kept,
    ) {
        let relay = self.relays.entry(relay).or_default();
        relay.acknowledge(acknowledged);
        if sequence > relay.acknowledged {
            relay.results.insert(sequence, kept);
        }
    }

    fn apply_head(&mut self, lsn: Lsn, record: &Record) {
        match record {
            Record::NotePolling { .. } => self.head.polled = true,
            Record::StickError { fault, .. } => self.head.sticky = Some(Arc::new(fault.clone())),
            _ => return,
        }
        self.head.changed = lsn;
    }

    /// Keeps what relays' requests were told of who is alive.
    pub(super) fn keep_alive_answer(&mut self, answer: &AliveAnswer) {
        for stamp in &answer.stamps {
            let relay = self.relays.entry(stamp.relay).or_default();
            relay.acknowledge(stamp.acknowledged);
            if stamp.sequence > relay.acknowledged {
                relay.alive.insert(stamp.sequence, answer.tasks.clone());
            }
        }
    }

    fn forget_relays(&mut self, relays: &[RelayId]) -> Result<(), ApplyError> {
        if let Some(unknown) = relays.iter().find(|relay| !self.relays.contains_key(relay)) {
            return Err(missing("relay", unknown));
        }
        for relay in relays {
            self.relays.remove(relay);
        }
        Ok(())
    }

    /// The relay has the results up to a number.
    pub(super) fn note_stamp(&mut self, stamp: Stamp) {
        self.relays.entry(stamp.relay).or_default().acknowledge(stamp.acknowledged);
    }

    /// Says how many tasks are there, or wait to be.
    pub(super) fn count_present(&mut self, before: Option<Phase>, now: Phase) {
        let here = |phase| matches!(phase, Phase::Registering | Phase::Connected);
        match (before.is_some_and(here), here(now)) {
            (false, true) => self.index.present = self.index.present.saturating_add(1),
            (true, false) => self.index.present = self.index.present.saturating_sub(1),
            _ => {}
        }
    }
}

impl Relay {
    fn acknowledge(&mut self, upto: u64) {
        if upto > self.acknowledged {
            self.acknowledged = upto;
            self.results = self.results.split_off(&upto.saturating_add(1));
            self.alive = self.alive.split_off(&upto.saturating_add(1));
        }
    }
}
