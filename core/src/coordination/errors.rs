//! Tasks in error, and how the others learn of it.

use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::live::{Alarm, Seat};
use super::machine::{Answer, Asked, Coordination, Effect, Said, Turn};
use super::record::{Participants, Record};
use super::refusal::{Refusal, cut, quoted};
use super::reply::{Event, Reply};
use super::request::Caller;
use super::types::{BarrierKey, Fault, Phase, TaskName};
use crate::ids::{NamespaceId, TaskIndex};
use crate::status::Code;

/// How a task went.
pub(super) enum Gone {
    /// In order, or it was reset.
    Left,
    /// In error.
    Failed,
}

impl Coordination {
    pub(super) fn observe(&self, turn: &mut Turn<'_>, event: Event) {
        turn.out.push(Effect::Observe(event));
    }

    pub(super) fn name_of(&self, id: NamespaceId) -> Arc<str> {
        let name = self.state.namespaces.get(&id).map(|namespace| namespace.head.name.clone());
        name.unwrap_or_default()
    }

    /// A task is in error from now on; the first error stays.
    pub(super) fn fail_task(
        &mut self,
        turn: &mut Turn<'_>,
        id: NamespaceId,
        task: TaskIndex,
        fault: &Fault,
    ) -> Result<(), Refusal> {
        let phase = self.namespace(id)?.tasks.get(&task).map(|task| task.phase);
        if phase.is_none_or(|phase| phase == Phase::Error) {
            return Ok(());
        }
        let fault = Fault { message: cut(String::from(&*fault.message)).into(), ..fault.clone() };
        let reason: Arc<str> = format!("{fault}").into();
        self.commit(turn, Record::FailTask { namespace: id, task, fault, at: turn.now })?;
        let namespace = self.name_of(id);
        let event = Event::TaskFailed { namespace, task, reason: reason.clone() };
        self.observe(turn, event);
        self.gone(turn, id, task, &Gone::Failed, &reason)
    }

    /// What follows when a task is not there any more.
    pub(super) fn gone(
        &mut self,
        turn: &mut Turn<'_>,
        id: NamespaceId,
        task: TaskIndex,
        how: &Gone,
        reason: &str,
    ) -> Result<(), Refusal> {
        self.set_alarm(id, Alarm::Silence(task), None);
        self.end_leases(turn, id, task)?;
        if let Gone::Left = how {
            self.end_poll(turn, id, task)?;
        }
        let why = match how {
            Gone::Left => "task disconnected".into(),
            Gone::Failed => format!("task is set to ERROR: {reason}"),
        };
        self.leave_barriers(turn, id, task, &why)?;
        self.recheck_groups(turn, id, Some(task))
    }

    /// The keys that die with a task go.
    pub(super) fn end_leases(
        &mut self,
        turn: &mut Turn<'_>,
        id: NamespaceId,
        task: TaskIndex,
    ) -> Result<(), Refusal> {
        if self.namespace(id)?.store.leased_by(task).next().is_some() {
            self.commit(turn, Record::EndLeases { namespace: id, task })?;
        }
        Ok(())
    }

    /// A poll of a task that has left ends.
    pub(super) fn end_poll(
        &mut self,
        turn: &mut Turn<'_>,
        id: NamespaceId,
        task: TaskIndex,
    ) -> Result<(), Refusal> {
        let poll = self.live_mut(id)?.polls.remove(&task);
        let dialect = self.dialect_of(id);
        let refusal = Refusal::PollEnded { task: self.called(id, task, dialect) };
        self.answer_all(turn, poll, Err(refusal), turn.log.last());
        Ok(())
    }

    /// A task that is not there any more waits at no barrier. Where it may not come back, nobody
    /// else needs to wait for it either.
    pub(super) fn leave_barriers(
        &mut self,
        turn: &mut Turn<'_>,
        id: NamespaceId,
        task: TaskIndex,
        why: &str,
    ) -> Result<(), Refusal> {
        let namespace = self.namespace(id)?;
        if namespace.tasks.get(&task).is_some_and(|task| task.recoverable) {
            return self.withdraw_from_all(turn, id, task);
        }
        let concerned = namespace.open_barriers().filter(|barrier| {
            barrier.participants.as_ref().is_some_and(|participants| participants.contains(task))
        });
        let concerned: Vec<BarrierKey> = concerned.map(|barrier| barrier.key.clone()).collect();
        for barrier in concerned {
            let text = format!("Barrier failed because: {why} ({})", barrier.id());
            self.fail_barrier(turn, id, &barrier, Fault::new(Code::Internal, text))?;
        }
        Ok(())
    }

    /// Takes a task's arrivals out of all open barriers: its process is gone, or another one takes its
    /// place.
    pub(super) fn withdraw_from_all(
        &mut self,
        turn: &mut Turn<'_>,
        id: NamespaceId,
        task: TaskIndex,
    ) -> Result<(), Refusal> {
        self.withdraw_from(turn, id, task, |_| true)
    }

