//! Records about splits that clients hold, applied.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::ToString;

use super::by_split::{BySplit, DepartedReader, SplitProgress};
use super::record::Record;
use super::state::{Iteration, State};
use crate::ids::{ClientId, IterationId, Lsn, TaskId};
use crate::limits::{DEPARTED_READERS_MAX, SPLITS_BY_CLIENTS_MAX};
use crate::log::{ApplyError, missing};

impl State {
    pub(super) fn apply_holding(&mut self, lsn: Lsn, record: &Record) -> Result<(), ApplyError> {
        match record {
            Record::HoldSplits { client, progress, taken, group_size } => {
                self.hold_splits(lsn, *client, progress, (taken, *group_size))
            }
            Record::HandOutWaiting { iteration, place, task } => {
                self.hand_out_waiting(lsn, *iteration, *place, *task)
            }
            Record::FinishIteration { id } => self.finish_iteration(lsn, *id),
            _ => Err(ApplyError("the record is of no kind that reading by split has".to_string())),
        }
    }

    fn hold_splits(
        &mut self,
        lsn: Lsn,
        id: ClientId,
        progress: &[SplitProgress],
        (taken, group_size): (&[u64], u32),
    ) -> Result<(), ApplyError> {
        let client = self.clients.get_mut(&id).ok_or_else(|| missing("client", id))?;
        let of = self.iterations.get_mut(&client.iteration);
        let of = of.ok_or_else(|| missing("iteration", client.iteration))?;
        check_progress(&client.splits, progress)?;
        check_taken(of, taken)?;
        for progress in progress {
            acknowledge(&mut of.by_split, &mut client.splits, *progress);
        }
        for place in taken {
            let records = take(of, *place);
            client.splits.insert(*place, records);
            client.has_held = true;
            of.by_split.held = of.by_split.held.saturating_add(1);
            of.by_split.group_size = Some(group_size);
        }
        client.changed = lsn;
        of.splits_changed = lsn;
        Ok(())
    }

    fn hand_out_waiting(
        &mut self,
        lsn: Lsn,
        iteration: IterationId,
        place: u64,
        task: Option<TaskId>,
    ) -> Result<(), ApplyError> {
        self.check_holder(iteration, task)?;
        let of = self.iteration_mut(iteration)?;
        let waited = of.by_split.waiting.remove(&place);
        waited.ok_or_else(|| missing("waiting split at place", place))?;
        of.splits_changed = lsn;
        self.hand_out(iteration, (0, 0, place), task)
    }

    fn finish_iteration(&mut self, lsn: Lsn, id: IterationId) -> Result<(), ApplyError> {
        let of = self.iterations.get(&id).ok_or_else(|| missing("iteration", id))?;
        if of.finished || of.awaits_readers_by_split() {
            return Err(ApplyError(format!("iteration {id} is over already, or not yet")));
        }
        for task in of.tasks.clone() {
            self.end_task(lsn, task)?;
        }
        self.close_iteration(lsn, id)
    }

    /// Keeps the progress of a client that leaves, if it ever held a split and its iteration was not
    /// ended under it.
    pub(super) fn keep_progress(&mut self, lsn: Lsn, id: ClientId) -> Result<(), ApplyError> {
        let client = self.clients.get(&id).ok_or_else(|| missing("client", id))?;
        let of = self.iterations.get(&client.iteration);
        let of = of.ok_or_else(|| missing("iteration", client.iteration))?;
        if of.collected || !client.has_held {
            return Ok(());
        }
        let splits = client.held_splits().collect();
        let (iteration, repetition) = (of.id, of.repetition);
        let reader = DepartedReader { iteration, repetition, splits, left: lsn };
        self.change_job(of.job, |job| {
            job.departed.insert(id, reader);
            if job.departed.len() > DEPARTED_READERS_MAX {
                let first = job.departed.iter().min_by_key(|(_, reader)| reader.left);
                let first = first.map(|(id, _)| *id);
                first.and_then(|id| job.departed.remove(&id));
            }
            job.changed = lsn;
        })
    }

