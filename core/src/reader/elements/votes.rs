//! Votes of the consumers of a coordinated read on tasks whose workers cannot be reached.
//!
//! The worker is asked again while a vote waits. What it answers meanwhile is held until the vote has
//! ended: if all agree that the task is gone, the others go on without it, and so does this consumer.

use alloc::vec::Vec;

use super::ballot::Ballot;
use super::fetching::Progress;
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
/// The longest pause after a vote that another one ended.
const PAUSE_MAX: Duration = Duration::from_millis(500);

/// What a consumer knows of a task that may be gone.
#[derive(Clone, Debug, Default)]
pub(super) struct Doubt {
    /// Whether consumers are to agree that it is gone.
    pub(super) is_open: bool,
    /// Whether a vote is under way.
    pub(super) is_voting: bool,
    ballot: Ballot,
    /// When to vote again.
    retry: Retry,
    /// What the worker has answered since the vote was cast.
    pub(super) held: Option<(Call, Fetched)>,
}

impl Doubt {
    /// Whether the consumer is to vote, at the latest at [`Doubt::at`].
    pub(super) const fn wants_vote(&self) -> bool {
        self.is_open && !self.is_voting
    }

    /// When it votes, if it must wait.
    pub(super) const fn at(&self) -> Option<Time> {
        self.retry.at()
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
    /// Tasks on which the consumer votes where it is in doubt of them: those that are listed. One whose
    /// answer is held may have left the list because all gave it up, or because it has ended: the
    /// dispatcher says which, when it is asked once more.
    pub(super) fn voted_on<'a>(
        &'a self,
        shared: &'a Shared,
    ) -> impl Iterator<Item = (TaskId, &'a Progress)> {
        let is_listed = |id: &TaskId| shared.tasks.iter().any(|task| task.id == *id);
        let tasks = self.tasks.iter().map(|(id, progress)| (*id, progress));
        tasks.filter(move |(id, progress)| progress.doubt.held.is_some() || is_listed(id))
    }

    /// Votes on tasks that may be gone. A vote does not wait for the worker's answer, nor the other way
    /// round: the votes of all consumers are to wait at one time, and a call to a host that is switched
    /// off takes seconds to fail.
    pub(super) fn vote_again(&mut self, now: Time, shared: &mut Shared, out: &mut Vec<Effect>) {
        let due = self.voted_on(shared).filter(|(_, progress)| progress.may_vote(now));
        let due: Vec<(TaskId, i64)> = due.filter_map(|(id, it)| Some((id, it.round?))).collect();
        for (task, round) in due {
            self.vote(now, task, round, shared, out);
        }
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
        let cast = doubt.ballot.cast(now, own, size);
        // Who has an answer only has to know whether the others gave the task up. A vote that names
        // its own round is told so.
        let round = if doubt.held.is_some() { own } else { cast };
        doubt.is_voting = true;
        doubt.retry.begin();
        let request = Request::RemoveTask { task, consumer: i64::from(index), round };
        shared.ask(Purpose::Remove(task), request, VOTE_DEADLINE, out);
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
                (progress.is_removed, doubt.held) = (true, None);
                let round = progress.round;
                self.pass(task, round);
                return Ok(());
            }
            Ok(false) => {
                if let Some((call, fetched)) = doubt.held.take() {
                    return self.take(now, call, Ok(fetched), entropy, shared);
                }
                doubt.ballot.fail(now);
                Status::new(Code::Unavailable, "consumers have not agreed")
            }
            Err(status) if status.code.may_pass() => status,
            Err(status) => return Err(status),
        };
        shared.count_retry();
        doubt.retry.failed_times(FAILURES_PER_VOTE, now, why, entropy, pause_max);
        Ok(())
    }
}
