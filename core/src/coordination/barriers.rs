//! Barriers: tasks wait until all who must come have come.
//!
//! The service's own barriers (registering, leaving, telling devices) go the same ways as clients'.

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;

use super::live::{Alarm, Doing, Seat};
use super::machine::{Answer, Asked, Coordination, Said, Turn};
use super::record::{Opening, Participants, Record};
use super::refusal::Refusal;
use super::request::{Caller, Stamp};
use super::state::{Barrier, Outcome};
use super::types::{BarrierKey, Fault, Phase, TaskName};
use crate::ids::{CallId, NamespaceId, TaskIndex};
use crate::limits::{KEY_BYTES_MAX, LISTED_PARTICIPANTS_MAX, OPEN_BARRIERS_MAX};
use crate::status::Code;
use crate::time::Duration;

/// A task comes to a barrier.
pub(super) struct Coming {
    pub(super) key: BarrierKey,
    pub(super) counter: i64,
    pub(super) timeout: Duration,
    pub(super) task: TaskIndex,
    pub(super) stamp: Option<Stamp>,
}

/// Where a task that comes belongs.
enum Place {
    /// With those who wait.
    Waiting,
    /// It opens this instance.
    Opening(i64),
    /// The instance has ended so.
    Ended(i64, Outcome),
    /// It is out of step with the instance of this number, which tasks wait at or not.
    OutOfStep(i64),
}

impl Coordination {
    /// `Barrier`.
    pub(super) fn barrier(
        &mut self,
        turn: &mut Turn<'_>,
        asked: Asked<'_>,
        (name, counter, timeout_ms): (&Arc<str>, i64, i64),
        tasks: &[TaskName],
        source: &TaskName,
    ) -> Answer {
        let Asked { id, caller, .. } = asked;
        check_id(name)?;
        let task = self.index_of(id, source, "request").map_err(|refusal| {
            let fault = Fault::new(Code::InvalidArgument, format!("{refusal}"));
            Refusal::Barrier { id: name.clone(), counter, fault: Arc::new(fault) }
        })?;
        self.check_room(id)?;
        let timeout = Duration::from_millis(u64::try_from(timeout_ms).unwrap_or(0));
        let key = BarrierKey::Named(name.clone());
        let coming = Coming { key, counter, timeout, task, stamp: caller.stamp };
        let place = self.place_of(id, &coming)?;
        if !matches!(place, Place::Ended(..)) {
            self.check_present(id, caller, task)?;
        }
        self.note(id, task, Doing::CameTo(name.clone(), counter), turn.now);
        match place {
            Place::Ended(counter, outcome) => self.again(id, &coming.key, counter, &outcome),
            Place::OutOfStep(present) => self.out_of_step(turn, id, &coming, present),
            Place::Waiting => match self.misfit(id, caller, &coming, tasks)? {
                Some(fault) => self.spoil(turn, id, &coming.key, fault),
                None => self.come(turn, asked, coming, None),
            },
            Place::Opening(counter) => {
                let coming = Coming { counter, ..coming };
                self.open(turn, asked, coming, tasks)
            }
        }
    }

    /// Refuses the arrival of a task that is not present, as its heartbeat would be refused: the task's
    /// next process must come itself. Such an arrival spoils no instance. A task that is in error for
    /// good fails the instance instead, for all.
    fn check_present(
        &self,
        id: NamespaceId,
        caller: &Caller,
        task: TaskIndex,
    ) -> Result<(), Refusal> {
        let called = || self.called(id, task, caller.dialect);
        let Some(known) = self.namespace(id)?.tasks.get(&task) else {
            return Err(Refusal::MustRegister { task: called() });
        };
        match known.phase {
            Phase::Registering | Phase::Connected => Ok(()),
            Phase::Error if !known.recoverable => Ok(()),
            Phase::Error => Err(Refusal::InError { task: called(), fault: known.fault() }),
            Phase::Disconnected => Err(Refusal::MustRegister { task: called() }),
        }
    }

    fn place_of(&self, id: NamespaceId, coming: &Coming) -> Result<Place, Refusal> {
        let namespace = self.namespace(id)?;
        let Some(barrier) = namespace.barriers.get(&coming.key) else {
            return Ok(match coming.counter {
                0 => Place::Opening(0),
                _ => Place::OutOfStep(0),
            });
        };
        let recoverable = namespace.tasks.get(&coming.task).is_some_and(|task| task.recoverable);
        let restarted = recoverable && coming.counter == 0;
        let next = barrier.counter.saturating_add(1);
        Ok(match &barrier.outcome {
            None if coming.counter == barrier.counter || restarted => Place::Waiting,
            Some(_) if coming.counter == next || restarted => Place::Opening(next),
            Some(outcome) if coming.counter == barrier.counter => {
                Place::Ended(barrier.counter, outcome.clone())
            }
            _ => Place::OutOfStep(barrier.counter),
        })
    }

