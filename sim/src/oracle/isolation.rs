//! Lives and namespaces are worlds of their own: what is meant for another life is refused, whoever
//! asks is told the present one, and a task of one namespace changes nothing in another.

use std::sync::Arc;

use rondo_core::control::Record;
use rondo_core::coordination::{Call, Method, Reply};
use rondo_core::ids::{CallId, ServiceIncarnation};
use rondo_core::time::Time;

use super::{Oracle, Seen, SeenKind, Shadow, Verdict};
use crate::call_map::CallMap;
use crate::checks::{Check, reached};

/// A call under way.
#[derive(Debug)]
struct Open {
    namespace: Arc<str>,
    /// The life it is meant for, if that was not the present one.
    other: Option<ServiceIncarnation>,
    /// Whether it is a beat of an incarnation that the task does not have.
    stale: bool,
}

#[derive(Default)]
pub(super) struct Isolation {
    open: CallMap<Open>,
}

impl Isolation {
    fn asked(&mut self, call: CallId, asked: &Call, shadow: &Shadow) {
        let namespace = shadow.coordination().named(&asked.namespace);
        let ours = namespace.map(|of| of.head().incarnation);
        let anew = matches!(asked.method, Method::RegisterTask { .. } | Method::ResetNamespace);
        let other =
            asked.caller.life.filter(|life| !anew && ours.is_some_and(|ours| ours != *life));
        let stale = match (&asked.method, namespace) {
            (Method::Heartbeat { task, incarnation }, Some(namespace)) => {
                let known = namespace.tasks().get(&task.index);
                known.is_some_and(|known| {
                    !known.recoverable
                        && known.phase == rondo_core::coordination::Phase::Connected
                        && known.incarnation != *incarnation
                })
            }
            _ => false,
        };
        self.open.insert(call, Open { namespace: asked.namespace.clone(), other, stale });
    }

    fn recorded(&self, call: CallId, record: &Record, shadow: &Shadow) -> Verdict {
        let (Record::Coordination(record), Some(open)) = (record, self.open.get(&call)) else {
            return Ok(());
        };
        reached(Check::IsolationNamespace);
        let of = shadow.coordination().namespaces().get(&record.namespace());
        match of.map(|of| &of.head().name) {
            Some(name) if *name != open.namespace => {
                Err(format!("call {call} to namespace {} changes namespace {name}", open.namespace))
            }
            _ => Ok(()),
        }
    }

    fn told(&mut self, call: CallId, reply: Option<&Reply>, shadow: &Shadow) -> Verdict {
        let Some(open) = self.open.remove(&call) else {
            return Ok(());
        };
        if open.other.is_some() {
            reached(Check::IsolationLife);
        }
        if open.stale {
            reached(Check::IsolationStale);
        }
        let Some(reply) = reply else {
            return Ok(());
        };
        if let Some(life) = open.other {
            return Err(format!("call {call} was meant for life {life}, and got {reply:?}"));
        }
        if open.stale {
            return Err(format!("call {call} of a stale incarnation got {reply:?}"));
        }
        let namespace = shadow.coordination().named(&open.namespace);
        let known = namespace.is_some();
        match (known, reply) {
            (false, _) => Err(format!("call {call} to no namespace got {reply:?}")),
            _ => Ok(()),
        }
    }
}

impl Oracle for Isolation {
    fn name(&self) -> &'static str {
        "isolation"
    }

    fn watches(&self) -> &'static [SeenKind] {
        &[SeenKind::Asked, SeenKind::Told, SeenKind::Died, SeenKind::CoordinationRecord]
    }

    fn see(&mut self, _: Time, seen: &Seen<'_>, shadow: &Shadow) -> Verdict {
        match seen {
            Seen::Asked { call, asked, .. } => self.asked(*call, asked, shadow),
            Seen::Recorded { record, during: Some(call), .. } => {
                return self.recorded(*call, record, shadow);
            }
            Seen::Told { call, answer, .. } => {
                return self.told(*call, answer.as_ref().ok(), shadow);
            }
            Seen::Died => self.open.clear(),
            _ => {}
        }
        Ok(())
    }
}
