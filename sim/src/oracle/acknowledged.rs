//! No acknowledged update is lost: what was answered before a death is there after it. Nor does an
//! answer leave before what it tells is durable. Tasks that a worker says are over are over when it
//! is answered, and no task is over by the word of another worker.

use std::collections::BTreeMap;

use rondo_core::control::Record;
use rondo_core::dispatcher::{self, Reply, Request};
use rondo_core::ids::{CallId, Lsn, TaskId};
use rondo_core::time::Time;

use super::durable::has_task;
use super::{Oracle, Seen, SeenKind, Shadow, Verdict};
use crate::call_map::CallMap;
use crate::checks::{Check, reached};

#[derive(Default)]
pub(super) struct Acknowledged {
    /// The newest record of each call.
    written: CallMap<Lsn>,
    /// Calls that wait for a task to be given up.
    removing: CallMap<TaskId>,
    /// Calls of workers that say of tasks of their own that they are over.
    reporting: CallMap<Vec<TaskId>>,
    /// Where tasks were given up.
    removed: BTreeMap<TaskId, Lsn>,
    /// The newest record that anybody was told of.
    told: Lsn,
}

impl Acknowledged {
    /// What an answer depends on.
    fn depends_on(&mut self, call: CallId, reply: &Reply) -> Lsn {
        let own = self.written.remove(&call).unwrap_or(Lsn::NONE);
        let task = self.removing.remove(&call).filter(|_| *reply == Reply::TaskRemoved(true));
        let removed = task.and_then(|task| self.removed.get(&task));
        own.max(removed.copied().unwrap_or(Lsn::NONE))
    }

    fn taken(&mut self, call: CallId, request: &Request, shadow: &Shadow) {
        // Another task may get a number later on, before this is answered.
        let is_there = |task: &TaskId| shadow.state().tasks().contains_key(task);
        match request {
            Request::MaybeRemoveTask { task, .. } if is_there(task) => {
                self.removing.insert(call, *task);
            }
            Request::MaybeRemoveTask { task, .. } => {
                let removed = self.removed.get(task).copied();
                self.written.extend(removed.map(|lsn| (call, lsn)));
            }
            Request::WorkerUpdate { worker_address, progress } => {
                let is_own = |task| has_task(shadow.state(), worker_address, task);
                let over = progress.iter().filter(|(task, is_over)| *is_over && is_own(*task));
                self.reporting.insert(call, over.map(|(task, _)| *task).collect());
            }
            _ => {}
        }
    }

    /// What a worker was told is noted.
    fn reported(&mut self, call: CallId, shadow: &Shadow) -> Verdict {
        let tasks = shadow.state().tasks();
        let open = |id: &TaskId| tasks.get(id).is_some_and(|task| !task.finished);
        let reported = self.reporting.remove(&call).unwrap_or_default();
        if !reported.is_empty() {
            reached(Check::AcknowledgedFinished);
        }
        match reported.into_iter().find(open) {
            Some(task) => Err(format!("call {call} said that task {task} is over, and it goes on")),
            None => Ok(()),
        }
    }

    /// A task ends by the word of its own worker.
    fn ended(&self, record: &Record, during: Option<CallId>) -> Verdict {
        let Record::Dispatcher(dispatcher::Record::FinishTask { id }) = record else {
            return Ok(());
        };
        reached(Check::EndedByItsWorker);
        let reported = during.and_then(|call| self.reporting.get(&call));
        match reported.is_some_and(|tasks| tasks.contains(id)) {
            true => Ok(()),
            false => Err(format!("task {id} is over, and its worker has not said so")),
        }
    }

    fn note(&mut self, lsn: Lsn, record: &Record, during: Option<CallId>) {
        if let Some(call) = during {
            self.written.insert(call, lsn);
        }
        let Record::Dispatcher(record) = record else {
            return;
        };
        if let dispatcher::Record::RemoveTask { id, .. } = record {
            self.removed.insert(*id, lsn);
        }
    }

    fn forget_calls(&mut self) {
        self.written.clear();
        self.removing.clear();
        self.reporting.clear();
    }
}

/// Counts an answer that depends on a record.
fn answer_is_judged(needs: Lsn) {
    if needs > Lsn::NONE {
        reached(Check::AcknowledgedAnswer);
    }
}

impl Oracle for Acknowledged {
    fn name(&self) -> &'static str {
        "acknowledged"
    }

    fn watches(&self) -> &'static [SeenKind] {
        &[
            SeenKind::Taken,
            SeenKind::Answered,
            SeenKind::Told,
            SeenKind::GivenUp,
            SeenKind::Died,
            SeenKind::Recovered,
            SeenKind::DispatcherRecord,
            SeenKind::CoordinationRecord,
        ]
    }

    fn see(&mut self, _: Time, seen: &Seen<'_>, shadow: &Shadow) -> Verdict {
        match seen {
            Seen::Taken { call, request, .. } => self.taken(*call, request, shadow),
            Seen::Recorded { lsn, record, during } => {
                self.note(*lsn, record, *during);
                return self.ended(record, *during);
            }
            Seen::Answered { call, answer: Ok(reply), durable } => {
                let needs = self.depends_on(*call, reply);
                answer_is_judged(needs);
                if needs > *durable {
                    return Err(format!(
                        "call {call} got {reply:?} before record {needs} was durable (record \
                         {durable} was)"
                    ));
                }
                self.told = self.told.max(needs);
                return self.reported(*call, shadow);
            }
            Seen::Told { call, answer, durable } => {
                let needs = self.written.remove(call).unwrap_or(Lsn::NONE);
                answer_is_judged(needs);
                if needs > *durable && answer.is_ok() {
                    return Err(format!(
                        "call {call} got {answer:?} before record {needs} was durable (record \
                         {durable} was)"
                    ));
                }
                self.told = self.told.max(needs.min(*durable));
            }
            Seen::Answered { call, answer: Err(_), .. } | Seen::GivenUp { call } => {
                self.written.remove(call);
                self.removing.remove(call);
                self.reporting.remove(call);
            }
            Seen::Died => self.forget_calls(),
            Seen::Recovered { state, disk_lied } => {
                let (told, applied) = (self.told, state.applied);
                if told > Lsn::NONE && !disk_lied {
                    reached(Check::AcknowledgedRecovered);
                }
                self.removed.retain(|_, lsn| *lsn <= applied);
                self.told = told.min(applied);
                if applied < told && !disk_lied {
                    return Err(format!(
                        "record {told} was acknowledged, and only those up to {applied} came back"
                    ));
                }
            }
            _ => {}
        }
        Ok(())
    }
}
