//! Splits in the model: each one handed out is written down with whoever has it.

use std::collections::{BTreeMap, BTreeSet};

use rondo_core::dispatcher::{Reply, ShardingPolicy, SplitSource};
use rondo_core::ids::{IterationId, TaskId};
use rondo_core::status::Code;

use super::Heard;
use super::kept::Kept;

/// Source, pass, and the place in it.
pub(crate) type Place = (usize, i64, usize);

/// Who has a split.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Holder {
    /// An unfinished task.
    Task(TaskId),
    /// Nobody: it is to be handed out again.
    Again,
    /// A task that is gone, or that another process began anew.
    Lost,
}

/// What is known of an iteration's splits.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Given {
    pub(crate) splits: Vec<(Place, Holder)>,
    /// How many were handed to somebody unknown.
    pub(crate) unattributed: u64,
    /// Which of those, in their order, may have been handed to a lost task.
    pub(crate) doubted: BTreeSet<u64>,
    /// How many were to be handed out again when a task was made for their sake.
    pub(crate) tried: Option<usize>,
    /// Workers that were lost with a task, and the number of unattributed splits then.
    strays: BTreeMap<String, u64>,
    /// All that were ever handed out, in order.
    handed: Vec<(Place, Option<TaskId>)>,
}

/// A split as it was handed out.
#[derive(Clone, Debug)]
pub(crate) struct HandedOut {
    iteration: IterationId,
    place: Place,
    pub(super) task: Option<TaskId>,
}

impl Given {
    pub(crate) fn count(&self, holder: &Holder) -> usize {
        self.splits.iter().filter(|(_, to)| to == holder).count()
    }

    /// Places of the first pass over the first source that are to be handed out again.
    pub(super) fn again_of_first_pass(&self) -> impl Iterator<Item = u64> + '_ {
        let again = self.splits.iter().filter(|(_, to)| *to == Holder::Again);
        again.filter(|(at, _)| (at.0, at.1) == (0, 0)).map(|(at, _)| at.2 as u64)
    }

    fn add(&mut self, place: Place, to: Option<TaskId>) {
        self.handed.push((place, to));
        match to {
            Some(task) => self.splits.push((place, Holder::Task(task))),
            None => self.unattributed += 1,
        }
    }

    fn change(&mut self, from: &Holder, to: &Holder) {
        let those = self.splits.iter_mut().filter(|(_, holder)| holder == from);
        those.for_each(|(_, holder)| *holder = to.clone());
    }

    fn doubt_since(&mut self, since: u64) {
        self.doubted.extend(since..self.unattributed);
    }

    /// A task has finished: what it had is no longer with anybody.
    pub(super) fn forget(&mut self, task: TaskId) {
        self.splits.retain(|(_, holder)| *holder != Holder::Task(task));
    }

    pub(super) fn give_up(&mut self) {
        self.change(&Holder::Again, &Holder::Lost);
        self.tried = None;
        self.strays.clear();
    }
}

impl Kept {
    pub(super) fn split(
        &mut self,
        asked: (IterationId, i64, i64),
        asker: Option<&str>,
    ) -> (Heard, Option<HandedOut>) {
        let before = self.iteration(asked.0).map_or(0, |iteration| iteration.given.handed.len());
        let heard = self.hand_out(asked, asker);
        let handed = self.iteration(asked.0).and_then(|it| it.given.handed.get(before).copied());
        (heard, handed.map(|(place, task)| HandedOut { iteration: asked.0, place, task }))
    }