    fn open(
        &mut self,
        turn: &mut Turn<'_>,
        asked: Asked<'_>,
        coming: Coming,
        tasks: &[TaskName],
    ) -> Answer {
        let Asked { id, caller, .. } = asked;
        if self.namespace(id)?.index.open.len() >= OPEN_BARRIERS_MAX {
            let bound = OPEN_BARRIERS_MAX as u64;
            return Err(Refusal::TooMany { what: "barriers that tasks wait at", bound });
        }
        let settled = self.settled_participants(id, &coming.key)?;
        let participants = match settled {
            Some(settled) => match self.misfit(id, caller, &coming, tasks)? {
                Some(fault) => Err(fault),
                None => Ok(settled),
            },
            None => self.participants(id, tasks)?.and_then(|participants| {
                match participants.contains(coming.task) {
                    true => Ok(participants),
                    false => Err(self.not_one(id, caller, coming.task)),
                }
            }),
        };
        let participants = match participants {
            Ok(participants) => match self.participant_in_error(id, &participants)? {
                None => participants,
                Some(who) => {
                    let text = format!("Barrier failed because: {who}");
                    return self.spoil_at(turn, id, &coming, Fault::new(Code::Internal, text));
                }
            },
            Err(fault) => return self.spoil_at(turn, id, &coming, fault),
        };
        self.check_room_for_list(id, &participants)?;
        let opening = Opening { participants, timeout: coming.timeout };
        self.come(turn, asked, coming, Some(opening))
    }

    /// Whether the lists of the barriers that tasks wait at leave room for one more.
    fn check_room_for_list(
        &self,
        id: NamespaceId,
        participants: &Participants,
    ) -> Result<(), Refusal> {
        let Participants::Some(tasks) = participants else {
            return Ok(());
        };
        let open = self.namespace(id)?.open_barriers().map(Barrier::listed);
        let listed = open.fold(tasks.len(), usize::saturating_add);
        match listed > LISTED_PARTICIPANTS_MAX {
            true => {
                let bound = LISTED_PARTICIPANTS_MAX as u64;
                Err(Refusal::TooMany { what: "tasks in the lists of open barriers", bound })
            }
            false => Ok(()),
        }
    }

    fn settled_participants(
        &self,
        id: NamespaceId,
        key: &BarrierKey,
    ) -> Result<Option<Participants>, Refusal> {
        let barrier = self.namespace(id)?.barriers.get(key);
        Ok(barrier.and_then(|barrier| barrier.participants.clone()))
    }

    /// Who must come, by the list of the first one; else what is wrong with the list.
    fn participants(
        &self,
        id: NamespaceId,
        tasks: &[TaskName],
    ) -> Result<Result<Participants, Fault>, Refusal> {
        let namespace = self.namespace(id)?;
        if tasks.is_empty() {
            let known = namespace.head.size.is_some();
            return known.then_some(Ok(Participants::All)).ok_or(Refusal::SizeUnknown);
        }
        let mut set = BTreeSet::new();
        for name in tasks {
            let fault = |text: String| Ok(Err(Fault::new(Code::InvalidArgument, text)));
            match self.index_of(id, name, "at a barrier") {
                Err(refusal) => return fault(format!("{refusal}")),
                Ok(task) if !set.insert(task) => {
                    return fault(format!("task {task} stands in the barrier's list twice"));
                }
                Ok(_) => {}
            }
        }
        let all = namespace.head.size.is_some_and(|size| set.len() as u64 >= u64::from(size));
        Ok(Ok(match all {
            true => Participants::All,
            false => Participants::Some(set.into_iter().collect()),
        }))
    }

    /// What is wrong with a task's coming to a barrier whose participants are settled.
    fn misfit(
        &self,
        id: NamespaceId,
        caller: &Caller,
        coming: &Coming,
        tasks: &[TaskName],
    ) -> Result<Option<Fault>, Refusal> {
        let Some(settled) = self.settled_participants(id, &coming.key)? else {
            return Ok(None);
        };
        if self.names_all_of(id, &settled, tasks)? {
            let stranger = !settled.contains(coming.task);
            return Ok(stranger.then(|| self.not_one(id, caller, coming.task)));
        }
        let asked = match self.participants(id, tasks)? {
            Ok(asked) => asked,
            Err(fault) => return Ok(Some(fault)),
        };
        if !asked.same_as(&settled, self.namespace(id)?.head.size) {
            let list = |participants: &Participants| match participants {
                Participants::All => String::from("all"),
                Participants::Some(tasks) => super::ranges::ranges(tasks.iter().copied()),
            };
            let text = format!(
                "barrier {} is for tasks {}, but task {} says {}",
                coming.key.id(),
                list(&settled),
                coming.task,
                list(&asked)
            );
            return Ok(Some(Fault::new(Code::InvalidArgument, text)));
        }
        let stranger = !settled.contains(coming.task);
        Ok(stranger.then(|| self.not_one(id, caller, coming.task)))
    }