    /// Takes a task's arrivals out of all open barriers of clients: another process registers in its
    /// place, and is itself the one that has come to the register barrier.
    pub(super) fn withdraw_from_clients(
        &mut self,
        turn: &mut Turn<'_>,
        id: NamespaceId,
        task: TaskIndex,
    ) -> Result<(), Refusal> {
        self.withdraw_from(turn, id, task, |key| matches!(key, BarrierKey::Named(_)))
    }

    fn withdraw_from(
        &mut self,
        turn: &mut Turn<'_>,
        id: NamespaceId,
        task: TaskIndex,
        which: impl Fn(&BarrierKey) -> bool,
    ) -> Result<(), Refusal> {
        let open = self.namespace(id)?.open_barriers();
        let concerned =
            open.filter(|barrier| which(&barrier.key) && barrier.arrived.contains_key(&task));
        let concerned: Vec<BarrierKey> = concerned.map(|barrier| barrier.key.clone()).collect();
        for barrier in concerned {
            self.withdraw(turn, id, barrier, task)?;
        }
        Ok(())
    }

    fn withdraw(
        &mut self,
        turn: &mut Turn<'_>,
        id: NamespaceId,
        barrier: BarrierKey,
        task: TaskIndex,
    ) -> Result<(), Refusal> {
        let task_name = self.called(id, task, self.dialect_of(id));
        let refusal = Refusal::CameAgain { task: task_name, id: barrier.id().into() };
        // Until it is recorded the call keeps its place: a full disk may refuse the record.
        let record = Record::LeaveBarrier { namespace: id, barrier: barrier.clone(), task };
        let after = self.commit(turn, record)?;
        let waiting = self.live_mut(id)?.waiting.get_mut(&barrier);
        let call = waiting.and_then(|calls| calls.remove(&task));
        self.answer_all(turn, call, Err(refusal), after);
        Ok(())
    }

    /// Tells everybody of an error that comes from some tasks, unless those may come back.
    pub(super) fn propagate(
        &mut self,
        turn: &mut Turn<'_>,
        id: NamespaceId,
        fault: &Fault,
        sources: &[TaskIndex],
    ) -> Result<(), Refusal> {
        let namespace = self.namespace(id)?;
        let may_return =
            |task: &TaskIndex| namespace.tasks.get(task).is_some_and(|task| task.recoverable);
        if self.live(id)?.settings.recoverable || sources.iter().all(may_return) {
            return Ok(());
        }
        if !namespace.head.polled {
            let text = format!("clients could not be informed of an error: {fault}");
            return self.fail_all(turn, id, &Fault::new(Code::Internal, cut(text)));
        }
        self.stick(turn, id, fault)
    }

    /// From now on every poll ends with this error, unless one came before.
    pub(super) fn stick(
        &mut self,
        turn: &mut Turn<'_>,
        id: NamespaceId,
        fault: &Fault,
    ) -> Result<(), Refusal> {
        if self.namespace(id)?.head.sticky.is_some() {
            return Ok(());
        }
        let fault = Fault { message: cut(String::from(&*fault.message)).into(), ..fault.clone() };
        let record = Record::StickError { namespace: id, fault: fault.clone() };
        let after = self.commit(turn, record)?;
        let polls = core::mem::take(&mut self.live_mut(id)?.polls);
        let reason = format!("{fault}").into();
        self.observe(turn, Event::ErrorSpread { namespace: self.name_of(id), reason });
        self.answer_all(turn, polls.into_values(), Err(Refusal::Spread(Arc::new(fault))), after);
        Ok(())
    }

    /// All tasks are in error.
    pub(super) fn fail_all(
        &mut self,
        turn: &mut Turn<'_>,
        id: NamespaceId,
        fault: &Fault,
    ) -> Result<(), Refusal> {
        let here = |phase| matches!(phase, Phase::Registering | Phase::Connected);
        let tasks = self.namespace(id)?.tasks.values().filter(|task| here(task.phase));
        let tasks: Vec<_> = tasks.map(|task| task.index).collect();
        if tasks.is_empty() {
            return Ok(());
        }
        let fault = fault.clone();
        let why = format!("Barrier failed because: task is set to ERROR: {fault}");
        self.commit(turn, Record::FailAllTasks { namespace: id, fault, at: turn.now })?;
        self.all_gone(turn, id, &tasks, &Fault::new(Code::Internal, cut(why)))
    }

    /// What follows when no task is there any more: no barrier is waited at.
    pub(super) fn all_gone(
        &mut self,
        turn: &mut Turn<'_>,
        id: NamespaceId,
        tasks: &[TaskIndex],
        fault: &Fault,
    ) -> Result<(), Refusal> {
        for task in tasks {
            self.set_alarm(id, Alarm::Silence(*task), None);
            self.end_leases(turn, id, *task)?;
        }
        let open: Vec<_> =
            self.namespace(id)?.open_barriers().map(|barrier| barrier.key.clone()).collect();
        for barrier in open {
            self.fail_barrier(turn, id, &barrier, fault.clone())?;
        }
        self.recheck_groups(turn, id, None)
    }