    fn hand_out(&mut self, asked: (IterationId, i64, i64), asker: Option<&str>) -> Heard {
        let (id, repetition, source) = asked;
        let iteration = self.iteration(id).ok_or(Code::NotFound)?;
        if self.job_of(iteration).sharding != ShardingPolicy::Dynamic {
            return Err(Code::FailedPrecondition);
        }
        let at = usize::try_from(source).map_err(|_| Code::InvalidArgument)?;
        if at >= iteration.sources.len() || !(0..i64::MAX).contains(&repetition) {
            return Err(Code::InvalidArgument);
        }
        let reader = asker.map(|address| self.task_on(address, id));
        let takes_part = |asker: &str| {
            let is_registered = self.workers.iter().any(|worker| worker.address == asker);
            is_registered && !self.lost.contains(asker)
        };
        if reader == Some(None) && !asker.is_some_and(takes_part) {
            return Ok(Reply::Split(None));
        }
        // A task that waits to join the read reads too; an unnamed caller may be any unfinished task.
        let reads = match reader {
            Some(task) => task.is_some(),
            None => self.tasks.values().any(|task| task.iteration == id && !task.finished),
        };
        if reads && let Some(split) = self.split_again(id, (at, repetition), reader.flatten()) {
            return Ok(Reply::Split(Some(split)));
        }
        if reads
            && (at, repetition) == (0, 0)
            && let Some(place) = self.waiting_for_workers(id)
        {
            let iteration = self.iteration_mut(id).unwrap();
            iteration.shared.waiting.remove(&place);
            iteration.given.add((0, 0, place as usize), reader.flatten());
            return Ok(Reply::Split(nth(&iteration.sources[0].0, place as usize)));
        }
        let iteration = self.iteration_mut(id).unwrap();
        if iteration.collected || repetition < iteration.sources[at].1 {
            return Ok(Reply::Split(None));
        }
        let (source, pass, given) = &mut iteration.sources[at];
        if repetition > *pass {
            (*pass, *given) = (repetition, 0);
        }
        let place = (at, *pass, *given);
        let split = nth(source, *given);
        match split {
            Some(_) => *given += 1,
            None => (*pass, *given) = (*pass + 1, 0),
        }
        if split.is_some() {
            iteration.given.add(place, reader.flatten());
        }
        Ok(Reply::Split(split))
    }

    /// A split did not reach its caller: others get it, unless it was counted or given back with its
    /// task.
    pub(super) fn take_back(&mut self, split: &HandedOut) {
        let HandedOut { iteration: id, place, task } = *split;
        // A task that was finished and replaced was finished.
        let is_finished = |task| self.replaced.contains(&task).then_some(true);
        let known = task.map(|task| {
            let known = self.tasks.get(&task).map(|task| task.finished);
            known.or_else(|| is_finished(task))
        });
        let Some(iteration) = self.iteration_mut(id) else {
            return;
        };
        let splits = &mut iteration.given.splits;
        let of_task = |(at, holder): &(Place, Holder)| {
            *at == place && task.is_some_and(|task| *holder == Holder::Task(task))
        };
        let with_task = splits.iter().position(of_task);
        let again = splits.contains(&(place, Holder::Again));
        match (known, with_task) {
            _ if again => return,
            (None | Some(Some(true)), _) => {}
            (Some(Some(false)), Some(at)) => drop(splits.remove(at)),
            _ => return,
        }
        let to = if iteration.finished { Holder::Lost } else { Holder::Again };
        splits.push((place, to));
        iteration.given.tried = None;
        if !iteration.finished {
            self.make_reader(id);
        }
    }

    /// The first split of a pass that was lost and is to be handed out again.
    fn split_again(
        &mut self,
        id: IterationId,
        (source, pass): (usize, i64),
        to: Option<TaskId>,
    ) -> Option<i64> {
        let iteration = self.iteration_mut(id).unwrap();
        let splits = &mut iteration.given.splits;
        let waits = |(at, holder): &(Place, Holder)| {
            *holder == Holder::Again && (at.0, at.1) == (source, pass)
        };
        let waiting = (0..splits.len()).filter(|n| waits(&splits[*n]));
        let (place, _) = splits.remove(waiting.min_by_key(|n| splits[*n].0)?);
        iteration.given.add(place, to);
        nth(&iteration.sources[source].0, place.2)
    }

    /// What a task was handed is gone.
    pub(super) fn forsake(&mut self, id: TaskId, again: bool) {
        let task = self.tasks[&id].clone();
        if task.finished {
            return;
        }
        let iteration = self.iteration(task.iteration).unwrap();
        let again = again && self.job_of(iteration).consumers.is_none();
        let given = &mut self.iteration_mut(task.iteration).unwrap().given;
        let had = given.count(&Holder::Task(id)) > 0;
        let to = if again { Holder::Again } else { Holder::Lost };
        given.change(&Holder::Task(id), &to);
        if had && again {
            given.tried = None;
        }
        given.doubt_since(task.unattributed_before);
        let now = given.unattributed;
        self.tasks.get_mut(&id).unwrap().unattributed_before = now;
    }

