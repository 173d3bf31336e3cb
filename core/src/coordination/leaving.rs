//! Tasks leave, together or alone, and have their errors forgotten.

use alloc::format;

use super::barriers::{Coming, refused};
use super::errors::Gone;
use super::live::Doing;
use super::machine::{Answer, Asked, Coordination, Said, Turn};
use super::record::{Participants, Record};
use super::refusal::Refusal;
use super::reply::{Event, Reply};
use super::request::Caller;
use super::state::Outcome;
use super::types::{BarrierKey, Fault, Phase, TaskName};
use crate::ids::{NamespaceId, TaskIndex};
use crate::status::Code;
use crate::time::Duration;

impl Coordination {
    /// `ShutdownTask`.
    pub(super) fn shut_down(
        &mut self,
        turn: &mut Turn<'_>,
        asked: Asked<'_>,
        name: &TaskName,
    ) -> Answer {
        let Asked { id, caller, .. } = asked;
        let task = self.index_of(id, name, "request")?;
        let phase = self.namespace(id)?.tasks.get(&task).map(|task| task.phase);
        let recoverable = self.namespace(id)?.tasks.get(&task).is_some_and(|task| task.recoverable);
        let key = BarrierKey::Shutdown;
        let failed = match self.outcome_of(id, &key)? {
            Some(Outcome::Failed(fault)) => Some(fault),
            Some(Outcome::Passed) | None => None,
        };
        if !matches!(phase, Some(Phase::Connected | Phase::Error)) {
            return Err(Refusal::AlreadyLeft { task: self.called(id, task, caller.dialect) });
        }
        self.note(id, task, Doing::Leaves, turn.now);
        if let Some(fault) = failed {
            self.leave(turn, id, task)?;
            return Err(refused(&key, 0, fault));
        }
        let timeout = self.live(id)?.settings.shutdown_timeout;
        if recoverable || timeout == Duration::ZERO {
            self.leave(turn, id, task)?;
            return Ok(Said::Now(Reply::ShutDown, turn.log.last()));
        }
        if let Some(who) = self.participant_in_error(id, &Participants::All)? {
            return self.fail_shutdown(turn, id, task, &who);
        }
        let coming = Coming { key, counter: 0, timeout, task, stamp: caller.stamp };
        self.come_to_own(turn, asked, coming)
    }

    /// All cannot leave together when one is in error.
    fn fail_shutdown(
        &mut self,
        turn: &mut Turn<'_>,
        id: NamespaceId,
        task: TaskIndex,
        who: &str,
    ) -> Answer {
        let key = BarrierKey::Shutdown;
        let opening = Some(self.own_opening(Duration::ZERO));
        self.commit(
            turn,
            Record::ArriveAtBarrier {
                namespace: id,
                barrier: key.clone(),
                counter: 0,
                task,
                stamp: None,
                opening,
                at: turn.now,
            },
        )?;
        let text = format!("Barrier failed because: {who}");
        self.fail_barrier(turn, id, &key, Fault::new(Code::Internal, text))?;
        match self.outcome_of(id, &key)? {
            Some(Outcome::Failed(fault)) => Err(refused(&key, 0, fault)),
            _ => Err(Refusal::Defect("a shutdown that failed did not".into())),
        }
    }

    /// A task leaves alone.
    fn leave(
        &mut self,
        turn: &mut Turn<'_>,
        id: NamespaceId,
        task: TaskIndex,
    ) -> Result<(), Refusal> {
        self.commit(turn, Record::DisconnectTask { namespace: id, task, at: turn.now })?;
        self.observe(turn, Event::TaskLeft { namespace: self.name_of(id), task });
        self.gone(turn, id, task, &Gone::Left, "")
    }

    /// `ResetTask`.
    pub(super) fn reset(
        &mut self,
        turn: &mut Turn<'_>,
        id: NamespaceId,
        caller: &Caller,
        name: &TaskName,
    ) -> Answer {
        let task = self.index_of(id, name, "request")?;
        let phase = self.namespace(id)?.tasks.get(&task).map(|task| task.phase);
        if !matches!(phase, Some(Phase::Connected | Phase::Error)) {
            let task = self.called(id, task, caller.dialect);
            return Err(Refusal::NothingToReset { task });
        }
        self.leave(turn, id, task)?;
        Ok(Said::Now(Reply::Reset, turn.log.last()))
    }
}
