//! A barrier lets its tasks go only when all who must come have come, each in that instance and each as
//! the process that takes part now: never one short. So do the service's own: registering together, and
//! leaving together. An arrival that counts is one that the task's present process has called for.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rondo_core::control::Record;
use rondo_core::coordination::{self, BarrierKey, Call, Method, Reply, TaskName};
use rondo_core::ids::{CallId, NamespaceId, RelayId, ServiceIncarnation, TaskIndex};
use rondo_core::time::Time;

use super::jobs::{Instance, Jobs, Life};
use super::{Oracle, Seen, SeenKind, Shadow, Verdict};
use crate::call_map::CallMap;
use crate::checks::{Check, reached};
use crate::swarm::{CoordinationShape, namespace_name};

/// A call that waits at a barrier, or at one of the service's own.
#[derive(Debug)]
struct Open {
    life: Option<ServiceIncarnation>,
    call: Call,
}

pub(super) struct Barriers {
    /// Namespaces whose tasks leave together, unless they may come back.
    together: BTreeSet<String>,
    jobs: Jobs,
    open: CallMap<Open>,
    /// Marks of relays' calls that wait at barriers, and of those let go from an instance: such a call gets
    /// the same answer whenever it comes again, however many instances have ended since.
    arrived: BTreeMap<(NamespaceId, BarrierKey), Vec<Mark>>,
    let_go: BTreeSet<(Mark, i64)>,
}

/// A relay and the number of its call.
type Mark = (RelayId, u64);

impl Barriers {
    pub(super) fn new(coordination: Option<&CoordinationShape>) -> Self {
        let shapes = coordination.into_iter().flat_map(|shape| &shape.namespaces);
        let together = (0..).zip(shapes).filter(|(_, shape)| shape.shutdown_ms > 0);
        Self {
            together: together.map(|(number, _)| namespace_name(number)).collect(),
            jobs: Jobs::default(),
            open: CallMap::default(),
            arrived: BTreeMap::new(),
            let_go: BTreeSet::new(),
        }
    }

    fn asked(&mut self, call: CallId, asked: &Call) {
        let waits = matches!(
            asked.method,
            Method::RegisterTask { .. } | Method::ShutdownTask { .. } | Method::Barrier { .. }
        );
        if waits {
            let life = self.jobs.named(&asked.namespace).map(|life| life.incarnation);
            self.open.insert(call, Open { life, call: asked.clone() });
        }
    }

    fn recorded(&mut self, record: &coordination::Record, during: Option<CallId>) -> Verdict {
        self.note_marks(record);
        use coordination::Record as R;
        let during = during.and_then(|call| self.open.get_mut(&call));
        match record {
            // A registration may begin a life, and is one of it then.
            R::BeginLife { incarnation, .. } => {
                if let Some(open) = during {
                    open.life = Some(*incarnation);
                }
            }
            R::ArriveAtBarrier {
                namespace, barrier: BarrierKey::Named(id), counter, task, ..
            } => {
                let call = during.map(|open| &open.call);
                if let Some(life) = self.jobs.get(*namespace) {
                    may_count(life, (id, *counter, *task), call)?;
                }
            }
            R::EndBarrier { namespace, barrier, counter, fault: None, .. } => {
                if let Some(life) = self.jobs.get(*namespace) {
                    has_all(life, barrier, *counter)?;
                }
            }
            _ => {}
        }
        self.jobs.apply(record);
        Ok(())
    }

    fn note_marks(&mut self, record: &coordination::Record) {
        use coordination::Record as R;
        match record {
            R::ArriveAtBarrier { namespace, barrier, stamp: Some(mark), .. } => {
                let arrived = self.arrived.entry((*namespace, barrier.clone())).or_default();
                arrived.push((mark.relay, mark.sequence));
            }
            R::EndBarrier { namespace, barrier, counter, fault, .. } => {
                let arrived = self.arrived.remove(&(*namespace, barrier.clone()));
                if fault.is_none() {
                    let marks = arrived.into_iter().flatten().map(|mark| (mark, *counter));
                    self.let_go.extend(marks);
                }
            }
            _ => {}
        }
    }

    /// Whether a call was let go from an instance already, and is told so again.
    fn is_let_go(&self, asked: &Call, counter: i64) -> bool {
        let mark = asked.caller.stamp.map(|mark| ((mark.relay, mark.sequence), counter));
        mark.is_some_and(|mark| self.let_go.contains(&mark))
    }

