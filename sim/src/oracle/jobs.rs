//! The jobs of the coordination service as its records make them: which process of each task is
//! present, and which tasks have come to which instance of a barrier. The ledger follows the records by
//! rules of its own and shares no code with the service.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rondo_core::coordination::{self, BarrierKey, Outcome, Phase, Record, State};
use rondo_core::ids::{Incarnation, NamespaceId, ServiceIncarnation, TaskIndex};

/// The process of a task that registered last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Seat {
    pub(super) incarnation: Incarnation,
    pub(super) recoverable: bool,
    /// Whether it registers or takes part.
    pub(super) present: bool,
}

/// An instance of a barrier.
#[derive(Clone, Debug, Default)]
pub(super) struct Instance {
    /// The tasks that must come; all if it is empty.
    pub(super) listed: Vec<i32>,
    /// The tasks whose present process has come.
    pub(super) came: BTreeSet<i32>,
    pub(super) open: bool,
    pub(super) passed: bool,
}

/// A life of a namespace.
#[derive(Clone, Debug)]
pub(super) struct Life {
    pub(super) name: Arc<str>,
    pub(super) incarnation: ServiceIncarnation,
    pub(super) size: Option<u32>,
    pub(super) seats: BTreeMap<i32, Seat>,
    pub(super) instances: BTreeMap<(BarrierKey, i64), Instance>,
}

/// All jobs.
#[derive(Debug, Default)]
pub(super) struct Jobs {
    lives: BTreeMap<NamespaceId, Life>,
}

impl Life {
    const fn new(name: Arc<str>, incarnation: ServiceIncarnation, size: Option<u32>) -> Self {
        Self { name, incarnation, size, seats: BTreeMap::new(), instances: BTreeMap::new() }
    }

    /// Whether all tasks that registered have left or died.
    pub(super) fn is_over(&self) -> bool {
        !self.seats.is_empty() && self.seats.values().all(|seat| !seat.present)
    }

    /// A task that must come to an instance and whose present process has not.
    pub(super) fn missing(&self, instance: &Instance) -> Option<i32> {
        let all = 0..i32::try_from(self.size.unwrap_or(0)).unwrap_or(0);
        let here = |task: &i32| instance.came.contains(task);
        match instance.listed.is_empty() {
            true => all.into_iter().find(|task| !here(task)),
            false => instance.listed.iter().copied().find(|task| !here(task)),
        }
    }

    pub(super) fn instance(&self, key: &BarrierKey, counter: i64) -> Option<&Instance> {
        self.instances.get(&(key.clone(), counter))
    }

    /// The process of a task is gone, or another one takes its place: it has come to no barrier of
    /// clients.
    fn withdraw(&mut self, task: TaskIndex) {
        let open = self.instances.iter_mut().filter(|(_, instance)| instance.open);
        for ((key, _), instance) in open {
            if matches!(key, BarrierKey::Named(_)) {
                instance.came.remove(&task.get());
            }
        }
    }

    fn leave(&mut self, task: TaskIndex) {
        if let Some(seat) = self.seats.get_mut(&task.get()) {
            seat.present = false;
        }
        self.withdraw(task);
    }

    fn sit(&mut self, task: TaskIndex, incarnation: Incarnation, recoverable: bool) {
        let seat = Seat { incarnation, recoverable, present: true };
        let before = self.seats.insert(task.get(), seat);
        if before != Some(seat) {
            self.withdraw(task);
        }
    }