    /// Whether a call's list names exactly the settled participants. Almost every list does, and finding
    /// that out must not cost more than reading the list.
    fn names_all_of(
        &self,
        id: NamespaceId,
        settled: &Participants,
        tasks: &[TaskName],
    ) -> Result<bool, Refusal> {
        let job = &self.live(id)?.settings.job;
        let own = |name: &TaskName| name.job.as_ref().is_none_or(|asked| asked == job);
        let size = self.namespace(id)?.head.size;
        Ok(!tasks.is_empty()
            && settled.are(tasks.iter().map(|name| name.index), size)
            && tasks.iter().all(own))
    }

    fn not_one(&self, id: NamespaceId, caller: &Caller, task: TaskIndex) -> Fault {
        let name = self.called(id, task, caller.dialect);
        Fault::new(Code::InvalidArgument, format!("{name} is not a participant of the barrier"))
    }

    /// The result of an instance that has ended, for one who comes to it late or again.
    pub(super) fn again(
        &self,
        id: NamespaceId,
        key: &BarrierKey,
        counter: i64,
        outcome: &Outcome,
    ) -> Answer {
        let changed = self.namespace(id)?.barriers.get(key).map(|barrier| barrier.changed);
        let after = changed.unwrap_or_default();
        match outcome {
            Outcome::Passed => Ok(Said::Now(self.passed_reply(id, key, counter)?, after)),
            Outcome::Failed(fault) => Ok(Said::No(refused(key, counter, fault.clone()), after)),
        }
    }

    /// A task counts otherwise than the others: if they wait, they wait in vain.
    fn out_of_step(
        &mut self,
        turn: &mut Turn<'_>,
        id: NamespaceId,
        coming: &Coming,
        present: i64,
    ) -> Answer {
        let text = format!(
            "Barrier {} was entered by task {} as instance {}, but the service thinks it is the \
             {present}-th instance",
            coming.key.id(),
            coming.task,
            coming.counter
        );
        let fault = Fault::new(Code::Internal, text);
        let ended = self.namespace(id)?.barriers.get(&coming.key);
        if ended.is_some_and(|barrier| barrier.outcome.is_some()) {
            return Err(refused(&coming.key, present, Arc::new(fault)));
        }
        self.spoil_at(turn, id, &Coming { counter: present, ..clone_of(coming) }, fault)
    }

    /// The open instance fails, and the caller with it.
    fn spoil(
        &mut self,
        turn: &mut Turn<'_>,
        id: NamespaceId,
        key: &BarrierKey,
        fault: Fault,
    ) -> Answer {
        let barrier = self.namespace(id)?.barriers.get(key);
        let counter = barrier.map_or(0, |barrier| barrier.counter);
        self.fail_barrier(turn, id, key, fault.clone())?;
        Err(refused(key, counter, Arc::new(fault)))
    }

    /// An instance fails that may not have been there before, and the caller with it.
    fn spoil_at(
        &mut self,
        turn: &mut Turn<'_>,
        id: NamespaceId,
        coming: &Coming,
        fault: Fault,
    ) -> Answer {
        if self.namespace(id)?.index.open.contains(&coming.key) {
            return self.spoil(turn, id, &coming.key, fault);
        }
        let fault = Fault { message: super::refusal::cut((*fault.message).into()).into(), ..fault };
        let refusal = refused(&coming.key, coming.counter, Arc::new(fault.clone()));
        self.commit(
            turn,
            Record::EndBarrier {
                namespace: id,
                barrier: coming.key.clone(),
                counter: coming.counter,
                fault: Some(fault),
                at: turn.now,
            },
        )?;
        Err(refusal)
    }

