//! Elements read from workers as Rondo has them.
//!
//! What a worker is handed and makes it hands out, each element once and in order; what it says is
//! over has left to the last element, no split can come to it any more, and the dispatcher knows of it
//! before any reader; what it took has left when it stops in time. A reader hands on what it has
//! received: each once, and all of it before it says that all was read. Where splits are handed out,
//! then, each record is delivered once, unless something is at fault that the protocol of TensorFlow's
//! workers cannot make good: who has a record and dies, or is given up, has it no more; an answer that
//! is lost on its way is lost, be it the dispatcher's with a split or a worker's with an element. A
//! reader that is told the end has been told the truth. Where others read the same by split, all of this
//! holds of what both deliver.

mod by_split;
mod ending;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use rondo_core::control::Record;
use rondo_core::dispatcher;
use rondo_core::ids::{ClientId, IterationId, Lsn, TaskId};
use rondo_core::time::Time;

use super::{Oracle, Seen, SeenKind, Shadow, Verdict};
use crate::checks::{Check, reached};
use crate::swarm::ElementsShape;
use crate::workload::elements::{Counted, ElementId, MadeBy, OfElements, ReaderLife, WorkerLife};

/// What became of an element.
#[derive(Clone, Debug)]
struct Element {
    id: ElementId,
    was_put_back: bool,
    has_left: bool,
    received: Option<ReaderLife>,
    is_delivered: bool,
}

/// A production.
#[derive(Default)]
struct Run {
    elements: BTreeMap<u64, Element>,
    /// The place of the element that leaves next, if none was put back.
    next: u64,
}

/// A task in a worker's process.
struct Task {
    iteration: IterationId,
    /// Splits it was handed, each as often as it was.
    took: Vec<u64>,
    is_whole: bool,
    is_dropped: bool,
    is_over: bool,
    runs: Vec<MadeBy>,
}

/// A life of a reader.
#[derive(Default)]
struct Reader {
    received: u64,
    /// Received, and not handed on.
    waiting: VecDeque<ElementId>,
    /// Received while consumers voted on the task: neither counted nor handed on before they have.
    held: BTreeSet<ElementId>,
    is_gone: bool,
}

pub(super) struct Elements {
    shape: Option<ElementsShape>,
    ended: BTreeSet<WorkerLife>,
    runs: BTreeMap<MadeBy, Run>,
    tasks: BTreeMap<(WorkerLife, TaskId), Task>,
    readers: BTreeMap<ReaderLife, Reader>,
    clients: BTreeMap<ClientId, IterationId>,
    /// Who was told that an iteration has no more splits.
    heard_the_end: BTreeSet<(WorkerLife, IterationId)>,
    /// Iterations of which a lost split was handed out again.
    repeated: BTreeSet<IterationId>,
    /// Tasks whose splits were counted as lost or handed out again, since another process of their worker was
    /// thought to have followed.
    restarted: BTreeSet<TaskId>,
    /// How many records of each split were delivered by those who read by split.
    by_split: BTreeMap<(IterationId, u64), u64>,
    /// Processes with tasks of a disk that was replaced: ids are given out again, and who asks such a
    /// process for a task may get what it has of another one.
    of_former_disk: BTreeSet<WorkerLife>,
    /// Tasks that a process had to drop. One that it opens all the same is another one of that id.
    dropped: BTreeSet<(WorkerLife, TaskId)>,
    /// Whether a disk was replaced: ids stand for something else since.
    is_disk_replaced: bool,
}

impl Elements {
    pub(super) const fn new(shape: Option<ElementsShape>) -> Self {
        Self {
            shape,
            ended: BTreeSet::new(),
            runs: BTreeMap::new(),
            tasks: BTreeMap::new(),
            readers: BTreeMap::new(),
            clients: BTreeMap::new(),
            heard_the_end: BTreeSet::new(),
            repeated: BTreeSet::new(),
            restarted: BTreeSet::new(),
            by_split: BTreeMap::new(),
            of_former_disk: BTreeSet::new(),
            dropped: BTreeSet::new(),
            is_disk_replaced: false,
        }
    }

    fn element(&mut self, id: &ElementId) -> Result<&mut Element, String> {
        let run = self.runs.get_mut(&id.made);
        let element = run.and_then(|run| run.elements.get_mut(&id.place));
        element.filter(|of| of.id == *id).ok_or_else(|| format!("nobody has made {id:?}"))
    }

