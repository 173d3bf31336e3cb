//! Votes of the consumers of a coordinated read on tasks whose workers cannot be reached.
//!
//! The worker is asked again while a vote waits. What it answers meanwhile is held until the vote has
//! ended: if all agree that the task is gone, the others go on without it, and so does this consumer.
//!
//! If the dispatcher's answer to a vote is lost, the consumer does not know how the vote ended. It waits
//! for two heartbeats. The first may have been sent before the vote ended, the second was not: if its
//! answer lists the task, consumers have not given the task up. The consumer does not vote again to find
//! out: all who hold an answer would agree.

use alloc::vec::Vec;

use super::ballot::Ballot;
use super::rounds::PAUSE_MAX;
use super::{Call, Elements};
use crate::ids::TaskId;
use crate::reader::retry::Retry;
use crate::reader::shared::{Purpose, Shared};
use crate::reader::types::{Effect, Fetched, Request};
use crate::status::{Code, Status};
use crate::time::{Duration, Time};

/// How long all consumers together may take to agree that a task is gone.
const VOTE_DEADLINE: Duration = Duration::from_secs(20);
/// A vote waits so many times longer than the consumer pauses after it.
const PAUSES_PER_VOTE: u64 = 256;
/// Pauses between votes grow as if each were so many calls that failed: each vote may end those of all
/// other consumers.
const FAILURES_PER_VOTE: u32 = 2;
/// A consumer stops to vote when no call has failed for so long: one under way may merely wait for other
/// consumers. Calls to a host that is switched off fail sooner.
const DOUBT_LASTS: Duration = Duration::from_secs(30);
/// Lists that must have a task before a vote whose outcome is unknown is known not to have removed it.
const LISTS: u8 = 2;

/// A consumer's doubt whether a task is gone.
#[derive(Clone, Debug, Default)]
pub(super) struct Doubt {
    /// When a call failed last, while consumers are to agree that the task is gone.
    failed: Option<Time>,
    /// Whether a vote is under way.
    pub(super) is_voting: bool,
    /// Lists that must still have the task, since the outcome of a vote is unknown.
    unsure: u8,
    ballot: Ballot,
    /// When to vote again.
    retry: Retry,
    /// The worker's answer, if it came after the consumer had cast its vote.
    pub(super) held: Option<(Call, Fetched)>,
}

impl Doubt {
    /// A call to the task has failed, and consumers are to agree that the task is gone.
    pub(super) const fn failed(&mut self, now: Time) {
        self.failed = Some(now);
    }

    /// Whether the consumer is to vote, at [`Doubt::at`] if that is set.
    pub(super) const fn wants_vote(&self) -> bool {
        self.failed.is_some() && !self.is_voting && self.held.is_none()
    }

    /// When it votes, if it must wait.
    pub(super) const fn at(&self) -> Option<Time> {
        self.retry.at()
    }

    /// Whether the task may have been given up without the consumer's knowledge: an answer is to be held.
    pub(super) const fn is_unsure(&self) -> bool {
        self.is_voting || self.unsure > 0
    }

    /// The dispatcher has listed the task.
    pub(super) const fn listed(&mut self) {
        if !self.is_voting {
            self.unsure = self.unsure.saturating_sub(1);
        }
    }
}

/// The longest pause after a vote that waited so long. One that waited for others is cast again soon:
/// they agree only while the votes of all of them wait, however short each may wait.
fn pause_after_vote(waited: Duration) -> Duration {
    match waited < PAUSE_MAX {
        true => PAUSE_MAX,
        false => Duration::from_nanos(waited.as_nanos() / PAUSES_PER_VOTE),
    }
}

