//! Dynamic sharding: splits handed out one by one, pass after pass.

use alloc::format;

use super::machine::{Answer, Dispatcher, Turn};
use super::record::Record;
use super::refusal::Refusal;
use super::reply::Reply;
use super::state::{Iteration, SourcePosition};
use super::types::ShardingPolicy;
use crate::ids::{IterationId, Lsn, TaskId};

impl Dispatcher {
    /// Hands out the next split of a source, or the end of its pass.
    ///
    /// The first worker to meet the end moves the source to its next pass; the others, still asking
    /// for the old pass, are told its end. A worker asking for a later pass (the shorter side of a
    /// zip) starts that pass for all. Splits of lost tasks that are to be handed out again, and those
    /// that wait for a client, come before all others of their pass, also after its end.
    pub(super) fn get_split(
        &mut self,
        turn: &mut Turn<'_>,
        id: IterationId,
        (repetition, source): (i64, i64),
        asker: Option<&str>,
    ) -> Answer {
        let iteration = self.iteration(id)?;
        self.check_dynamic(iteration)?;
        let (source, position) = source_at(iteration, source)?;
        check_pass(repetition)?;
        let asked = (repetition, source);
        let after: Lsn = iteration.splits_changed.max(iteration.changed);
        let (split, record) = self.decide_split(iteration, position, asked, asker);
        let after = match record {
            Some(record) => self.commit(turn, [record])?,
            None => after,
        };
        Ok((Reply::Split(split), after))
    }

    /// What to answer and to record; nothing is recorded of a pass that is over.
    fn decide_split(
        &self,
        of: &Iteration,
        position: &SourcePosition,
        (repetition, source): (i64, u32),
        asker: Option<&str>,
    ) -> (Option<i64>, Option<Record>) {
        let iteration = of.id;
        let task = self.asking_task(iteration, asker);
        let again = of.splits.again.first_of(source, repetition);
        // Whoever is known and has no task here reads for nobody; nor does anybody if all tasks are
        // over.
        let reads = || task.is_some() || asker.is_none() && self.state.has_reader(of);
        if let Some(place) = again.filter(|_| reads()) {
            let record = Record::RepeatSplit { iteration, source, repetition, task };
            return (position.source.split_at(place), Some(record));
        }
        let waiting = (source, repetition) == (0, 0);
        let waiting = waiting.then(|| of.by_split.first_for_workers()).flatten();
        if let Some(place) = waiting.filter(|_| reads()) {
            let record = Record::HandOutWaiting { iteration, place, task };
            return (position.source.split_at(place), Some(record));
        }
        if repetition < position.repetition || of.collected {
            return (None, None);
        }
        let split = next_split(position, repetition);
        let record = Record::ProduceSplit {
            iteration,
            source,
            repetition,
            finished: split.is_none(),
            task: task.filter(|_| split.is_some()),
        };
        (split, Some(record))
    }

    /// The task for which a worker asks. One whose tasks have ended asks for nobody.
    fn asking_task(&self, iteration: IterationId, asker: Option<&str>) -> Option<TaskId> {
        let worker = self.state.worker_at(asker?)?;
        self.state.task_of(worker.id, iteration)
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

/// The next split of a pass, which begins anew if it is a later one than the present.
fn next_split(position: &SourcePosition, repetition: i64) -> Option<i64> {
    let index = match repetition > position.repetition {
        true => 0,
        false => position.index,
    };
    position.source.split_at(index)
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
