//! No acknowledged update is lost: what was answered before a death is there after it. Nor does an
//! answer leave before what it tells is durable.

use std::collections::BTreeMap;

use rondo_core::control::Record;
use rondo_core::dispatcher::{self, Reply, Request};
use rondo_core::ids::{CallId, Lsn, TaskId};
use rondo_core::time::Time;

use super::{Oracle, Seen, Shadow, Verdict};

#[derive(Default)]
pub(super) struct Acknowledged {
    /// The newest record of each call.
    written: BTreeMap<CallId, Lsn>,
    /// Calls that wait for a task to be given up.
    removing: BTreeMap<CallId, TaskId>,
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

    fn note(&mut self, lsn: Lsn, record: &Record, during: Option<CallId>) {
        if let Some(call) = during {
            self.written.insert(call, lsn);
        }
        let Record::Dispatcher(record) = record;
        if let dispatcher::Record::RemoveTask { id } = record {
            self.removed.insert(*id, lsn);
        }
    }

    fn forget_calls(&mut self) {
        self.written.clear();
        self.removing.clear();
    }
}

impl Oracle for Acknowledged {
    fn name(&self) -> &'static str {
        "acknowledged"
    }

    fn see(&mut self, _: Time, seen: &Seen<'_>, _: &Shadow) -> Verdict {
        match seen {
            Seen::Taken { call, request: Request::MaybeRemoveTask { task, .. }, .. } => {
                self.removing.insert(*call, *task);
            }
            Seen::Recorded { lsn, record, during } => self.note(*lsn, record, *during),
            Seen::Answered { call, answer: Ok(reply), durable } => {
                let needs = self.depends_on(*call, reply);
                if needs > *durable {
                    return Err(format!(
                        "call {call} got {reply:?} before record {needs} was durable (record \
                         {durable} was)"
                    ));
                }
                self.told = self.told.max(needs);
            }
            Seen::Answered { call, answer: Err(_), .. } | Seen::GivenUp { call } => {
                self.written.remove(call);
                self.removing.remove(call);
            }
            Seen::Died => self.forget_calls(),
            Seen::Recovered { state, disk_lied } => {
                let (told, applied) = (self.told, state.applied);
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