    /// A task comes, and its call waits for the others. A call of it that waits already ends.
    pub(super) fn come(
        &mut self,
        turn: &mut Turn<'_>,
        asked: Asked<'_>,
        coming: Coming,
        opening: Option<Opening>,
    ) -> Answer {
        let Asked { id, call, .. } = asked;
        self.check_room(id)?;
        let (key, task) = (coming.key, coming.task);
        let barrier = self.namespace(id)?.barriers.get(&key);
        let open = barrier.filter(|_| opening.is_none());
        let counter = open.map_or(coming.counter, |barrier| barrier.counter);
        let arrival = open.and_then(|barrier| barrier.arrived.get(&task));
        let known =
            arrival.is_some_and(|arrival| coming.stamp.is_none() || arrival.stamp == coming.stamp);
        if !known {
            let alarm = opening.as_ref().map(|opening| turn.now.after(opening.timeout));
            let record = Record::ArriveAtBarrier {
                namespace: id,
                barrier: key.clone(),
                counter,
                task,
                stamp: coming.stamp,
                opening,
                at: turn.now,
            };
            self.commit(turn, record)?;
            if alarm.is_some() {
                self.set_alarm(id, Alarm::Barrier(key.clone()), alarm);
            }
        }
        let older = self.live_mut(id)?.waiting.entry(key.clone()).or_default().insert(task, call);
        self.park(call, id, Seat::Barrier(key.clone(), task))?;
        self.supersede(turn, id, &key, task, older);
        self.pass_if_complete(turn, id, &key)?;
        Ok(Said::Later)
    }

    /// An older call of the same task waits no more.
    fn supersede(
        &mut self,
        turn: &Turn<'_>,
        id: NamespaceId,
        key: &BarrierKey,
        task: TaskIndex,
        older: Option<CallId>,
    ) {
        let task = self.called(id, task, self.dialect_of(id));
        let refusal = match key {
            BarrierKey::Register => Refusal::RegisteredAgain { task },
            _ => Refusal::CameAgain { task, id: key.id().into() },
        };
        self.answer_all(turn, older, Err(refusal), turn.log.last());
    }

    /// `CancelBarrier`.
    pub(super) fn cancel_barrier(
        &mut self,
        turn: &mut Turn<'_>,
        id: NamespaceId,
        name: &Arc<str>,
        counter: i64,
    ) -> Answer {
        check_id(name)?;
        let key = BarrierKey::Named(name.clone());
        let barrier = self.namespace(id)?.barriers.get(&key);
        let wrong = |text: String, counter| {
            Err(refused(&key, counter, Arc::new(Fault::new(Code::FailedPrecondition, text))))
        };
        match barrier {
            Some(Barrier { outcome: Some(_), counter: ended, .. }) => {
                return wrong(format!("barrier {name}::{ended} has already ended"), *ended);
            }
            Some(Barrier { counter: open, .. }) if *open != counter => {
                let text = format!("barrier {name} is at instance {open}, not at {counter}");
                return wrong(text, *open);
            }
            Some(_) => {}
            None if counter != 0 => {
                let text = format!("barrier {name} is at instance 0, not at {counter}");
                return wrong(text, 0);
            }
            None => {}
        }
        let fault = Fault::new(Code::Cancelled, format!("Barrier {name}::{counter} was cancelled"));
        if barrier.is_some() {
            self.fail_barrier(turn, id, &key, fault)?;
        } else {
            let fault = Some(fault);
            let (namespace, at) = (id, turn.now);
            self.commit(turn, Record::EndBarrier { namespace, barrier: key, counter, fault, at })?;
        }
        Ok(Said::Now(super::reply::Reply::BarrierCancelled, turn.log.last()))
    }

    /// Barriers that the service opens itself have all tasks as participants.
    pub(super) fn own_opening(&self, timeout: Duration) -> Opening {
        Opening { participants: Participants::All, timeout }
    }

    /// A task comes to a barrier of the service's own, perhaps as the first.
    pub(super) fn come_to_own(
        &mut self,
        turn: &mut Turn<'_>,
        asked: Asked<'_>,
        coming: Coming,
    ) -> Answer {
        let open = self.namespace(asked.id)?.index.open.contains(&coming.key);
        let opening = (!open).then(|| self.own_opening(coming.timeout));
        self.come(turn, asked, coming, opening)
    }

    /// How a barrier of the service's own ended, if it did.
    pub(super) fn outcome_of(
        &self,
        id: NamespaceId,
        key: &BarrierKey,
    ) -> Result<Option<Outcome>, Refusal> {
        let barrier = self.namespace(id)?.barriers.get(key);
        Ok(barrier.and_then(|barrier| barrier.outcome.clone()))
    }
}

fn clone_of(coming: &Coming) -> Coming {
    let Coming { key, counter, timeout, task, stamp } = coming;
    Coming { key: key.clone(), counter: *counter, timeout: *timeout, task: *task, stamp: *stamp }
}

/// A barrier's error as callers get it.
pub(super) fn refused(key: &BarrierKey, counter: i64, fault: Arc<Fault>) -> Refusal {
    Refusal::Barrier { id: key.id().into(), counter, fault }
}

fn check_id(name: &str) -> Result<(), Refusal> {
    let (found, bound) = (name.len() as u64, KEY_BYTES_MAX as u64);
    match found > bound {
        true => Err(Refusal::TooLong { what: "the barrier's id", found, bound }),
        false => Ok(()),
    }
}
