//! Where a task's elements come from: its part of the dataset, or splits one after another. No more
//! is made than there is room for, and no split taken before there is.

use alloc::vec::Vec;
use bytes::Bytes;

use super::buffer::End;
use super::calls::Purpose;
use super::machine::Worker;
use super::refusal;
use super::retry::Retry;
use super::task::{Opening, Task};
use super::types::{Effect, From, Part, Request, RpcId, RunId, Then};
use crate::ids::TaskId;
use crate::status::{Code, Status};
use crate::time::{Duration, Time};

/// How long data may be out of reach, while nothing is made, until that is an error for everybody.
const DATA_PATIENCE: Duration = Duration::from_secs(300);
/// Spreads the ids of tasks over 64 bits: not all workers shall read again in one moment.
const SPREAD: u64 = 0x9E37_79B9_7F4A_7C15;

/// The state of a task's production.
#[derive(Clone, Debug)]
pub(super) struct Supply {
    /// From what elements are made now.
    from: Option<From>,
    /// Whether they are being made.
    is_making: bool,
    /// The split that was asked for.
    pub(super) getting: Option<RpcId>,
    /// There are no more splits.
    has_heard_the_end: bool,
    retry: Option<Retry>,
}

impl Supply {
    pub(super) const fn of(part: Part) -> Self {
        let from = match part {
            Part::Splits => None,
            Part::Whole | Part::Shard { .. } => Some(From::Stream),
        };
        Self { from, is_making: false, getting: None, has_heard_the_end: false, retry: None }
    }

    pub(super) fn retry_at(&self) -> Option<Time> {
        self.retry.as_ref().and_then(Retry::at)
    }
}

impl Worker {
    /// Has elements made while there is room.
    pub(super) fn supply(&mut self, now: Time, task: &mut Task, out: &mut Vec<Effect>) {
        let Opening::Open(run) = task.opening else { return };
        let is_due = task.supply.retry.as_mut().is_none_or(|retry| retry.is_due(now));
        let supply = &task.supply;
        if task.ready.end.is_some() || supply.is_making || supply.getting.is_some() {
            return;
        }
        let Some(room_bytes) = self.room(task) else { return };
        match supply.from {
            Some(from) if is_due => {
                task.supply.is_making = true;
                out.push(Effect::Produce { run, from, room_bytes });
            }
            Some(_) => {}
            None if self.is_draining() => self.make_the_rest(run, task, out),
            None if is_due => self.get_split(task, out),
            None => {}
        }
    }

    /// Room for more elements, in bytes; `None` when there is none.
    fn room(&self, task: &Task) -> Option<u64> {
        let runs = (self.runs.len() as u64).max(1);
        let share = self.config.buffer_bytes / runs;
        let left = self.config.buffer_bytes.saturating_sub(self.ready_bytes());
        let room = share.saturating_sub(task.ready.bytes()).min(left);
        let is_short = task.ready.len() < task.runner.needed();
        (room > 0 || is_short).then_some(room)
    }

    fn make_the_rest(&self, run: RunId, task: &mut Task, out: &mut Vec<Effect>) {
        task.supply.from = Some(From::Rest);
        task.supply.is_making = true;
        out.push(Effect::Produce { run, from: From::Rest, room_bytes: self.config.buffer_bytes });
    }

    fn get_split(&mut self, task: &mut Task, out: &mut Vec<Effect>) {
        let request = Request::Split { iteration: task.def.iteration };
        let rpc = self.send(Purpose::Split(task.def.task), request, out);
        task.supply.getting = Some(rpc);
    }

    /// The dispatcher has handed out a split, or has no more.
    pub(super) fn split_answered(
        &mut self,
        now: Time,
        task: &mut Task,
        result: Result<Option<i64>, Status>,
        entropy: u64,
    ) {
        task.supply.getting = None;
        let status = match result {
            Ok(split) => {
                task.supply.retry = None;
                task.supply.has_heard_the_end = split.is_none();
                task.supply.from = Some(split.map_or(From::Rest, From::Split));
                return;
            }
            Err(status) => status,
        };
        let until = now.after(self.config.dispatcher_timeout);
        let retry = task.supply.retry.get_or_insert_with(|| Retry::until(until));
        if !refusal::is_of_the_way(&status) {
            task.ready.end = Some(End::Failed(refusal::final_error(status)));
        } else if !retry.again(now, entropy) {
            let status = refusal::away_for_too_long("hand out a split", &status);
            task.ready.end = Some(End::Failed(refusal::final_error(status)));
        }
    }

    /// Elements were made.
    pub(super) fn produced(
        &mut self,
        now: Time,
        run: RunId,
        (elements, then): (Vec<Bytes>, Then),
        out: &mut Vec<Effect>,
    ) {
        let Some(id) = self.runs.get(&run).copied() else { return };
        let is_draining = self.is_draining();
        self.with_task(now, id, out, |task| {
            if !elements.is_empty() {
                task.supply.retry = None;
            }
            elements.into_iter().for_each(|element| task.ready.push(element));
            task.supply.is_making = false;
            match then {
                Then::More => {}
                Then::Failed(status) => failed(now, task, status),
                Then::End => ended(task, is_draining),
            }
        });
    }

    /// Closes the run of a failed task, which may hold records.
    pub(super) fn close_if_failed(&mut self, task: &Task, out: &mut Vec<Effect>) {
        if let (Some(End::Failed(_)), Some(run)) = (&task.ready.end, task.run())
            && self.runs.remove(&run).is_some()
        {
            out.push(Effect::Close { run });
        }
    }

    /// Elements of splits that no other worker makes, as far as they are there.
    pub(super) fn left_behind(&self) -> u64 {
        let owing = self.tasks.values().filter(|task| task.owes());
        owing.map(|task| task.ready.len() as u64).sum()
    }

    /// Does for the tasks whose time has come what is to be done.
    pub(super) fn wake_tasks(&mut self, now: Time, out: &mut Vec<Effect>) {
        let due = self.alarms.iter().filter(|(_, at)| **at <= now);
        let due: Vec<TaskId> = due.map(|(id, _)| *id).collect();
        for id in due {
            self.with_task(now, id, out, |_| {});
        }
    }
}

/// The data cannot be read: they are read again later if their store is out of reach.
fn failed(now: Time, task: &mut Task, status: Status) {
    let spread = task.def.task.get().cast_unsigned().wrapping_mul(SPREAD);
    let until = now.after(DATA_PATIENCE);
    let retry = task.supply.retry.get_or_insert_with(|| Retry::until(until));
    if status.code != Code::Unavailable || !retry.again(now, spread) {
        task.supply.retry = None;
        task.ready.end = Some(End::Failed(refusal::final_error(status)));
    }
}

/// What was to be made is made.
fn ended(task: &mut Task, is_draining: bool) {
    task.supply.retry = None;
    let was_last = !matches!(task.supply.from, Some(From::Split(_)));
    if !was_last {
        task.supply.from = None;
    } else if is_draining && task.def.part == Part::Splits && !task.supply.has_heard_the_end {
        // Others have the splits that are left.
        task.ready.end = Some(End::Cut);
    } else {
        task.ready.end = Some(End::Over);
    }
}