    pub(super) fn stray(&mut self, address: &str, id: IterationId) {
        let given = &mut self.iteration_mut(id).unwrap().given;
        given.strays.insert(address.into(), given.unattributed);
    }

    pub(super) fn end_straying(&mut self, address: &str, reborn: bool) {
        for iteration in &mut self.iterations {
            let since = iteration.given.strays.remove(address);
            if let (Some(since), false) = (since, reborn) {
                iteration.given.doubt_since(since);
            }
        }
    }

    /// Whether splits are to be handed out again and nobody is left to ask for them.
    pub(super) fn needs_reader(&self, id: IterationId) -> bool {
        let iteration = self.iteration(id).unwrap();
        let mut active = iteration.active.iter();
        !iteration.active.is_empty()
            && active.all(|task| self.tasks[task].finished)
            && self.held(id) == 0
            && self.to_be_given(id) > 0
    }

    /// The same, also where no task is left.
    pub(super) fn lacks_reader(&self, id: IterationId) -> bool {
        !self.has_reader(id) && self.held(id) == 0 && self.to_be_given(id) > 0
    }

    pub(super) fn note_reader(&mut self, id: IterationId) {
        if self.needs_reader(id) {
            let count = self.to_be_given(id);
            self.iteration_mut(id).unwrap().given.tried = Some(count);
        }
    }

    pub(super) fn give_up_in_vain(&mut self, id: IterationId) {
        let count = self.to_be_given(id);
        let iteration = self.iteration(id).unwrap();
        if self.needs_reader(id) && iteration.given.tried == Some(count) {
            let iteration = self.iteration_mut(id).unwrap();
            let waiting = std::mem::take(&mut iteration.shared.waiting).into_keys();
            let lost = waiting.map(|place| ((0, 0, place as usize), Holder::Lost));
            iteration.given.splits.extend(lost);
            iteration.given.give_up();
        }
    }

    /// Somebody who lives gets a task to read what nobody else would.
    pub(super) fn make_reader(&mut self, id: IterationId) {
        let iteration = self.iteration(id).unwrap();
        let is_coordinated = self.job_of(iteration).consumers.is_some();
        if !iteration.finished && !is_coordinated && self.lacks_reader(id) {
            self.make_another_task(id);
        }
    }

    pub(super) fn make_another_task(&mut self, id: IterationId) {
        let iteration = self.iteration(id).unwrap();
        let took_part = iteration.active.iter().map(|task| &self.tasks[task].address);
        let anybody = self.workers.iter().map(|worker| &worker.address);
        let fits = |address: &String| self.held(id) == 0 || self.serves_splits(address);
        let mut living = took_part.chain(anybody).filter(|address| !self.lost.contains(*address));
        let living = living.find(|address| fits(address));
        if let Some(address) = living.cloned() {
            self.make_task_on(id, &address);
        }
    }

    pub(super) fn make_task_on(&mut self, id: IterationId, address: &str) {
        let task = self.new_task(id, address);
        self.note_reader(id);
        self.iteration_mut(id).unwrap().active.push(task);
        self.replace_finished(id, address);
    }

    /// A worker that has another task of an iteration needs those no more that it has finished.
    pub(super) fn replace_finished(&mut self, id: IterationId, address: &str) {
        let active = self.iteration(id).unwrap().active.clone();
        for task in active {
            let known = &self.tasks[&task];
            if known.finished && known.address == address {
                self.erase(task);
                self.replaced.insert(task);
            }
        }
    }

    /// The unfinished task that the worker at an address has of an iteration.
    pub(super) fn task_on(&self, address: &str, iteration: IterationId) -> Option<TaskId> {
        let mut tasks = self.tasks.iter();
        let own = tasks.find(|(_, task)| {
            task.address == address && task.iteration == iteration && !task.finished
        });
        own.map(|(id, _)| *id)
    }
}

/// The nth number of a range, by counting.
pub(super) fn nth(source: &SplitSource, n: usize) -> Option<i64> {
    let inside = |value: i64| match source.step > 0 {
        true => value < source.stop,
        false => value > source.stop,
    };
    let mut value = source.start;
    for _ in 0..n {
        value = value.checked_add(source.step).filter(|value| inside(*value))?;
    }
    inside(value).then_some(value)
}