    fn apply(&mut self, record: &Record) {
        match record {
            Record::LearnSize { tasks, .. } => self.size = Some(*tasks),
            Record::RegisterTask { task, incarnation, recoverable, .. }
            | Record::ConnectTask { task, incarnation, recoverable, .. } => {
                self.sit(*task, *incarnation, *recoverable);
            }
            Record::DisconnectTask { task, .. } | Record::FailTask { task, .. } => {
                self.leave(*task);
            }
            Record::FailAllTasks { .. } => self.leave_all(),
            Record::ArriveAtBarrier { barrier, counter, task, opening, .. } => {
                let instance = self.instances.entry((barrier.clone(), *counter)).or_default();
                if let Some(opening) = opening {
                    *instance = Instance { open: true, ..Instance::default() };
                    if let coordination::Participants::Some(tasks) = &opening.participants {
                        instance.listed = tasks.iter().map(|task| task.get()).collect();
                    }
                }
                instance.came.insert(task.get());
            }
            Record::LeaveBarrier { barrier, task, .. } => {
                let of = |key: &BarrierKey| key == barrier;
                let instances = self.instances.iter_mut();
                for (_, instance) in instances.filter(|((key, _), it)| of(key) && it.open) {
                    instance.came.remove(&task.get());
                }
            }
            Record::EndBarrier { barrier, counter, fault, .. } => {
                self.end(barrier, *counter, fault.is_none());
            }
            _ => {}
        }
    }

    fn leave_all(&mut self) {
        for seat in self.seats.values_mut() {
            seat.present = false;
        }
        let named = |key: &BarrierKey| matches!(key, BarrierKey::Named(_));
        for ((_, _), instance) in self.instances.iter_mut().filter(|((key, _), _)| named(key)) {
            instance.came.clear();
        }
    }

    fn end(&mut self, key: &BarrierKey, counter: i64, passed: bool) {
        let instance = self.instances.entry((key.clone(), counter)).or_default();
        (instance.open, instance.passed) = (false, passed);
        if passed && *key == BarrierKey::Shutdown {
            self.leave_all();
        }
    }

    /// What a recovered state says: records that were not durable may be gone.
    fn recover(&mut self, of: &coordination::Namespace) {
        self.size = of.head().size;
        self.seats = of.tasks().iter().map(|(task, known)| (task.get(), seat(known))).collect();
        for barrier in of.barriers().values() {
            let key = (barrier.key.clone(), barrier.counter);
            let instance = self.instances.entry(key).or_default();
            instance.open = barrier.outcome.is_none();
            instance.passed = barrier.outcome == Some(Outcome::Passed);
            if instance.open {
                instance.came = barrier.arrived.keys().map(|task| task.get()).collect();
            }
            if let Some(coordination::Participants::Some(tasks)) = &barrier.participants {
                instance.listed = tasks.iter().map(|task| task.get()).collect();
            }
        }
    }
}

fn seat(known: &coordination::Task) -> Seat {
    Seat {
        incarnation: known.incarnation,
        recoverable: known.recoverable,
        present: matches!(known.phase, Phase::Registering | Phase::Connected),
    }
}

impl Jobs {
    pub(super) fn get(&self, namespace: NamespaceId) -> Option<&Life> {
        self.lives.get(&namespace)
    }

    /// The present life of a namespace.
    pub(super) fn named(&self, name: &str) -> Option<&Life> {
        self.lives.values().find(|life| *life.name == *name)
    }

    /// Follows a record.
    pub(super) fn apply(&mut self, record: &Record) {
        if let Record::BeginLife { namespace, name, incarnation, tasks, .. } = record {
            self.lives.insert(*namespace, Life::new(name.clone(), *incarnation, *tasks));
        } else if let Some(life) = self.lives.get_mut(&record.namespace()) {
            life.apply(record);
        }
    }

    /// Begins with what was recovered.
    pub(super) fn recover(&mut self, state: &State) {
        let mut before = std::mem::take(&mut self.lives);
        for (id, of) in state.namespaces() {
            let head = of.head();
            let known = before.remove(id).filter(|life| life.incarnation == head.incarnation);
            let new = || Life::new(head.name.clone(), head.incarnation, head.size);
            let mut life = known.unwrap_or_else(new);
            life.recover(of);
            self.lives.insert(*id, life);
        }
    }
}
