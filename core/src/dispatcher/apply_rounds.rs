//! Applies what consumers of a coordinated read agree on, or fail to.

use super::state::State;
use crate::ids::{ClientId, IterationId, Lsn};
use crate::log::{ApplyError, missing};

impl State {
    pub(super) fn reject_round(
        &mut self,
        lsn: Lsn,
        iteration: IterationId,
        target_round: i64,
    ) -> Result<(), ApplyError> {
        let iteration = self.iteration_mut(iteration)?;
        let id = iteration.id;
        let front = iteration.pending.front_mut().ok_or_else(|| missing("pending task of", id))?;
        front.failures = front.failures.saturating_add(1);
        front.ready.clear();
        front.target_round = target_round;
        iteration.changed = lsn;
        Ok(())
    }

    pub(super) fn accept_round(
        &mut self,
        lsn: Lsn,
        id: IterationId,
        client: ClientId,
    ) -> Result<(), ApplyError> {
        let job = self.iterations.get(&id).ok_or_else(|| missing("iteration", id))?.job;
        let consumers = self.job_or_missing(job)?.consumers.unwrap_or(0);
        let iteration = self.iteration_mut(id)?;
        let front = iteration.pending.front_mut().ok_or_else(|| missing("pending task of", id))?;
        front.ready.insert(client);
        iteration.changed = lsn;
        let ready = i64::try_from(front.ready.len()).unwrap_or(i64::MAX);
        if ready >= consumers { self.promote_front(id) } else { Ok(()) }
    }

    fn promote_front(&mut self, id: IterationId) -> Result<(), ApplyError> {
        let iteration = self.iteration_mut(id)?;
        let front = iteration.pending.pop_front().ok_or_else(|| missing("pending task of", id))?;
        iteration.tasks.push(front.task);
        let task = self.tasks.get_mut(&front.task).ok_or_else(|| missing("task", front.task))?;
        task.starting_round = front.target_round;
        Ok(())
    }
}
