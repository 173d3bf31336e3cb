//! How barriers end: all have come, the time is over, or something went wrong.

use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use bytes::Bytes;

use super::barriers::refused;
use super::live::Alarm;
use super::machine::{Coordination, Turn};
use super::names::seconds;
use super::record::Record;
use super::refusal::{Refusal, cut};
use super::reply::{Event, Reply};
use super::state::Barrier;
use super::types::{BarrierKey, Fault, Phase};
use crate::ids::{CallId, NamespaceId, TaskIndex};
use crate::status::Code;

/// What the text of a failed shutdown begins with.
const SHUTDOWN_FAILED: &str = "Shutdown barrier has failed.";

impl Coordination {
    /// Lets everybody go if all have come.
    pub(super) fn pass_if_complete(
        &mut self,
        turn: &mut Turn<'_>,
        id: NamespaceId,
        key: &BarrierKey,
    ) -> Result<(), Refusal> {
        let namespace = self.namespace(id)?;
        let barrier = namespace.barriers.get(key).filter(|barrier| barrier.outcome.is_none());
        let Some(counter) =
            barrier.filter(|barrier| namespace.is_complete(barrier)).map(|barrier| barrier.counter)
        else {
            return Ok(());
        };
        self.commit(
            turn,
            Record::EndBarrier {
                namespace: id,
                barrier: key.clone(),
                counter,
                fault: None,
                at: turn.now,
            },
        )?;
        let after = turn.log.last();
        let calls = self.dismiss(id, key)?;
        let reply = self.passed_reply(id, key, counter)?;
        self.answer_all(turn, calls, Ok(reply), after);
        match key {
            BarrierKey::Register => self.all_registered(turn, id),
            BarrierKey::Shutdown => self.all_left(turn, id),
            BarrierKey::Devices | BarrierKey::Named(_) => Ok(()),
        }
    }

    /// An open barrier fails, for everybody. Nothing if it is not open.
    pub(super) fn fail_barrier(
        &mut self,
        turn: &mut Turn<'_>,
        id: NamespaceId,
        key: &BarrierKey,
        fault: Fault,
    ) -> Result<(), Refusal> {
        let barrier = self.namespace(id)?.barriers.get(key);
        let open = barrier.filter(|barrier| barrier.outcome.is_none());
        let Some(counter) = open.map(|barrier| barrier.counter) else {
            return Ok(());
        };
        let fault = as_told(key, fault);
        self.commit(
            turn,
            Record::EndBarrier {
                namespace: id,
                barrier: key.clone(),
                counter,
                fault: Some(fault.clone()),
                at: turn.now,
            },
        )?;
        let calls = self.dismiss(id, key)?;
        let refusal = refused(key, counter, Arc::new(fault.clone()));
        self.answer_all(turn, calls, Err(refusal), turn.log.last());
        let (namespace, reason) = (self.name_of(id), format!("{fault}").into());
        self.observe(turn, Event::BarrierFailed { namespace, reason });
        match key {
            BarrierKey::Register => self.fail_all(turn, id, &fault),
            BarrierKey::Shutdown => {
                self.fail_all(turn, id, &fault)?;
                self.stick_if_polled(turn, id, &fault)
            }
            BarrierKey::Devices | BarrierKey::Named(_) => Ok(()),
        }
    }

    fn stick_if_polled(
        &mut self,
        turn: &mut Turn<'_>,
        id: NamespaceId,
        fault: &Fault,
    ) -> Result<(), Refusal> {
        match self.namespace(id)?.head.polled {
            true => self.stick(turn, id, fault),
            false => Ok(()),
        }
    }

    /// Nobody waits at a barrier that has ended. Names the calls that did.
    fn dismiss(&mut self, id: NamespaceId, key: &BarrierKey) -> Result<Vec<CallId>, Refusal> {
        self.set_alarm(id, Alarm::Barrier(key.clone()), None);
        let calls = self.live_mut(id)?.waiting.remove(key).unwrap_or_default();
        Ok(calls.into_values().collect())
    }