impl Elements {
    /// Votes on tasks that may be gone. A vote does not wait for the worker's answer, nor the other way
    /// round: the votes of all consumers are to wait at one time, and a call to a host that is switched
    /// off takes seconds to fail.
    pub(super) fn vote_again(&mut self, now: Time, shared: &mut Shared, out: &mut Vec<Effect>) {
        let due = shared.tasks.iter().filter_map(|task| {
            let progress = self.tasks.get(&task.id).filter(|progress| progress.may_vote(now))?;
            Some((task.id, progress.round?))
        });
        let due: Vec<(TaskId, i64)> = due.collect();
        for (task, round) in due {
            self.vote(now, task, round, shared, out);
        }
    }

    /// Takes answers that were held until it was known that their tasks stay, and drops those of tasks
    /// that are gone from the list.
    ///
    /// # Errors
    /// The status that ends the reader.
    pub(super) fn take_held(&mut self, now: Time, shared: &mut Shared) -> Result<(), Status> {
        let mut settled = Vec::new();
        for (task, progress) in &mut self.tasks {
            let is_listed = shared.tasks.iter().any(|it| it.id == *task);
            let is_unsure = progress.doubt.is_unsure();
            if progress.doubt.is_voting || is_unsure && is_listed {
                continue;
            }
            settled.extend(progress.doubt.held.take().map(|held| (held, !is_unsure)));
        }
        for ((call, fetched), stays) in settled {
            if stays {
                self.take(now, call, Ok(fetched), 0, shared)?;
            } else {
                self.pass(call.task, call.round);
                self.forget_if_unlisted(call.task, shared);
            }
        }
        Ok(())
    }

    /// Votes to give up a task that was asked for an element of this round.
    fn vote(
        &mut self,
        now: Time,
        task: TaskId,
        own: i64,
        shared: &mut Shared,
        out: &mut Vec<Effect>,
    ) {
        let consumer = self.rounds.as_ref().map(|rounds| rounds.consumer);
        let (index, size) = consumer.map_or((0, 1), |it| (it.index, it.size));
        let doubt = &mut self.tasks.entry(task).or_default().doubt;
        let round = doubt.ballot.cast(now, own, size);
        doubt.is_voting = true;
        doubt.retry.begin();
        let request = Request::RemoveTask { task, consumer: i64::from(index), round };
        shared.ask(Purpose::Remove(task), request, VOTE_DEADLINE, out);
    }

    /// All have given a task up: the round goes on without it.
    fn give_up(&mut self, task: TaskId) {
        if let Some(progress) = self.tasks.get_mut(&task) {
            (progress.is_removed, progress.doubt.held) = (true, None);
            let round = progress.round;
            self.pass(task, round);
        }
    }

    /// The consumers have agreed that a task is gone, or not.
    ///
    /// # Errors
    /// The dispatcher's refusal.
    pub(super) fn voted(
        &mut self,
        now: Time,
        task: TaskId,
        result: Result<bool, Status>,
        entropy: u64,
        shared: &mut Shared,
    ) -> Result<(), Status> {
        let Some(progress) = self.tasks.get_mut(&task) else {
            return Ok(());
        };
        let doubt = &mut progress.doubt;
        doubt.is_voting = false;
        let pause_max = pause_after_vote(doubt.ballot.waited(now));
        let why = match result {
            Ok(true) => {
                self.give_up(task);
                return Ok(());
            }
            Ok(false) => {
                doubt.unsure = 0;
                if let Some((call, fetched)) = doubt.held.take() {
                    return self.take(now, call, Ok(fetched), entropy, shared);
                }
                doubt.ballot.fail(now);
                Status::new(Code::Unavailable, "consumers have not agreed")
            }
            Err(status) if status.code.may_pass() => {
                doubt.unsure = LISTS;
                self.hurries = true;
                status
            }
            Err(status) => return Err(status),
        };
        shared.count_retry();
        doubt.failed = doubt.failed.filter(|failed| now.since(*failed) <= DOUBT_LASTS);
        doubt.retry.failed_times(FAILURES_PER_VOTE, now, why, entropy, pause_max);
        Ok(())
    }
}
