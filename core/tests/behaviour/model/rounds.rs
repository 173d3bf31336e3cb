//! Coordinated reads in the model.

use std::collections::BTreeSet;

use rondo_core::dispatcher::{ClientHeartbeat, Reply};
use rondo_core::ids::{CallId, IterationId, TaskId};
use rondo_core::status::Code;
use rondo_core::time::Time;

use super::{Heard, Model, Vote};

impl Model {
    /// What a heartbeat means for the front pending task: first a proposal already passed is pushed
    /// away, then a consumer blocked in time agrees.
    pub(super) fn negotiate(&mut self, id: IterationId, heartbeat: &ClientHeartbeat) {
        if let Some(current) = heartbeat.current_round {
            let reported = self.rounds.entry(id).or_default();
            *reported = current.max(*reported);
        }
        let latest = self.latest_round(id);
        let let_go = self.let_go.get(&heartbeat.client).map_or(i64::MIN, |(_, round)| *round);
        let (mut current, mut blocked) =
            (heartbeat.current_round.unwrap_or(0), heartbeat.blocked_round);
        if let Some(round) = blocked.filter(|round| *round <= let_go) {
            (current, blocked) = (current.max(round), None);
        }
        let iteration = self.kept.iteration(id).unwrap();
        let consumers = self.kept.job_of(iteration).consumers;
        let iteration = self.kept.iteration_mut(id).unwrap();
        let Some(front) = iteration.pending.front_mut() else {
            return;
        };
        if current >= front.target {
            let distance = 2_i64.saturating_mul(2_i64.saturating_pow(front.failures));
            front.target = latest.saturating_add(distance);
            front.failures += 1;
            front.ready.clear();
        }
        if blocked.is_some_and(|round| round <= front.target) {
            front.ready.insert(heartbeat.client);
        }
        if front.ready.len() as i64 == consumers.unwrap() {
            let front = iteration.pending.pop_front().unwrap();
            iteration.active.push(front.task);
            self.kept.tasks.get_mut(&front.task).unwrap().starting_round = front.target;
        }
    }

    /// The latest round that a consumer of an iteration may have begun, as far as is known.
    pub(super) fn latest_round(&self, id: IterationId) -> i64 {
        let let_go = self.let_go.values().filter(|(of, _)| *of == id).map(|(_, round)| *round);
        let_go.chain(self.rounds.get(&id).copied()).max().unwrap_or(0).max(0)
    }

    /// Notes what the reply to a heartbeat lets a consumer do.
    pub(super) fn let_go(&mut self, id: IterationId, heartbeat: &ClientHeartbeat, to: Option<i64>) {
        if let Some(from) = heartbeat.blocked_round
            && to.is_none_or(|to| from < to)
        {
            let known = self.let_go.entry(heartbeat.client).or_insert((id, from));
            known.1 = known.1.max(from);
        }
    }

    pub(super) fn forget_rounds(&mut self, id: IterationId) {
        self.rounds.remove(&id);
        self.let_go.retain(|_, (of, _)| *of != id);
    }

    pub(super) fn remove(
        &mut self,
        now: Time,
        call: CallId,
        task: TaskId,
        (consumer, round): (i64, i64),
    ) -> Vec<(CallId, Heard)> {
        let Some(known) = self.kept.tasks.get(&task) else {
            return vec![(call, Ok(Reply::TaskRemoved(true)))];
        };
        let iteration = self.kept.iteration(known.iteration).unwrap();
        let Some(consumers) = self.kept.job_of(iteration).consumers else {
            return vec![(call, Err(Code::FailedPrecondition))];
        };
        if consumer < 0 || consumer >= consumers {
            return vec![(call, Err(Code::InvalidArgument))];
        }
        let until = now.after(self.config.removal_timeout);
        let vote = self.votes.entry(task);
        let vote = vote.or_insert_with(|| Vote { waiting: Vec::new() });
        let mut told = vote.expire(now);
        vote.waiting.push((call, consumer, until, round));
        let named = vote.waiting.iter().map(|it| it.3).filter(|round| *round != i64::MAX);
        let named: BTreeSet<i64> = named.collect();
        let voters: BTreeSet<i64> = vote.waiting.iter().map(|it| it.1).collect();
        let (agreed, all) = (named.len() <= 1, voters.len() as i64 == consumers);
        if agreed && !all {
            return told;
        }
        if agreed {
            self.kept.forsake(task, false);
            self.kept.erase(task);
        }
        let waited = self.votes.remove(&task).unwrap().waiting;
        told.extend(waited.iter().map(|(call, ..)| (*call, Ok(Reply::TaskRemoved(agreed)))));
        told
    }
}

impl Vote {
    /// Takes out the calls that have waited long enough, and says what each is told.
    pub(super) fn expire(&mut self, now: Time) -> Vec<(CallId, Heard)> {
        let expired = self.waiting.extract_if(.., |(_, _, until, _)| *until <= now);
        let told = expired.map(|(call, .., round)| match round {
            i64::MAX => (call, Err(Code::Unavailable)),
            _ => (call, Ok(Reply::TaskRemoved(false))),
        });
        told.collect()
    }
}
