//! Coordinated reads: agreement on the round from which a new task is read.
//!
//! All consumers must see the same tasks in the same round. A new task therefore waits until every
//! consumer stands blocked before one proposed round. A consumer already past the proposal pushes
//! it away, each time by twice as much. `docs/round_robin.md` has the table of states and inputs.

use alloc::vec::Vec;

use super::machine::{Dispatcher, Turn};
use super::record::Record;
use super::refusal::Refusal;
use super::reply::Event;
use super::request::ClientHeartbeat;
use super::state::{Iteration, PendingTask};
use crate::ids::IterationId;

/// The first proposal lies this many rounds past the latest one reported.
const FIRST_DELTA: i64 = 1;
/// A proposal after a failed one lies at least this many rounds past the latest one reported.
const RETRY_DELTA: i64 = 2;

impl Dispatcher {
    /// The round proposed first for a new task of this iteration.
    pub(super) fn first_target_round(&self, iteration: IterationId) -> i64 {
        self.latest_round(iteration).saturating_add(FIRST_DELTA)
    }

    fn latest_round(&self, iteration: IterationId) -> i64 {
        self.rounds.get(&iteration).copied().unwrap_or(0)
    }

    /// Takes what a heartbeat says of rounds, and carries the agreement forward.
    pub(super) fn report_round(
        &mut self,
        turn: &mut Turn<'_>,
        id: IterationId,
        heartbeat: &ClientHeartbeat,
    ) -> Result<(), Refusal> {
        if let Some(round) = heartbeat.current_round {
            let latest = self.latest_round(id).max(round);
            self.rounds.insert(id, latest);
        }
        let iteration = self.iteration(id)?;
        let Some(front) = iteration.pending.front() else {
            return Ok(());
        };
        let records = decide_round(iteration, front, heartbeat, self.latest_round(id));
        let (task, before) = (front.task, iteration.pending.len());
        self.commit(turn, records)?;
        if self.iteration(id)?.pending.len() < before {
            let starting_round = self.state.tasks().get(&task).map_or(0, |t| t.starting_round);
            turn.out.push(super::Effect::Observe(Event::TaskPromoted { task, starting_round }));
        }
        Ok(())
    }
}

/// A consumer past the proposal pushes it away; one blocked at or before the (new) proposal
/// agrees to it. Both can happen in one heartbeat.
fn decide_round(
    iteration: &Iteration,
    front: &PendingTask,
    heartbeat: &ClientHeartbeat,
    latest: i64,
) -> Vec<Record> {
    let mut records = Vec::new();
    let mut target_round = front.target_round;
    let mut is_ready = front.ready.contains(&heartbeat.client);
    if heartbeat.current_round.unwrap_or(0) >= target_round {
        target_round = latest.saturating_add(retry_delta(front.failures));
        is_ready = false;
        records.push(Record::RejectRound { iteration: iteration.id, target_round });
    }
    let blocked = heartbeat.blocked_round.is_some_and(|round| round <= target_round);
    if blocked && !is_ready {
        records.push(Record::AcceptRound { iteration: iteration.id, client: heartbeat.client });
    }
    records
}

fn retry_delta(failures: u32) -> i64 {
    RETRY_DELTA.checked_shl(failures).filter(|delta| *delta > 0).unwrap_or(i64::MAX)
}
