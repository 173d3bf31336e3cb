//! A call that the coordination service refuses changes nothing but what the refusal itself says: that
//! a barrier has failed, or a task is in error. A registration that fits is not refused as one that does
//! not. A task that wants to leave takes no part any more, although it is told that not all could leave
//! together.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rondo_core::control::Record;
use rondo_core::coordination::{self, BarrierKey, Call, Caller, Method, Phase, Reply};
use rondo_core::ids::{CallId, Incarnation, NamespaceId, RelayId, TaskIndex};
use rondo_core::limits::COORDINATION_TASKS_MAX;
use rondo_core::status::{Code, Detail, Status};
use rondo_core::time::Time;

use super::jobs::Jobs;
use super::{Oracle, Seen, SeenKind, Shadow, Verdict};
use crate::call_map::CallMap;
use crate::checks::{Check, reached};

/// A call under way.
#[derive(Debug, Default)]
struct Open {
    /// Whether it waits: the service has taken it.
    taken: bool,
    /// The first record of it that a refusal does not explain.
    changed: Option<Box<coordination::Record>>,
    /// A registration that must be taken, unless something else goes wrong.
    fits: bool,
    /// Who wants to leave: in which namespace, which task, and which run of it.
    leaves: Option<(Arc<str>, TaskIndex, Incarnation)>,
    /// That task was disconnected since. It may have registered again before the answer left.
    has_left: bool,
}

#[derive(Default)]
pub(super) struct Refused {
    jobs: Jobs,
    /// The number of tasks that the service is told, by namespace.
    told: BTreeMap<Arc<str>, Option<u32>>,
    open: CallMap<Open>,
    /// Calls to leave that came through relays, by the relay and its number for the call. One that comes
    /// again is answered as the first time, whatever its task has done since.
    asked_before: BTreeSet<(RelayId, u64)>,
}

impl Refused {
    fn asked(&mut self, call: CallId, asked: &Call) {
        let fits = self.fits(asked);
        let leaves = match (&asked.method, asked.caller.incarnation) {
            (Method::ShutdownTask { task }, Some(run)) if !self.is_again(&asked.caller) => {
                Some((asked.namespace.clone(), task.index, run))
            }
            _ => None,
        };
        let taken = self.repeats(asked);
        self.open.insert(call, Open { taken, fits, leaves, ..Open::default() });
    }

    /// Whether a call to leave has come before.
    fn is_again(&mut self, caller: &Caller) -> bool {
        let stamp = caller.stamp.map(|stamp| (stamp.relay, stamp.sequence));
        stamp.is_some_and(|stamp| !self.asked_before.insert(stamp))
    }

    /// Whether a registration repeats one of the same process that waits for the others: no record says
    /// that it waits too.
    fn repeats(&self, asked: &Call) -> bool {
        let Method::RegisterTask { task, incarnation, .. } = &asked.method else {
            return false;
        };
        let life = self.jobs.named(&asked.namespace);
        life.is_some_and(|life| {
            let index = task.index.get();
            let same = life.seats.get(&index).is_some_and(|it| it.incarnation == *incarnation);
            let waits = life.instance(&BarrierKey::Register, 0);
            same && waits.is_some_and(|it| it.open && it.came.contains(&index))
        })
    }

    /// Whether a registration can only be taken: it begins a life, with a number of tasks that nothing
    /// contradicts.
    fn fits(&self, asked: &Call) -> bool {
        let Method::RegisterTask { task, tasks: said, incarnation, .. } = &asked.method else {
            return false;
        };
        let life = self.jobs.named(&asked.namespace).filter(|life| life.is_over());
        let before = life.and_then(|life| life.seats.get(&task.index.get()));
        // A process of the life that is over begins none.
        let begins = life.is_some() && before.is_none_or(|seat| seat.incarnation != *incarnation);
        let Some(told) = self.told.get(&asked.namespace).filter(|_| begins && task.job.is_none())
        else {
            return false;
        };
        let most = u32::try_from(COORDINATION_TASKS_MAX).unwrap_or(u32::MAX);
        let size = told.or(*said).unwrap_or(most);
        let agrees = said.is_none_or(|said| said == size && said <= most);
        agrees && u32::try_from(task.index.get()).is_ok_and(|index| index < size)
    }

