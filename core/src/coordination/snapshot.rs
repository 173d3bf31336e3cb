//! The durable state in parts, so that a snapshot can be written and read piece by piece.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use super::record::{AliveAnswer, Change};
use super::request::Stamp;
use super::state::{Barrier, Head, Namespace, Relay, State, Task};
use super::store::Entry;
use crate::ids::{NamespaceId, RelayId};
use crate::log::{ApplyError, missing};

/// One piece of a snapshot. A namespace's own facts come before everything else of it.
#[derive(Clone, Debug, PartialEq)]
pub enum Part {
    /// A namespace's own facts.
    Namespace(Head),
    /// A task of a namespace.
    Task(NamespaceId, Task),
    /// A barrier of a namespace.
    Barrier(NamespaceId, Barrier),
    /// A key of a namespace.
    Key(NamespaceId, Entry),
    /// A change of keys, after those before it.
    Change(NamespaceId, Change),
    /// A relay's results in a namespace, but for those of [`Part::Alive`].
    Relay(NamespaceId, RelayId, Relay),
    /// What requests of relays were told of who is alive, after all relays.
    Alive(NamespaceId, AliveAnswer),
}

impl State {
    /// The state in parts.
    pub fn parts(&self) -> Vec<Part> {
        self.namespaces.values().flat_map(Namespace::parts).collect()
    }

    /// Takes one part of a snapshot.
    ///
    /// # Errors
    /// When the part is of a namespace that no part before it brought.
    pub fn restore(&mut self, part: Part) -> Result<(), ApplyError> {
        match part {
            Part::Namespace(head) => {
                self.by_name.insert(head.name.clone(), head.id);
                self.namespaces.insert(head.id, Namespace::of(head));
            }
            Part::Task(id, task) => self.namespace_mut(id)?.restore_task(task),
            Part::Barrier(id, barrier) => self.namespace_mut(id)?.replace(barrier),
            Part::Key(id, entry) => self.namespace_mut(id)?.store.insert_entry(entry),
            Part::Change(id, change) => self.namespace_mut(id)?.store.remember(change),
            Part::Relay(id, relay, results) => {
                self.namespace_mut(id)?.relays.insert(relay, results);
            }
            Part::Alive(id, answer) => self.namespace_mut(id)?.keep_alive_answer(&answer),
        }
        Ok(())
    }

    fn namespace_mut(&mut self, id: NamespaceId) -> Result<&mut Namespace, ApplyError> {
        self.namespaces.get_mut(&id).ok_or_else(|| missing("namespace", id))
    }
}

impl Namespace {
    fn parts(&self) -> Vec<Part> {
        let id = self.head.id;
        let mut parts = Vec::from([Part::Namespace(self.head.clone())]);
        parts.extend(self.tasks.values().map(|task| Part::Task(id, task.clone())));
        parts.extend(self.barriers.values().map(|barrier| Part::Barrier(id, barrier.clone())));
        parts.extend(self.store.entries().values().map(|entry| Part::Key(id, entry.clone())));
        parts.extend(self.store.changes().iter().map(|change| Part::Change(id, change.clone())));
        let relays = self.relays.iter();
        parts.extend(relays.map(|(relay, known)| {
            let (acknowledged, results) = (known.acknowledged, known.results.clone());
            Part::Relay(id, *relay, Relay { acknowledged, results, alive: BTreeMap::new() })
        }));
        parts.extend(self.alive_answers().into_iter().map(|answer| Part::Alive(id, answer)));
        parts
    }

    /// What requests were told of who is alive, each answer once for all that share it.
    fn alive_answers(&self) -> Vec<AliveAnswer> {
        let mut answers: Vec<AliveAnswer> = Vec::new();
        let mut places = BTreeMap::new();
        for (id, relay) in &self.relays {
            for (sequence, tasks) in &relay.alive {
                let place = *places.entry(tasks.as_ptr()).or_insert(answers.len());
                if place == answers.len() {
                    answers.push(AliveAnswer { tasks: tasks.clone(), stamps: Vec::new() });
                }
                let acknowledged = relay.acknowledged;
                let stamp = Stamp { relay: *id, sequence: *sequence, acknowledged };
                answers.get_mut(place).into_iter().for_each(|it| it.stamps.push(stamp));
            }
        }
        answers
    }

    fn restore_task(&mut self, task: Task) {
        self.count_present(None, task.phase);
        self.index.by_incarnation.insert((task.incarnation, task.index));
        self.tasks.insert(task.index, task);
    }
}
