//! The durable state in parts, so that a snapshot can be written and read piece by piece.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::iter;

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
    /// The state in parts, each made when it is asked for: all at once would take more memory than the state.
    pub fn parts(&self) -> impl Iterator<Item = Part> + '_ {
        self.namespaces.values().flat_map(Namespace::parts)
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
            Part::Key(id, entry) => self.namespace_mut(id)?.store.restore_entry(entry),
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
    fn parts(&self) -> impl Iterator<Item = Part> + '_ {
        let id = self.head.id;
        let head = iter::once_with(|| Part::Namespace(self.head.clone()));
        let tasks = self.tasks.values().map(move |task| Part::Task(id, task.clone()));
        let barriers =
            self.barriers.values().map(move |barrier| Part::Barrier(id, barrier.clone()));
        let keys = self.store.entries().map(move |entry| Part::Key(id, entry.to_entry()));
        let changes = self.store.changes().iter();
        let changes = changes.map(move |change| Part::Change(id, change.clone()));
        let relays = self.relays.iter().map(move |(relay, known)| {
            let (acknowledged, results) = (known.acknowledged, known.results.clone());
            Part::Relay(id, *relay, Relay { acknowledged, results, alive: BTreeMap::new() })
        });
        let alive = iter::once_with(|| self.alive_answers()).flatten();
        let alive = alive.map(move |answer| Part::Alive(id, answer));
        head.chain(tasks).chain(barriers).chain(keys).chain(changes).chain(relays).chain(alive)
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