    fn told(&mut self, call: CallId, reply: Option<&Reply>) -> Verdict {
        let (Some(Open { life, call: asked }), Some(reply)) = (self.open.remove(&call), reply)
        else {
            return Ok(());
        };
        let present = self.jobs.named(&asked.namespace);
        let Some(present) = present.filter(|present| Some(present.incarnation) == life) else {
            return Ok(());
        };
        let passed = |key: &BarrierKey, counter| {
            present.instance(key, counter).is_some_and(|instance| instance.passed)
        };
        match (reply, &asked.method) {
            (Reply::Registered(told), _) if *told == present.incarnation => {
                reached(Check::BarrierRegistered);
                unless(passed(&BarrierKey::Register, 0), || {
                    "a task was let go from registering, and not all have registered".into()
                })
            }
            (Reply::ShutDown, Method::ShutdownTask { task })
                if self.together.contains(&*present.name) && !is_recoverable(present, task) =>
            {
                reached(Check::BarrierLeft);
                unless(self.is_let_go(&asked, 0) || passed(&BarrierKey::Shutdown, 0), || {
                    format!("task {task:?} has left, and not all wanted to leave")
                })
            }
            (Reply::BarrierPassed { counter }, Method::Barrier { id, .. }) => {
                reached(Check::BarrierPassed);
                let key = BarrierKey::Named(id.clone());
                unless(self.is_let_go(&asked, *counter) || passed(&key, *counter), || {
                    format!("a task was let go from {id}::{counter}, which has not been passed")
                })
            }
            _ => Ok(()),
        }
    }
}

/// A verdict that is an error, in these words, unless something holds.
fn unless(holds: bool, error: impl FnOnce() -> String) -> Verdict {
    if holds { Ok(()) } else { Err(error()) }
}

/// Whether a task of a life may come back as another process.
fn is_recoverable(life: &Life, task: &TaskName) -> bool {
    life.seats.get(&task.index.get()).is_some_and(|seat| seat.recoverable)
}

/// Whether the arrival of a task counts rightly: the process that takes part has called for it.
fn may_count(
    life: &Life,
    (id, counter, task): (&Arc<str>, i64, TaskIndex),
    call: Option<&Call>,
) -> Verdict {
    let seat = life.seats.get(&task.get()).filter(|seat| seat.present);
    let Some(seat) = seat else {
        return Err(format!("task {task} has come to {id}::{counter} and takes no part"));
    };
    let Some(Call {
        caller, method: Method::Barrier { id: asked, counter: own, source, .. }, ..
    }) = call
    else {
        return Err(format!("task {task} has come to {id}::{counter} without a call"));
    };
    let restarted = seat.recoverable && *own == 0;
    reached(Check::BarrierArrival);
    if asked != id || source.index != task || (*own != counter && !restarted) {
        return Err(format!(
            "task {task} has come to {id}::{counter}, and called for {asked}::{own}"
        ));
    }
    match caller.incarnation.filter(|incarnation| *incarnation != seat.incarnation) {
        Some(other) => Err(format!(
            "incarnation {other} of task {task} has come to {id}::{counter}; the one that takes part \
             is {}",
            seat.incarnation
        )),
        None => Ok(()),
    }
}

/// Whether an instance that lets its tasks go has all of them.
fn has_all(life: &Life, barrier: &BarrierKey, counter: i64) -> Verdict {
    let none = Instance::default();
    let instance = life.instance(barrier, counter).unwrap_or(&none);
    let name = barrier.id();
    reached(Check::BarrierComplete);
    match life.missing(instance) {
        Some(task) => Err(format!(
            "{name}::{counter} lets its tasks go, and the process of task {task} that takes part has \
             not come"
        )),
        None => Ok(()),
    }
}

impl Oracle for Barriers {
    fn name(&self) -> &'static str {
        "barrier"
    }

    fn watches(&self) -> &'static [SeenKind] {
        &[
            SeenKind::Asked,
            SeenKind::Told,
            SeenKind::Died,
            SeenKind::Recovered,
            SeenKind::CoordinationRecord,
        ]
    }

    fn see(&mut self, _: Time, seen: &Seen<'_>, _: &Shadow) -> Verdict {
        match seen {
            Seen::Asked { call, asked, .. } => self.asked(*call, asked),
            Seen::Told { call, answer, .. } => return self.told(*call, answer.as_ref().ok()),
            Seen::Recorded { record: Record::Coordination(record), during, .. } => {
                return self.recorded(record, *during);
            }
            Seen::Died => self.open.clear(),
            Seen::Recovered { state, .. } => self.jobs.recover(&state.coordination),
            _ => {}
        }
        Ok(())
    }
}