    fn happened(&mut self, shape: &ElementsShape, what: &OfElements, shadow: &Shadow) -> Verdict {
        match what {
            OfElements::Began(_) | OfElements::Fetching(..) | OfElements::Joined(..) => Ok(()),
            OfElements::Ended(by) => {
                self.ended.insert(*by);
                Ok(())
            }
            OfElements::Took(by, task, iteration, split) => {
                self.task(*by, *task, *iteration, false).took.push(*split);
                Ok(())
            }
            OfElements::HeardEnd(by, iteration) => {
                self.heard_the_end.insert((*by, *iteration));
                Ok(())
            }
            OfElements::ToldEnd(by, task) => self.told_the_end(*by, *task, shadow),
            OfElements::Dropped(by, task) => {
                self.dropped.insert((*by, *task));
                if let Some(task) = self.tasks.get_mut(&(*by, *task)) {
                    task.is_dropped = true;
                }
                Ok(())
            }
            OfElements::Opened(made, task, iteration, is_whole) => {
                if self.dropped.contains(&(made.by, *task)) && !self.is_disk_replaced {
                    return Err(format!("{made:?} opens task {task}, which it was told to drop"));
                }
                self.forget_namesake((made.by, *task), *iteration);
                self.task(made.by, *task, *iteration, *is_whole).runs.push(*made);
                self.runs.insert(*made, Run::default());
                Ok(())
            }
            OfElements::Made(ids) => self.made(ids),
            OfElements::Left(id, _) => self.left(shape, id),
            OfElements::PutBack(id) => {
                self.element(id)?.was_put_back = true;
                Ok(())
            }
            OfElements::Over(by, task) => self.over(shape, *by, *task),
            OfElements::Stopped(by, early, left) => self.stopped(shape, *by, *early, *left),
            OfElements::Received(by, id, _) => self.received(*by, id),
            OfElements::Held(by, id) => self.held(*by, id),
            OfElements::Taken(by, id) => self.taken(*by, id),
            OfElements::LetGo(by, id) => self.let_go(*by, id),
            OfElements::Delivered(by, id) => self.delivered(shape, *by, id),
            OfElements::Counts(by, counted) => self.counted(*by, *counted),
            OfElements::ReadEnded(by, client, result) => {
                self.read_ended(shape, *by, (*client, result), shadow)
            }
            OfElements::Gone(by) => {
                self.readers.entry(*by).or_default().is_gone = true;
                Ok(())
            }
        }
    }

    fn task(
        &mut self,
        by: WorkerLife,
        task: TaskId,
        iteration: IterationId,
        is_whole: bool,
    ) -> &mut Task {
        let new = Task {
            iteration,
            took: Vec::new(),
            is_whole,
            is_dropped: false,
            is_over: false,
            runs: Vec::new(),
        };
        let task = self.tasks.entry((by, task)).or_insert(new);
        task.is_whole |= is_whole;
        task
    }

    /// What was known of another task of the same id, of a disk that was replaced, is not about this one.
    fn forget_namesake(&mut self, key: (WorkerLife, TaskId), iteration: IterationId) {
        let is_another = self.tasks.get(&key).is_some_and(|task| task.iteration != iteration);
        if self.dropped.remove(&key) || is_another {
            self.tasks.remove(&key);
        }
    }

    fn made(&mut self, ids: &[ElementId]) -> Verdict {
        for id in ids {
            let element = Element {
                id: *id,
                was_put_back: false,
                has_left: false,
                received: None,
                is_delivered: false,
            };
            self.runs.entry(id.made).or_default().elements.insert(id.place, element);
        }
        Ok(())
    }

    fn left(&mut self, shape: &ElementsShape, id: &ElementId) -> Verdict {
        reached(Check::ElementsLeft);
        let element = self.element(id)?;
        let (again, was_put_back) = (element.has_left, element.was_put_back);
        element.has_left = true;
        // In a round whoever has not got the answer asks again.
        if again && !shape.rounds {
            return Err(format!("{id:?} leaves a second time"));
        }
        let Some(run) = self.runs.get_mut(&id.made).filter(|_| !shape.rounds) else {
            return Ok(());
        };
        if id.place < run.next && !was_put_back {
            return Err(format!("{id:?} leaves behind that of place {}", run.next));
        }
        run.next = run.next.max(id.place.saturating_add(1));
        Ok(())
    }

    fn received(&mut self, by: ReaderLife, id: &ElementId) -> Verdict {
        let may_repeat = self.of_former_disk.contains(&id.made.by);
        let element = self.element(id)?;
        if !element.has_left {
            return Err(format!("{by:?} has {id:?}, which has not left"));
        }
        if let Some(other) = element.received.replace(by).filter(|_| !may_repeat) {
            return Err(format!("{by:?} has {id:?}, as {other:?} has"));
        }
        let reader = self.readers.entry(by).or_default();
        reader.received = reader.received.saturating_add(1);
        reader.waiting.push_back(*id);
        Ok(())
    }

