//! Coordinated reads: agreement on the round from which a new task is read.
//!
//! All consumers must see the same tasks in the same round. A new task therefore waits until every
//! consumer stands blocked before one proposed round. A consumer already past the proposal pushes
//! it away, each time by twice as much. `docs/round_robin.md` has the table of states and inputs.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use super::machine::{Dispatcher, Turn};
use super::record::Record;
use super::refusal::Refusal;
use super::reply::Event;
use super::request::ClientHeartbeat;
use super::state::{Iteration, PendingTask};
use crate::ids::{ClientId, IterationId};

/// The first proposal lies this many rounds past the latest one reported.
const FIRST_DELTA: i64 = 1;
/// A proposal after a failed one lies at least this many rounds past the latest one reported.
const RETRY_DELTA: i64 = 2;

/// How far the consumers of an iteration are, as far as this process knows.
#[derive(Clone, Debug, Default)]
pub(super) struct Rounds {
    /// The latest round that any of them has reported.
    pub(super) reported: Option<i64>,
    /// The last round before which each consumer was blocked and has been let go since. It may have begun
    /// that round, whatever a heartbeat says that was long under way.
    let_go: BTreeMap<ClientId, i64>,
    /// The greatest of those, of consumers that have left too.
    let_go_max: i64,
}

impl Rounds {
    /// The latest round that any consumer may have begun.
    fn latest(&self) -> i64 {
        self.reported.unwrap_or(0).max(self.let_go_max)
    }

    /// Where a consumer stands by its heartbeat: the round that it may have begun, and the round before
    /// which it is blocked for certain.
    fn of(&self, heartbeat: &ClientHeartbeat) -> (i64, Option<i64>) {
        let let_go = self.let_go.get(&heartbeat.client).copied();
        let was_let_go = |round: &i64| let_go.is_some_and(|let_go| *round <= let_go);
        let reported = heartbeat.current_round.unwrap_or(0);
        match heartbeat.blocked_round {
            Some(round) if was_let_go(&round) => (reported.max(round), None),
            blocked => (reported, blocked),
        }
    }

    /// Consumers that were let go from a round.
    pub(super) fn consumers(&self) -> impl Iterator<Item = ClientId> + '_ {
        self.let_go.keys().copied()
    }

    /// A consumer has left.
    pub(super) fn forget(&mut self, client: ClientId) {
        self.let_go.remove(&client);
    }
}

impl Dispatcher {
    /// The round proposed first for a new task of this iteration.
    pub(super) fn first_target_round(&self, iteration: IterationId) -> i64 {
        self.latest_round(iteration).saturating_add(FIRST_DELTA)
    }

    fn latest_round(&self, iteration: IterationId) -> i64 {
        self.rounds.get(&iteration).map_or(0, Rounds::latest)
    }

    /// Notes that a consumer may go on from the round before which it was blocked, if the reply to its
    /// heartbeat says so.
    pub(super) fn note_let_go(
        &mut self,
        id: IterationId,
        heartbeat: &ClientHeartbeat,
        block_round: Option<i64>,
    ) {
        let Some(from) =
            heartbeat.blocked_round.filter(|from| block_round.is_none_or(|to| to > *from))
        else {
            return;
        };
        let rounds = self.rounds.entry(id).or_default();
        let let_go = rounds.let_go.entry(heartbeat.client).or_insert(from);
        *let_go = from.max(*let_go);
        rounds.let_go_max = rounds.let_go_max.max(from);
    }

    /// Takes what a heartbeat says of rounds, and carries the agreement forward.
    pub(super) fn report_round(
        &mut self,
        turn: &mut Turn<'_>,
        id: IterationId,
        heartbeat: &ClientHeartbeat,
    ) -> Result<(), Refusal> {
        if let Some(round) = heartbeat.current_round {
            let rounds = self.rounds.entry(id).or_default();
            rounds.reported = rounds.reported.max(Some(round));
        }
        let iteration = self.iteration(id)?;
        let Some(front) = iteration.pending.front() else {
            return Ok(());
        };
        let none = Rounds::default();
        let rounds = self.rounds.get(&id).unwrap_or(&none);
        let records = decide_round(iteration, front, heartbeat, rounds);
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
    rounds: &Rounds,
) -> Vec<Record> {
    let (current, blocked) = rounds.of(heartbeat);
    let mut records = Vec::new();
    let mut target_round = front.target_round;
    let mut is_ready = front.ready.contains(&heartbeat.client);
    if current >= target_round {
        target_round = rounds.latest().saturating_add(retry_delta(front.failures));
        is_ready = false;
        records.push(Record::RejectRound { iteration: iteration.id, target_round });
    }
    if blocked.is_some_and(|round| round <= target_round) && !is_ready {
        records.push(Record::AcceptRound { iteration: iteration.id, client: heartbeat.client });
    }
    records
}

fn retry_delta(failures: u32) -> i64 {
    RETRY_DELTA.checked_shl(failures).filter(|delta| *delta > 0).unwrap_or(i64::MAX)
}
