//! Dynamic sharding: splits handed out one by one, pass after pass.

use alloc::format;

use super::delivery::HandedOut;
use super::machine::{Answer, Dispatcher, Turn};
use super::record::Record;
use super::refusal::Refusal;
use super::reply::Reply;
use super::state::{Iteration, SourcePosition};
use super::types::ShardingPolicy;
use crate::ids::{CallId, IterationId, TaskId};
use crate::time::Time;

impl Dispatcher {
    /// Hands out the next split of a source, or the end of its pass.
    ///
    /// The first worker to meet the end moves the source to its next pass; the others, still asking
    /// for the old pass, are told its end. A worker asking for a later pass (the shorter side of a
    /// zip) starts that pass for all. Splits of lost tasks that are to be handed out again, and those
    /// that wait for a client, come before all others of their pass, also after its end.
    ///
    /// A lost worker without a task of the iteration is told the end of any pass, and so is one that is
    /// not registered, or not any more: no consumer reads what it would take. TensorFlow's worker ends
    /// the task then. Of workers that are there the asker may be a guess by host: of two on one host the
    /// other one may ask, and the end would be wrong for it.
    pub(super) fn get_split(
        &mut self,
        turn: &mut Turn<'_>,
        call: CallId,
        (id, repetition, source): (IterationId, i64, i64),
        asker: Option<&str>,
    ) -> Answer {
        let iteration = self.iteration(id)?;
        self.check_dynamic(iteration)?;
        let (source, position) = source_at(iteration, source)?;
        check_pass(repetition)?;
        let worker = asker.and_then(|asker| self.state.worker_at(asker));
        let task = worker.and_then(|worker| self.state.task_of(worker.id, id));
        let after = iteration.splits_changed.max(iteration.changed);
        match worker {
            Some(worker) if worker.lost && task.is_none() => {
                return Ok((Reply::Split(None), after.max(worker.changed)));
            }
            None if asker.is_some() => {
                return Ok((Reply::Split(None), after.max(self.last_worker_freed)));
            }
            _ => {}
        }
        let is_named = asker.is_some();
        let decided = self.decide_split(iteration, position, (repetition, source), task, is_named);
        let Some((place, record)) = decided else {
            return Ok((Reply::Split(None), after));
        };
        let split = place.and_then(|place| position.source.split_at(place));
        let after = self.commit(turn, [record])?;
        if let Some(place) = place {
            let iteration = id;
            let handed_out = HandedOut { iteration, source, repetition, place, task };
            self.deliveries.begin(call, after, handed_out);
            self.note_taker(task, turn.now);
            // The task for consumers that the dispatcher made last is of use: one that asks for splits.
            self.leases.consumers_tried.remove(&id);
        }
        Ok((Reply::Split(split), after))
    }

    /// The place of the split to answer, if any is left, and the record; `None` of a pass that is
    /// over.
    fn decide_split(
        &self,
        of: &Iteration,
        position: &SourcePosition,
        (repetition, source): (i64, u32),
        task: Option<TaskId>,
        is_named: bool,
    ) -> Option<(Option<u64>, Record)> {
        let iteration = of.id;
        let again = of.splits.again.first_of(source, repetition);
        // A named worker without a task gets no split again; an unnamed caller gets none once all tasks
        // are finished. A task that waits to join a coordinated read reads too.
        let some_task_reads = || self.state.has_reader(of) || !of.pending.is_empty();
        let reads = || task.is_some() || !is_named && some_task_reads();
        if let Some(place) = again.filter(|_| reads()) {
            let record = Record::RepeatSplit { iteration, source, repetition, task };
            return Some((Some(place), record));
        }
        let waiting = (source, repetition) == (0, 0);
        let waiting = waiting.then(|| of.by_split.first_for_workers()).flatten();
        if let Some(place) = waiting.filter(|_| reads()) {
            return Some((Some(place), Record::HandOutWaiting { iteration, place, task }));
        }
        if repetition < position.repetition || of.collected {
            return None;
        }
        let place = next_place(position, repetition);
        let task = task.filter(|_| place.is_some());
        let finished = place.is_none();
        let record = Record::ProduceSplit { iteration, source, repetition, finished, task };
        Some((place, record))
    }

    /// Notes that the worker of a task knows it: the worker took a split for it.
    fn note_taker(&mut self, task: Option<TaskId>, now: Time) {
        let task = task.and_then(|id| self.state.tasks().get(&id));
        let worker = task.and_then(|task| self.state.workers().get(&task.worker));
        if let Some((worker, task)) = worker.zip(task) {
            self.processes.note_split(worker, task.id, now);
        }
    }

    fn check_dynamic(&self, iteration: &Iteration) -> Result<(), Refusal> {
        let job = self.state.jobs().get(&iteration.job);
        let policy = job.map_or(ShardingPolicy::Off, |job| job.sharding);
        if policy == ShardingPolicy::Dynamic {
            return Ok(());
        }
        Err(Refusal::NotDynamic { iteration: iteration.id, policy: policy.name() })
    }
}

/// The last number of all is left out, so that every pass has a next one.
fn check_pass(repetition: i64) -> Result<(), Refusal> {
    if (0..i64::MAX).contains(&repetition) {
        return Ok(());
    }
    Err(Refusal::OutOfRange {
        field: "repetition",
        value: repetition,
        expected: format!("from 0 to {}", i64::MAX - 1),
    })
}

/// The place of the next split of a pass, which begins anew if it is a later one than the present.
fn next_place(position: &SourcePosition, repetition: i64) -> Option<u64> {
    let index = match repetition > position.repetition {
        true => 0,
        false => position.index,
    };
    position.source.split_at(index).map(|_| index)
}

/// The source a worker names by number. TensorFlow does not check the number; a wrong one reads
/// memory out of bounds there.
fn source_at(iteration: &Iteration, index: i64) -> Result<(u32, &SourcePosition), Refusal> {
    let position = usize::try_from(index).ok().and_then(|at| iteration.sources.get(at));
    match (u32::try_from(index), position) {
        (Ok(source), Some(position)) => Ok((source, position)),
        _ => Err(Refusal::OutOfRange {
            field: "split_provider_index",
            value: index,
            expected: format!(
                "from 0 to {} for iteration {}",
                iteration.sources.len().saturating_sub(1),
                iteration.id
            ),
        }),
    }
}