    fn held(&mut self, by: ReaderLife, id: &ElementId) -> Verdict {
        let reader = self.readers.entry(by).or_default();
        let last = reader.waiting.pop_back();
        reader.received = reader.received.saturating_sub(1);
        reader.held.insert(*id);
        match last == Some(*id) {
            true => Ok(()),
            false => Err(format!("{by:?} holds {id:?}, and has received {last:?}")),
        }
    }

    fn taken(&mut self, by: ReaderLife, id: &ElementId) -> Verdict {
        let reader = self.readers.entry(by).or_default();
        reader.received = reader.received.saturating_add(1);
        reader.waiting.push_back(*id);
        match reader.held.remove(id) {
            true => Ok(()),
            false => Err(format!("{by:?} takes {id:?}, which it does not hold")),
        }
    }

    fn let_go(&mut self, by: ReaderLife, id: &ElementId) -> Verdict {
        match self.readers.entry(by).or_default().held.remove(id) {
            true => Ok(()),
            false => Err(format!("{by:?} lets {id:?} go, which it does not hold")),
        }
    }

    fn delivered(&mut self, shape: &ElementsShape, by: ReaderLife, id: &ElementId) -> Verdict {
        reached(Check::ElementsDelivered);
        let element = self.element(id)?;
        if element.received != Some(by) || std::mem::replace(&mut element.is_delivered, true) {
            return Err(format!("{by:?} hands on {element:?}"));
        }
        let reader = self.readers.entry(by).or_default();
        let at = reader.waiting.iter().position(|waiting| waiting == id);
        // In rounds the order is another.
        if at.is_some_and(|at| at > 0 && !shape.rounds) {
            return Err(format!("{by:?} hands {id:?} on before {:?}", reader.waiting.front()));
        }
        if let Some(at) = at {
            reader.waiting.remove(at);
        }
        self.delivered_once(shape, id)
    }

    /// Where splits are handed out, nothing else has brought the same record, unless the split was
    /// handed out again because somebody was given up.
    fn delivered_once(&self, shape: &ElementsShape, id: &ElementId) -> Verdict {
        let Some(iteration) = self.iteration_of(id) else {
            return Ok(());
        };
        if shape.rounds || shape.whole {
            return Ok(());
        }
        self.not_by_split(iteration, id)?;
        let others = self.makers(iteration, id.split).filter(|(key, _)| *key != key_of(id));
        let mut rivals = others.filter(|((by, _), task)| {
            !self.ended.contains(by) && !task.is_dropped && !self.ended.contains(&id.made.by)
        });
        let twice = rivals.find(|(_, task)| {
            self.elements_of(task).any(|other| {
                other.is_delivered && (other.id.split, other.id.offset) == (id.split, id.offset)
            })
        });
        match twice {
            // A worker that was given up for its silence may still hand out what it had.
            Some((key, task)) if !self.is_given_up(iteration) => {
                Err(format!("{id:?} is also delivered by {key:?} of {}", task.iteration))
            }
            _ => Ok(()),
        }
    }

    fn iteration_of(&self, id: &ElementId) -> Option<IterationId> {
        let task = self.tasks.get(&key_of(id)).filter(|task| task.runs.contains(&id.made));
        task.map(|task| task.iteration)
    }

    /// Whether a worker with a task of an iteration was given up, and its task with it.
    fn is_given_up(&self, iteration: IterationId) -> bool {
        let dropped = |task: &Task| task.iteration == iteration && task.is_dropped;
        self.repeated.contains(&iteration) || self.tasks.values().any(dropped)
    }

    /// The tasks that were handed a split.
    fn makers(
        &self,
        iteration: IterationId,
        split: u64,
    ) -> impl Iterator<Item = ((WorkerLife, TaskId), &Task)> {
        let of = move |task: &Task| task.iteration == iteration && task.took.contains(&split);
        self.tasks.iter().filter(move |(_, task)| of(task)).map(|(key, task)| (*key, task))
    }

    fn elements_of<'a>(&'a self, task: &'a Task) -> impl Iterator<Item = &'a Element> {
        let runs = task.runs.iter().filter_map(|made| self.runs.get(made));
        runs.flat_map(|run| run.elements.values())
    }

    fn counted(&self, by: ReaderLife, counted: Counted) -> Verdict {
        let nothing = Reader::default();
        let reader = self.readers.get(&by).unwrap_or(&nothing);
        let found = Counted { records: reader.received, buffered: reader.waiting.len() as u64 };
        match found == counted {
            true => Ok(()),
            false => Err(format!("{by:?} counts {counted:?}, and has {found:?}")),
        }
    }

