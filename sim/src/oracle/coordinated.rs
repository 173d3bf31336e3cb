//! Coordinated reads by element: what comes in a round from a production is one group, one element
//! for each consumer in the order of the consumers, and groups follow each other; each consumer asks
//! each task round after round, and again only for what it has not got; it hands on round after
//! round, and in a round the tasks in the order in which all others do, none left out that others read,
//! unless its worker has died or all have given it up.

use std::collections::{BTreeMap, BTreeSet};

use rondo_core::ids::TaskId;
use rondo_core::time::Time;

use super::{Oracle, Seen, SeenKind, Shadow, Verdict};
use crate::checks::{Check, reached};
use crate::swarm::ElementsShape;
use crate::workload::elements::{ElementId, MadeBy, OfElements, ReaderLife, WorkerLife};

/// A consumer's machine.
struct Consumer {
    generation: u64,
    /// The last round in which each task was asked.
    asked: BTreeMap<TaskId, i64>,
    /// What it has of each task in the last round it was asked in.
    has: BTreeMap<TaskId, i64>,
    rounds: BTreeMap<ElementId, i64>,
    /// The round that is handed on, and what was of it.
    round: i64,
    read: Vec<(MadeBy, TaskId)>,
}

pub(super) struct Coordinated {
    shape: Option<ElementsShape>,
    ended: BTreeSet<WorkerLife>,
    /// The place of the first element of each round's group.
    groups: BTreeMap<MadeBy, BTreeMap<i64, u64>>,
    consumers: BTreeMap<ReaderLife, Consumer>,
    /// What was read in each round by whoever came to its end first.
    read: BTreeMap<(u64, i64), Vec<(MadeBy, TaskId)>>,
}

impl Coordinated {
    pub(super) fn new(shape: Option<ElementsShape>) -> Self {
        Self {
            shape: shape.filter(|shape| shape.rounds),
            ended: BTreeSet::new(),
            groups: BTreeMap::new(),
            consumers: BTreeMap::new(),
            read: BTreeMap::new(),
        }
    }

    fn joined(&mut self, by: ReaderLife, generation: u64) {
        let consumer = Consumer {
            generation,
            asked: BTreeMap::new(),
            has: BTreeMap::new(),
            rounds: BTreeMap::new(),
            round: -1,
            read: Vec::new(),
        };
        self.consumers.insert(by, consumer);
    }

    fn fetching(&mut self, by: ReaderLife, task: TaskId, (index, round): (i64, i64)) -> Verdict {
        let Some(consumer) = self.consumers.get_mut(&by) else {
            return Ok(());
        };
        let last = consumer.asked.insert(task, round);
        let follows = last.is_none_or(|last| round == last || last.checked_add(1) == Some(round));
        if !follows || index != i64::from(by.reader) {
            return Err(format!("{by:?} asks task {task} as {index} in {round} after {last:?}"));
        }
        match consumer.has.get(&task) == Some(&round) {
            true => Err(format!("{by:?} asks task {task} again in {round}, which it has")),
            false => Ok(()),
        }
    }

    fn received(
        &mut self,
        shape: &ElementsShape,
        (by, id): (ReaderLife, &ElementId),
        (index, round): (i64, i64),
    ) -> Verdict {
        let Some(consumer) = self.consumers.get_mut(&by) else {
            return Ok(());
        };
        consumer.has.insert(id.task, round);
        consumer.rounds.insert(*id, round);
        let first = id.place.checked_sub(index.cast_unsigned());
        let first = first.ok_or_else(|| format!("{by:?} has {id:?} in {round}"))?;
        let groups = self.groups.entry(id.made).or_default();
        let begins = *groups.entry(round).or_insert(first);
        if begins != first {
            return Err(format!("{by:?} has {id:?} in {round}, where {begins} is the first"));
        }
        let size = u64::from(shape.readers);
        let fits = |(of, other): (&i64, &u64)| {
            // Some rounds may bring nothing.
            let (rounds, places) = (of.abs_diff(round), other.abs_diff(first));
            let is_forward = (*of < round) == (*other < first);
            let most = rounds.saturating_mul(size);
            is_forward && places >= size && places <= most && places.is_multiple_of(size)
        };
        reached(Check::CoordinatedGroup);
        let before = groups.range(..round).next_back();
        let behind = groups.range(round.saturating_add(1)..).next();
        match before.into_iter().chain(behind).all(fits) {
            true => Ok(()),
            false => Err(format!("{id:?} comes in round {round}, of {groups:?}")),
        }
    }

