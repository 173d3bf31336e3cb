//! Votes of the consumers of a coordinated read on tasks whose workers cannot be reached.
//!
//! A consumer asks the worker again while its vote waits. If the worker answers, the consumer withdraws the
//! vote. All may have agreed at that moment, and the others then go on without the task. So the consumer
//! holds the answer until it knows how the vote ended. The same holds if the dispatcher's answer is lost.
//!
//! The consumer learns it from heartbeats. A vote surely has ended [`VOTE_ENDS`] after it was cast. The
//! first heartbeat answered after that may have been sent before, the second was not: if its answer lists
//! the task, consumers have not given the task up. If a list lacks the task, they have. The consumer does not
//! vote while it holds an answer: all who hold one would give up a worker that lives.
//!
//! The consumer also holds an error that would end it. A worker may learn before its consumers that they have
//! given a task up, and say that the task is deleted. The vote under way goes on then.

use alloc::vec::Vec;

use super::ballot::Ballot;
use super::rounds::PAUSE_MAX;
use super::{Call, Elements};
use crate::ids::TaskId;
use crate::limits::VOTING_LASTS;
use crate::reader::retry::Retry;
use crate::reader::shared::{Purpose, Shared};
use crate::reader::types::{Effect, Fetched, Request, RpcId};
use crate::status::{Code, Status};
use crate::time::{Duration, Time};

/// How long a vote may wait at the dispatcher, which ends the call then. TensorFlow's waits for 10 s.
const VOTE_DEADLINE: Duration = Duration::from_secs(11);
/// A vote surely counts no more so long after it was cast, unless it was under way for more than the
/// difference to [`VOTE_DEADLINE`].
const VOTE_ENDS: Duration = Duration::from_secs(12);
/// A vote waits so many times longer than the consumer pauses after it.
const PAUSES_PER_VOTE: u64 = 256;
/// Pauses between votes grow as if each were so many calls that failed: each vote may end those of all
/// other consumers.
const FAILURES_PER_VOTE: u32 = 2;
/// Lists that must have a task, after a vote has ended, before it is known that the vote did not remove it.
const LISTS: u8 = 2;

/// A vote whose outcome is unknown.
#[derive(Clone, Copy, Debug)]
struct Unsure {
    /// When it surely has ended.
    ends: Time,
    /// Lists after that which must still have the task.
    lists: u8,
    /// Whether the next heartbeat was hurried since.
    is_hurried: bool,
}

/// A consumer's doubt whether a task is gone.
#[derive(Clone, Debug, Default)]
pub(super) struct Doubt {
    /// When a call failed last, while consumers are to agree that the task is gone.
    failed: Option<Time>,
    /// The vote under way, and when it was cast.
    pub(super) vote: Option<(RpcId, Time)>,
    /// The last vote whose outcome is unknown.
    unsure: Option<Unsure>,
    ballot: Ballot,
    /// When to vote again.
    retry: Retry,
    /// The worker's answer, or its hard error, while the outcome of a vote is unknown.
    pub(super) held: Option<(Call, Result<Fetched, Status>)>,
}

impl Doubt {
    /// A call to the task has failed, and consumers are to agree that the task is gone.
    pub(super) const fn failed(&mut self, now: Time) {
        self.failed = Some(now);
    }

    /// Whether the consumer is to vote, at [`Doubt::at`] if that is set.
    pub(super) const fn wants_vote(&self) -> bool {
        self.failed.is_some() && self.vote.is_none() && self.held.is_none()
    }

    /// When it votes, if it must wait.
    pub(super) const fn at(&self) -> Option<Time> {
        self.retry.at()
    }

    /// Whether a vote is under way.
    pub(super) const fn is_voting(&self) -> bool {
        self.vote.is_some()
    }

    /// Whether the task may have been given up without the consumer's knowledge: an answer is to be held.
    pub(super) const fn is_unsure(&self) -> bool {
        self.vote.is_some() || self.unsure.is_some()
    }

    /// Whether an answer is held and only lists of the dispatcher are lacking.
    pub(super) fn awaits_lists(&self, now: Time) -> bool {
        self.held.is_some() && self.unsure.is_some_and(|unsure| unsure.ends <= now)
    }

    /// When to ask the dispatcher for its list, for the sake of the held answer.
    pub(super) fn hurries_at(&self) -> Option<Time> {
        let unsure = self.unsure.filter(|unsure| self.held.is_some() && !unsure.is_hurried)?;
        Some(unsure.ends)
    }

    /// Takes the vote back that is under way: its outcome is unknown from now on.
    pub(super) fn withdraw(&mut self) -> Option<RpcId> {
        let (rpc, cast) = self.vote.take()?;
        self.lose(cast);
        Some(rpc)
    }

    /// The outcome of a vote that was cast then is unknown.
    fn lose(&mut self, cast: Time) {
        let ends = cast.after(VOTE_ENDS);
        self.unsure = Some(Unsure { ends, lists: LISTS, is_hurried: false });
    }

    /// The dispatcher has listed the task.
    pub(super) fn listed(&mut self, now: Time) {
        if let Some(unsure) = self.unsure.as_mut().filter(|unsure| unsure.ends <= now) {
            unsure.lists = unsure.lists.saturating_sub(1);
            self.unsure = self.unsure.filter(|unsure| unsure.lists > 0);
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
            let doubt = &mut progress.doubt;
            if is_listed && doubt.is_unsure() {
                if let Some(unsure) = doubt.unsure.as_mut().filter(|it| it.ends <= now) {
                    self.hurries |= !unsure.is_hurried;
                    unsure.is_hurried = true;
                }
                continue;
            }
            let stays = !doubt.is_unsure();
            settled.extend(doubt.held.take().map(|held| (held, stays)));
        }
        for ((call, result), stays) in settled {
            if stays {
                self.take(now, call, result, 0, shared)?;
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
        doubt.retry.begin();
        let request = Request::RemoveTask { task, consumer: i64::from(index), round };
        let rpc = shared.ask(Purpose::Remove(task), request, VOTE_DEADLINE, out);
        doubt.vote = Some((rpc, now));
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
        let Some((_, cast)) = doubt.vote.take() else {
            return Ok(());
        };
        let pause_max = pause_after_vote(doubt.ballot.waited(now));
        let why = match result {
            Ok(true) => {
                self.give_up(task);
                return Ok(());
            }
            Ok(false) => {
                doubt.unsure = None;
                doubt.ballot.fail(now);
                Status::new(Code::Unavailable, "consumers have not agreed")
            }
            Err(status) if status.code.may_pass() => {
                doubt.lose(cast);
                status
            }
            Err(status) => return Err(status),
        };
        shared.count_retry();
        doubt.failed = doubt.failed.filter(|failed| now.since(*failed) <= VOTING_LASTS);
        doubt.retry.failed_times(FAILURES_PER_VOTE, now, why, entropy, pause_max);
        Ok(())
    }
}