    /// What a task was handed has left, to the last element.
    fn is_whole(&self, shape: &ElementsShape, by: WorkerLife, id: TaskId) -> Verdict {
        let Some(task) = self.tasks.get(&(by, id)) else {
            return Ok(());
        };
        let mut wanted: BTreeMap<u64, u64> = BTreeMap::new();
        let whole = (0..shape.splits).filter(|_| task.is_whole);
        for split in whole.chain(task.took.iter().copied()) {
            let count = wanted.entry(split).or_default();
            *count = count.saturating_add(shape.elements_of(split));
        }
        for element in self.elements_of(task) {
            if !element.has_left {
                return Err(format!("{element:?} has not left"));
            }
            if let Some(count) = wanted.get_mut(&element.id.split) {
                *count = count.saturating_sub(1);
            }
        }
        match wanted.into_iter().find(|(_, count)| *count > 0) {
            None => Ok(()),
            Some((split, count)) => Err(format!("{count} elements of split {split} are missing")),
        }
    }

    fn over(&mut self, shape: &ElementsShape, by: WorkerLife, id: TaskId) -> Verdict {
        if let Some(task) = self.tasks.get_mut(&(by, id)) {
            task.is_over = true;
            let iteration = task.iteration;
            if !task.is_dropped {
                reached(Check::ElementsOver);
                if !task.is_whole && !self.heard_the_end.contains(&(by, iteration)) {
                    return Err(format!("{by:?} ends task {id}, and may get more splits for it"));
                }
                let whole = self.is_whole(shape, by, id);
                return whole.map_err(|text| format!("{by:?} ends task {id}, and {text}"));
            }
        }
        Ok(())
    }

    /// Whoever is told that a task has no more elements goes by it: the dispatcher must know, too.
    fn told_the_end(&self, by: WorkerLife, id: TaskId, shadow: &Shadow) -> Verdict {
        let is_dropped = self.tasks.get(&(by, id)).is_some_and(|task| task.is_dropped)
            || self.dropped.contains(&(by, id));
        let of = shadow.state().tasks().get(&id);
        match of.is_some_and(|task| !task.finished) && !is_dropped {
            false => Ok(()),
            true => {
                Err(format!("{by:?} says that task {id} is over, and the dispatcher does not know"))
            }
        }
    }

    fn stopped(&self, shape: &ElementsShape, by: WorkerLife, early: bool, left: u64) -> Verdict {
        let of = || self.tasks.iter().filter(|((of, _), task)| *of == by && !task.is_whole);
        let held = of().filter(|(key, _)| !self.dropped.contains(key));
        let found = held.flat_map(|(_, task)| self.elements_of(task));
        let found = found.filter(|element| !element.has_left).count() as u64;
        if left > found {
            return Err(format!("{by:?} leaves {left} elements behind, of {found}"));
        }
        if !early || shape.rounds {
            return Ok(());
        }
        reached(Check::ElementsStopped);
        of().filter(|(_, task)| !task.is_dropped)
            .try_for_each(|((_, id), _)| self.is_whole(shape, by, *id))
            .map_err(|text| format!("{by:?} stops in time, and {text}"))
    }

    fn recovered(&mut self, applied: Lsn) {
        if applied == Lsn::NONE {
            // Another disk: ids stand for something else from here on.
            self.is_disk_replaced = true;
            self.clients.clear();
            self.by_split.clear();
            self.restarted.clear();
            self.tasks.values_mut().for_each(|task| task.is_dropped = true);
            self.of_former_disk.extend(self.tasks.keys().map(|(by, _)| *by));
        }
    }
}

const fn key_of(id: &ElementId) -> (WorkerLife, TaskId) {
    (id.made.by, id.task)
}

impl Oracle for Elements {
    fn name(&self) -> &'static str {
        "elements"
    }

    fn outlives_disk(&self) -> bool {
        true
    }

    fn watches(&self) -> &'static [SeenKind] {
        &[SeenKind::Recovered, SeenKind::Elements, SeenKind::Delivered, SeenKind::DispatcherRecord]
    }

    fn see(&mut self, _: Time, seen: &Seen<'_>, shadow: &Shadow) -> Verdict {
        let Some(shape) = self.shape else {
            return Ok(());
        };
        match seen {
            Seen::Elements(what) => self.happened(&shape, what, shadow),
            Seen::Delivered(what) => self.delivered_by_split(what, shadow),
            Seen::Recorded { record: Record::Dispatcher(record), .. } => {
                self.of_readers_by_split(record, shadow);
                match record {
                    dispatcher::Record::AcquireClient { id, iteration, .. } => {
                        self.clients.insert(*id, *iteration);
                    }
                    dispatcher::Record::RepeatSplit { iteration, .. } => {
                        self.repeated.insert(*iteration);
                    }
                    _ => {}
                }
                Ok(())
            }
            Seen::Recovered { state, .. } => {
                self.recovered(state.applied);
                Ok(())
            }
            _ => Ok(()),
        }
    }
}