    /// What a client held waits for another, which goes on behind what was acknowledged.
    pub(super) fn give_back(&mut self, lsn: Lsn, id: ClientId) -> Result<(), ApplyError> {
        let client = self.clients.get_mut(&id).ok_or_else(|| missing("client", id))?;
        if client.splits.is_empty() {
            return Ok(());
        }
        let splits = core::mem::take(&mut client.splits);
        let iteration = client.iteration;
        let of = self.iteration_mut(iteration)?;
        let count = u64::try_from(splits.len()).unwrap_or(u64::MAX);
        of.by_split.held = of.by_split.held.saturating_sub(count);
        of.by_split.waiting.extend(splits);
        of.splits.tried = None;
        of.splits_changed = lsn;
        Ok(())
    }

    /// Nobody reads an iteration by split any more.
    pub(super) fn forget_held_splits(&mut self, id: IterationId) -> Result<(), ApplyError> {
        let of = self.iterations.get_mut(&id).ok_or_else(|| missing("iteration", id))?;
        of.by_split.waiting.clear();
        if core::mem::take(&mut of.by_split.held) == 0 {
            return Ok(());
        }
        for client in &of.clients {
            if let Some(client) = self.clients.get_mut(client) {
                client.splits.clear();
            }
        }
        Ok(())
    }
}

fn check_progress(held: &BTreeMap<u64, u64>, progress: &[SplitProgress]) -> Result<(), ApplyError> {
    let wrong = |progress: &&SplitProgress| {
        held.get(&progress.place).is_none_or(|records| *records > progress.records)
    };
    match progress.iter().find(wrong) {
        Some(wrong) => Err(ApplyError(format!("{wrong:?} is not of a split held, or goes back"))),
        None => Ok(()),
    }
}

/// Every place must be one to be handed out, and no place stand there twice.
fn check_taken(of: &Iteration, taken: &[u64]) -> Result<(), ApplyError> {
    let Some(source) = of.sources.first().filter(|_| !of.finished) else {
        return Err(ApplyError(format!("iteration {} has no splits to hold", of.id)));
    };
    let most = u64::try_from(SPLITS_BY_CLIENTS_MAX).unwrap_or(u64::MAX);
    let ahead = |place: u64| {
        let passes_over = place.checked_sub(source.index);
        let near = passes_over.is_some_and(|count| count <= most);
        source.repetition == 0 && near && place < source.source.len()
    };
    let there = |place: &u64| {
        of.by_split.waiting.contains_key(place)
            || of.splits.again.contains(0, 0, *place)
            || ahead(*place)
    };
    let ordered = taken.iter().zip(taken.iter().skip(1)).all(|(place, next)| place < next);
    match taken.iter().find(|place| !there(place)) {
        Some(place) => Err(missing("split to be held at place", place)),
        None if !ordered => Err(ApplyError("places to be held are out of order".to_string())),
        None => Ok(()),
    }
}

fn acknowledge(by: &mut BySplit, held: &mut BTreeMap<u64, u64>, progress: SplitProgress) {
    let before = held.insert(progress.place, progress.records).unwrap_or_default();
    let new = progress.records.saturating_sub(before);
    by.acknowledged = by.acknowledged.saturating_add(new);
    if progress.finished {
        held.remove(&progress.place);
        by.held = by.held.saturating_sub(1);
    }
}

/// Takes a place out of what waits, or from the source, whose places before it wait for others
/// then. Says how many records of it are acknowledged.
fn take(of: &mut Iteration, place: u64) -> u64 {
    if let Some(records) = of.by_split.waiting.remove(&place) {
        return records;
    }
    if of.splits.again.take(0, 0, place) {
        return 0;
    }
    if let Some(source) = of.sources.first_mut() {
        let passed_over = source.index..place;
        of.by_split.waiting.extend(passed_over.map(|place| (place, 0)));
        source.index = place.saturating_add(1);
    }
    0
}