    fn recorded(&mut self, record: &coordination::Record, during: Option<CallId>) {
        use coordination::Record as R;
        if let Some(open) = during.and_then(|call| self.open.get_mut(&call)) {
            match record {
                R::RegisterTask { .. }
                | R::ConnectTask { .. }
                | R::ArriveAtBarrier { .. }
                | R::OfferDevices { .. }
                | R::NotePolling { .. } => open.taken = true,
                // What a refusal itself says, and what follows from it.
                R::FailTask { .. }
                | R::FailAllTasks { .. }
                | R::DisconnectTask { .. }
                | R::StickError { .. }
                | R::LeaveBarrier { .. }
                | R::EndBarrier { fault: Some(_), .. }
                | R::EndLeases { .. }
                | R::KeepResult { .. }
                | R::AnswerAlive { .. }
                | R::ForgetRelays { .. } => {}
                // A namespace begins its first life when somebody asks for it.
                R::BeginLife { namespace, .. } if self.jobs.get(*namespace).is_none() => {}
                _ => drop(open.changed.get_or_insert_with(|| Box::new(record.clone()))),
            }
        }
        if let R::DisconnectTask { namespace, task, .. } = record {
            self.left(*namespace, *task);
        }
        self.jobs.apply(record);
    }

    /// A task is disconnected: the calls by which it wants to leave have had their effect.
    fn left(&mut self, namespace: NamespaceId, task: TaskIndex) {
        let Some(name) = self.jobs.get(namespace).map(|life| life.name.clone()) else {
            return;
        };
        for open in self.open.values_mut() {
            let is_it = open.leaves.as_ref().is_some_and(|it| it.0 == name && it.1 == task);
            open.has_left |= is_it;
        }
    }

    fn told(&mut self, call: CallId, answer: &Result<Reply, Status>, shadow: &Shadow) -> Verdict {
        let (Some(open), Err(status)) = (self.open.remove(&call), answer) else {
            return Ok(());
        };
        if status.code == Code::Unavailable && status.details.is_empty() {
            // The node's own, and says that the effect is in doubt: it stops, or its disk is full.
            return Ok(());
        }
        reached(Check::RefusedByCoordination);
        if open.fits && status.code == Code::InvalidArgument {
            return Err(format!("registration {call} begins a life and is refused: {status:?}"));
        }
        let has_failed = status.details.iter().any(|it| matches!(it, Detail::Barrier { .. }));
        if let Some(leaves) = open.leaves.as_ref().filter(|_| has_failed) {
            reached(Check::RefusedToLeave);
            if !open.has_left {
                takes_no_part(leaves, shadow)?;
            }
        }
        // A registration that waited, and that another one of the same process took the place of, was taken.
        let was_taken = open.taken || status.code == Code::AlreadyExists;
        match open.changed.filter(|_| !was_taken) {
            Some(record) => Err(format!("call {call} is refused, and has made {record:?}")),
            None => Ok(()),
        }
    }
}

/// A task has been told that not all could leave together.
fn takes_no_part(
    (namespace, task, run): &(Arc<str>, TaskIndex, Incarnation),
    shadow: &Shadow,
) -> Verdict {
    let known = shadow.coordination().named(namespace).and_then(|of| of.tasks().get(task));
    match known.is_some_and(|it| it.incarnation == *run && it.phase == Phase::Connected) {
        true => Err(format!("task {task} of {namespace} wanted to leave and is still connected")),
        false => Ok(()),
    }
}

impl Oracle for Refused {
    fn name(&self) -> &'static str {
        "refused"
    }

    fn watches(&self) -> &'static [SeenKind] {
        &[
            SeenKind::Asked,
            SeenKind::Told,
            SeenKind::GivenUp,
            SeenKind::Died,
            SeenKind::Recovered,
            SeenKind::Coordinates,
            SeenKind::CoordinationRecord,
        ]
    }

    fn see(&mut self, _: Time, seen: &Seen<'_>, shadow: &Shadow) -> Verdict {
        match seen {
            Seen::Asked { call, asked, .. } => self.asked(*call, asked),
            Seen::Told { call, answer, .. } => return self.told(*call, answer, shadow),
            Seen::GivenUp { call } => drop(self.open.remove(call)),
            Seen::Recorded { record: Record::Coordination(record), during, .. } => {
                self.recorded(record, *during);
            }
            Seen::Coordinates(config) => {
                let told = config.namespaces.iter().map(|it| (it.name.clone(), it.tasks));
                self.told = told.collect();
            }
            Seen::Died => self.open.clear(),
            Seen::Recovered { state, .. } => self.jobs.recover(&state.coordination),
            _ => {}
        }
        Ok(())
    }
}