    /// A barrier's time is over.
    pub(super) fn time_out(
        &mut self,
        turn: &mut Turn<'_>,
        id: NamespaceId,
        key: &BarrierKey,
    ) -> Result<(), Refusal> {
        let namespace = self.namespace(id)?;
        let Some(barrier) = namespace.barriers.get(key).filter(|b| b.outcome.is_none()) else {
            return Ok(());
        };
        let missing: Vec<TaskIndex> = namespace.missing_at(barrier).collect();
        let text = self.timed_out(id, barrier, &missing, turn);
        self.fail_barrier(turn, id, key, Fault::new(Code::DeadlineExceeded, text))
    }

    /// Libraries look for how this text begins.
    fn timed_out(
        &self,
        id: NamespaceId,
        barrier: &Barrier,
        missing: &[TaskIndex],
        turn: &Turn<'_>,
    ) -> String {
        let dialect = self.dialect_of(id);
        let came = barrier.arrived.len();
        let all = came.saturating_add(missing.len());
        let first = barrier.initiator.map(|task| self.called(id, task, dialect));
        let which = match missing.is_empty() {
            true => String::from("none of those known; the number of tasks is not"),
            false => self.listed(id, missing.iter().copied(), dialect),
        };
        cut(format!(
            "Barrier timed out. Id: {}::{}. {came} of {all} tasks came within {}; the first was {}. \
             Missing: {which}. {}",
            barrier.key.id(),
            barrier.counter,
            seconds(barrier.timeout),
            first.unwrap_or_default(),
            self.described(id, missing, turn.now)
        ))
    }

    /// What callers are told when all have come.
    pub(super) fn passed_reply(
        &self,
        id: NamespaceId,
        key: &BarrierKey,
        counter: i64,
    ) -> Result<Reply, Refusal> {
        let namespace = self.namespace(id)?;
        Ok(match key {
            BarrierKey::Register => Reply::Registered(namespace.head.incarnation),
            BarrierKey::Shutdown => Reply::ShutDown,
            BarrierKey::Devices => {
                let devices = namespace.tasks.values().filter_map(|task| task.devices.clone());
                Reply::Devices(devices.collect::<Vec<Bytes>>().into())
            }
            BarrierKey::Named(_) => Reply::BarrierPassed { counter },
        })
    }

    fn all_registered(&mut self, turn: &mut Turn<'_>, id: NamespaceId) -> Result<(), Refusal> {
        let tasks: Vec<_> = self.namespace(id)?.tasks.keys().copied().collect();
        for task in tasks {
            self.begin_beat(id, task, turn.now);
            self.arm(id, task);
        }
        self.observe(turn, Event::AllRegistered { namespace: self.name_of(id) });
        Ok(())
    }

    /// All left together: nobody polls any more, and no barrier is waited at.
    fn all_left(&mut self, turn: &mut Turn<'_>, id: NamespaceId) -> Result<(), Refusal> {
        let gone = |phase| phase == Phase::Disconnected;
        let tasks = self.namespace(id)?.tasks.values().filter(|task| gone(task.phase));
        let tasks: Vec<_> = tasks.map(|task| task.index).collect();
        for task in &tasks {
            self.end_poll(turn, id, *task)?;
        }
        let text = "Barrier failed because: task disconnected";
        self.all_gone(turn, id, &tasks, &Fault::new(Code::Internal, text))
    }
}

/// A barrier's failure in the words that callers and polls are told.
fn as_told(key: &BarrierKey, fault: Fault) -> Fault {
    match key {
        BarrierKey::Shutdown => {
            Fault::new(Code::Internal, cut(format!("{SHUTDOWN_FAILED}\n{fault}")))
        }
        _ => Fault { message: cut(String::from(&*fault.message)).into(), ..fault },
    }
}