    /// Tasks have been silent for too long.
    pub(super) fn lose_silent(
        &mut self,
        turn: &mut Turn<'_>,
        id: NamespaceId,
        tasks: &[TaskIndex],
    ) -> Result<(), Refusal> {
        let dialect = self.dialect_of(id);
        let mut sorted = tasks.to_vec();
        sorted.sort_unstable();
        let names = self.listed(id, sorted.iter().copied(), dialect);
        let text = format!(
            "The following tasks are unhealthy (stopped sending heartbeats):\n{names}\n{}",
            self.described(id, &sorted, turn.now)
        );
        let fault = Fault::new(Code::Unavailable, cut(text));
        for task in &sorted {
            let own = format!(
                "{} sent no heartbeat for longer than {} ms ({})",
                self.called(id, *task, dialect),
                self.live(id)?.settings.heartbeat_timeout.as_millis(),
                self.described(id, &[*task], turn.now)
            );
            self.fail_task(turn, id, *task, &Fault::new(Code::Unavailable, own))?;
        }
        self.propagate(turn, id, &fault, &sorted)
    }

    /// `PollForError`.
    pub(super) fn poll(
        &mut self,
        turn: &mut Turn<'_>,
        asked: Asked<'_>,
        name: &TaskName,
    ) -> Answer {
        let Asked { id, call, caller } = asked;
        let task = self.index_of(id, name, "request")?;
        if let Some(sticky) = &self.namespace(id)?.head.sticky {
            let changed = self.namespace(id)?.head.changed;
            return Ok(Said::No(Refusal::Spread(sticky.clone()), changed));
        }
        self.check_may_poll(turn, id, caller, task)?;
        self.check_room(id)?;
        if !self.namespace(id)?.head.polled {
            self.commit(turn, Record::NotePolling { namespace: id })?;
        }
        let older = self.live_mut(id)?.polls.insert(task, call);
        self.park(call, id, Seat::Poll(task))?;
        let refusal = Refusal::PolledAgain { task: self.called(id, task, caller.dialect) };
        self.answer_all(turn, older, Err(refusal), turn.log.last());
        Ok(Said::Later)
    }

    fn check_may_poll(
        &self,
        turn: &Turn<'_>,
        id: NamespaceId,
        caller: &Caller,
        task: TaskIndex,
    ) -> Result<(), Refusal> {
        let known = self.namespace(id)?.tasks.get(&task);
        let reason = match known.map(|known| (known.phase, &known.fault)) {
            Some((Phase::Connected, _)) => return Ok(()),
            Some((Phase::Disconnected, _)) if self.in_grace(id, task, turn.now) => return Ok(()),
            Some((Phase::Error, Some(fault))) => format!("it is in error: {fault}"),
            _ => "it is not connected".into(),
        };
        Err(Refusal::CannotPoll { task: self.called(id, task, caller.dialect), reason })
    }

    /// `ReportErrorToService`.
    pub(super) fn report_error(
        &mut self,
        turn: &mut Turn<'_>,
        asked: Asked<'_>,
        name: &TaskName,
        (code, message): (i32, &str),
    ) -> Answer {
        let Asked { id, caller, .. } = asked;
        let task = self.index_of(id, name, "request")?;
        let code = Code::of_number(code).ok_or(Refusal::NoErrorCode(code))?;
        let known = self.namespace(id)?.tasks.get(&task);
        if known.is_none_or(|task| task.phase != Phase::Connected) {
            return Err(Refusal::CannotReport { task: self.called(id, task, caller.dialect) });
        }
        let message = match message {
            "" => format!("{} reported no more than that", self.called(id, task, caller.dialect)),
            message => cut(message.into()),
        };
        let fault = Fault { code, message: message.into(), reported: true, source: Some(task) };
        self.fail_task(turn, id, task, &fault)?;
        self.propagate(turn, id, &fault, &[task])?;
        Ok(Said::Now(Reply::ErrorReported, turn.log.last()))
    }

    /// A participant that is in error for good, if there is one.
    pub(super) fn participant_in_error(
        &self,
        id: NamespaceId,
        participants: &Participants,
    ) -> Result<Option<String>, Refusal> {
        let failed = self.namespace(id)?.tasks.values().find(|task| {
            task.phase == Phase::Error && !task.recoverable && participants.contains(task.index)
        });
        Ok(failed.and_then(|task| {
            let fault = task.fault.as_ref()?;
            let name = self.called(id, task.index, task.dialect);
            Some(format!("{name} is set to ERROR: {}", quoted(fault.code, &fault.message)))
        }))
    }
}