    fn delivered(&mut self, by: ReaderLife, id: &ElementId, shadow: &Shadow) -> Verdict {
        let Some(consumer) = self.consumers.get_mut(&by) else {
            return Ok(());
        };
        let Some(round) = consumer.rounds.remove(id) else {
            return Err(format!("{by:?} hands on {id:?}, which it has not received"));
        };
        let key = (id.made, id.task);
        if round < consumer.round {
            return Err(format!("{by:?} hands on round {round} behind {}", consumer.round));
        }
        if round == consumer.round {
            let twice = consumer.read.iter().any(|(_, task)| *task == id.task);
            consumer.read.push(key);
            return match twice {
                true => Err(format!("{by:?} hands on {round} of task {} twice", id.task)),
                false => Ok(()),
            };
        }
        let of = (consumer.generation, std::mem::replace(&mut consumer.round, round));
        let read = std::mem::replace(&mut consumer.read, vec![key]);
        self.round_read(by, of, read, shadow)
    }

    /// A consumer has come to the end of a round: it has read what others have.
    fn round_read(
        &mut self,
        by: ReaderLife,
        of: (u64, i64),
        read: Vec<(MadeBy, TaskId)>,
        shadow: &Shadow,
    ) -> Verdict {
        let Some(other) = self.read.get(&of) else {
            self.read.insert(of, read);
            return Ok(());
        };
        reached(Check::CoordinatedRound);
        let tasks = |read: &[(MadeBy, TaskId)], others: &[(MadeBy, TaskId)]| {
            let both = |task: &TaskId| others.iter().any(|(_, other)| other == task);
            let tasks = read.iter().map(|(_, task)| *task).filter(both);
            tasks.collect::<Vec<TaskId>>()
        };
        let (mine, theirs) = (tasks(&read, other), tasks(other, &read));
        let differs = |(made, task): &&(MadeBy, TaskId)| {
            !mine.contains(task)
                && !self.ended.contains(&made.by)
                && shadow.state().tasks().get(task).is_some_and(|task| !task.finished)
        };
        let missing = other.iter().chain(&read).find(differs);
        match (mine == theirs, missing) {
            (true, None) => Ok(()),
            _ => Err(format!("{by:?} has read {read:?} in round {}, others {other:?}", of.1)),
        }
    }
}

impl Oracle for Coordinated {
    fn name(&self) -> &'static str {
        "coordinated"
    }

    fn watches(&self) -> &'static [SeenKind] {
        &[SeenKind::Elements]
    }

    fn see(&mut self, _: Time, seen: &Seen<'_>, shadow: &Shadow) -> Verdict {
        let (Some(shape), Seen::Elements(what)) = (self.shape, seen) else {
            return Ok(());
        };
        match what {
            OfElements::Ended(by) => {
                self.ended.insert(*by);
                Ok(())
            }
            OfElements::Joined(by, generation) => {
                self.joined(*by, *generation);
                Ok(())
            }
            OfElements::Fetching(by, task, Some(at)) => self.fetching(*by, *task, *at),
            OfElements::Received(by, id, Some(at)) => self.received(&shape, (*by, id), *at),
            OfElements::Delivered(by, id) => self.delivered(*by, id, shadow),
            OfElements::Gone(by) => {
                self.consumers.remove(by);
                Ok(())
            }
            _ => Ok(()),
        }
    }
}
