//! Tasks register, alone or with all others.

use alloc::format;

use super::alarms::REFUSED_PAUSE_MAX;
use super::barriers::Coming;
use super::live::Doing;
use super::machine::{Answer, Asked, Coordination, Said, Turn};
use super::record::Record;
use super::refusal::Refusal;
use super::reply::{Event, Reply};
use super::request::Caller;
use super::state::{Task, bound_of};
use super::types::{BarrierKey, Fault, Phase, TaskName};
use crate::ids::{Incarnation, NamespaceId, TaskIndex};
use crate::status::Code;
use crate::time::Time;

/// What a task says of itself when it registers.
#[derive(Clone, Copy)]
pub(super) struct Registrant {
    pub(super) incarnation: Incarnation,
    pub(super) recoverable: bool,
    pub(super) tasks: Option<u32>,
}

impl Coordination {
    /// `RegisterTask`.
    pub(super) fn register(
        &mut self,
        turn: &mut Turn<'_>,
        asked: Asked<'_>,
        name: &TaskName,
        registrant: Registrant,
        entropy: u64,
    ) -> Answer {
        let Asked { id, caller, .. } = asked;
        let anew = self.begins_anew(id, name.index, registrant.incarnation)?;
        let task = self.check_registration(asked, name, registrant.tasks, anew);
        let task = task.inspect_err(|refusal| self.note_refused(id, name, refusal, turn.now))?;
        if anew {
            let settings = self.live(id)?.settings.clone();
            self.begin_life(turn, id, settings, entropy)?;
        }
        let recoverable = registrant.recoverable || self.live(id)?.settings.recoverable;
        let registrant = Registrant { recoverable, ..registrant };
        let known = self.namespace(id)?.tasks.get(&task).cloned();
        if let Some(known) = &known {
            self.check_successor(turn, id, caller, known, registrant)?;
        }
        if let Some(size) = registrant.tasks.filter(|_| self.size_is_open(id)) {
            self.learn_size(turn, id, size)?;
        }
        let answer = self.admit(turn, asked, task, known.as_ref(), registrant)?;
        self.hear(id, task, caller, turn.now);
        self.note(id, task, Doing::Registered, turn.now);
        Ok(answer)
    }

    /// Takes a registration that nothing speaks against. A connected process hears again that it is
    /// registered. A task takes part at once if it did before, or if all have registered. Otherwise it
    /// waits for the others.
    fn admit(
        &mut self,
        turn: &mut Turn<'_>,
        asked: Asked<'_>,
        task: TaskIndex,
        known: Option<&Task>,
        registrant: Registrant,
    ) -> Answer {
        let Asked { id, caller, .. } = asked;
        let phase = known.map(|known| known.phase);
        let connected = known.filter(|known| known.phase == Phase::Connected);
        if let Some(known) = connected.filter(|it| it.incarnation == registrant.incarnation) {
            let incarnation = self.namespace(id)?.head.incarnation;
            return Ok(Said::Now(Reply::Registered(incarnation), known.changed));
        }
        let took_part = matches!(phase, Some(Phase::Connected | Phase::Error));
        match took_part || self.namespace(id)?.has_begun() {
            true => self.connect(turn, id, caller, task, registrant),
            false => self.wait_for_all(turn, asked, task, known, registrant),
        }
    }

    /// Whether a registration begins a new life. It does when all who registered before have left or
    /// died, unless it is a late call of one of them. It also does when the server was started with
    /// another number of tasks since, and the life is not complete: those who registered in it would wait
    /// for a job of the former size.
    fn begins_anew(
        &self,
        id: NamespaceId,
        task: TaskIndex,
        incarnation: Incarnation,
    ) -> Result<bool, Refusal> {
        let namespace = self.namespace(id)?;
        let same = namespace.tasks.get(&task).is_some_and(|task| task.incarnation == incarnation);
        let is_over = namespace.is_over() && !(same && namespace.has_begun());
        let told = self.live(id)?.settings.tasks;
        // A server that is told no size takes it from whoever registers first.
        let is_open = namespace.tasks.is_empty() || (told.is_some() && !namespace.has_begun());
        Ok(is_over || (is_open && namespace.head.size != told))
    }

    /// Checks all that may refuse a registration, in the terms of the life that it begins or joins,
    /// before it changes anything: the job's name, the task's number, and the size that it says.
    fn check_registration(
        &self,
        Asked { id, caller, .. }: Asked<'_>,
        name: &TaskName,
        said: Option<u32>,
        anew: bool,
    ) -> Result<TaskIndex, Refusal> {
        let namespace = self.namespace(id)?;
        let settings = self.live(id)?.settings.tasks;
        let size = if anew { settings } else { namespace.head.size };
        // A life that began with other settings keeps its size.
        let bound = size.zip(settings).map(|(size, settings)| size.max(settings));
        let task = self.index_within(id, name, "registered", bound_of(bound))?;
        self.check_size(id, caller, task, size)?;
        if anew || (said.is_some() && size.is_none()) {
            self.check_room(id)?;
        }
        let Some(asked) = said else {
            return Ok(task);
        };
        let registered = namespace.tasks.keys().next_back().copied().filter(|_| !anew);
        let last = registered.map_or(task, |last| task.max(last)).get();
        let least = u32::try_from(last.saturating_add(1)).unwrap_or(0).max(1);
        let most = bound_of(None);
        match size {
            Some(known) if known == asked => Ok(task),
            Some(known) => Err(Refusal::OtherSize { asked, known: format!("{known}") }),
            None if (least..=most).contains(&asked) => Ok(task),
            None => Err(Refusal::OtherSize { asked, known: format!("{least} to {most}") }),
        }
    }

    /// Refuses a task that the present job does not have, although the settings allow it: the size was
    /// learnt. The task may belong to the next job on the same server, and registers again until that can
    /// begin.
    fn check_size(
        &self,
        id: NamespaceId,
        caller: &Caller,
        task: TaskIndex,
        size: Option<u32>,
    ) -> Result<(), Refusal> {
        let is_within = |size: &u32| u32::try_from(task.get()).is_ok_and(|index| index < *size);
        match size.filter(|size| !is_within(size)) {
            Some(size) => {
                Err(Refusal::OtherJob { task: self.called(id, task, caller.dialect), size })
            }
            None => Ok(()),
        }
    }

    /// Notes that a task of the next job waits for the present one to end.
    fn note_refused(&mut self, id: NamespaceId, name: &TaskName, refusal: &Refusal, now: Time) {
        if !matches!(refusal, Refusal::OtherJob { .. }) {
            return;
        }
        if let Ok(live) = self.live_mut(id) {
            let before = live.refused.filter(|(_, at)| now < at.after(REFUSED_PAUSE_MAX));
            let highest = before.map_or(name.index, |(highest, _)| highest.max(name.index));
            live.refused = Some((highest, now));
        }
    }

    fn size_is_open(&self, id: NamespaceId) -> bool {
        self.namespace(id).is_ok_and(|namespace| namespace.head.size.is_none())
    }

    /// Refuses a process that may not take the place of the one that the service knows: that one is
    /// connected or in error, and does not come back.
    fn check_successor(
        &mut self,
        turn: &mut Turn<'_>,
        id: NamespaceId,
        caller: &Caller,
        known: &Task,
        registrant: Registrant,
    ) -> Result<(), Refusal> {
        let same = known.incarnation == registrant.incarnation;
        match known.phase {
            Phase::Connected if !same && !known.recoverable => {
                Err(self.clash(turn, id, caller, known, registrant.incarnation)?)
            }
            Phase::Error => self.check_return(turn, id, caller, known),
            Phase::Connected | Phase::Registering | Phase::Disconnected => Ok(()),
        }
    }

    /// Two processes say that they are the same task: neither can be trusted.
    pub(super) fn clash(
        &mut self,
        turn: &mut Turn<'_>,
        id: NamespaceId,
        caller: &Caller,
        known: &Task,
        asked: Incarnation,
    ) -> Result<Refusal, Refusal> {
        let task = self.called(id, known.index, caller.dialect);
        let (known_as, asked) = (known.incarnation.get(), asked.get());
        let refusal = Refusal::OtherIncarnation { task, known: known_as, asked };
        let fault = Fault::new(Code::Aborted, format!("{refusal}"));
        self.fail_task(turn, id, known.index, &fault)?;
        self.propagate(turn, id, &fault, &[known.index])?;
        Ok(refusal)
    }

    /// Refuses a task in error, unless it died and may come back.
    fn check_return(
        &mut self,
        turn: &mut Turn<'_>,
        id: NamespaceId,
        caller: &Caller,
        known: &Task,
    ) -> Result<(), Refusal> {
        let fault = known.fault();
        let died = fault.code == Code::Unavailable && !fault.reported;
        if known.recoverable && died {
            return Ok(());
        }
        let task = self.called(id, known.index, caller.dialect);
        let refusal = Refusal::InError { task, fault };
        let told = Fault::new(Code::Aborted, format!("{refusal}"));
        self.propagate(turn, id, &told, &[known.index])?;
        Err(refusal)
    }

    /// A task takes part at once. Its process has come to no barrier yet, whatever an earlier process of
    /// the task did.
    fn connect(
        &mut self,
        turn: &mut Turn<'_>,
        id: NamespaceId,
        caller: &Caller,
        task: TaskIndex,
        registrant: Registrant,
    ) -> Answer {
        let returns = self.namespace(id)?.tasks.contains_key(&task);
        self.end_leases(turn, id, task)?;
        self.withdraw_from_all(turn, id, task)?;
        let after = self.commit(
            turn,
            Record::ConnectTask {
                namespace: id,
                task,
                incarnation: registrant.incarnation,
                recoverable: registrant.recoverable,
                dialect: caller.dialect,
                at: turn.now,
            },
        )?;
        if returns {
            self.observe(turn, Event::TaskReturned { namespace: self.name_of(id), task });
            self.drop_from_groups(turn, id, task)?;
        }
        self.begin_beat(id, task, turn.now);
        self.arm(id, task);
        let incarnation = self.namespace(id)?.head.incarnation;
        Ok(Said::Now(Reply::Registered(incarnation), after))
    }

    /// A task waits for the others to register.
    fn wait_for_all(
        &mut self,
        turn: &mut Turn<'_>,
        asked: Asked<'_>,
        task: TaskIndex,
        known: Option<&Task>,
        registrant: Registrant,
    ) -> Answer {
        let Asked { id, caller, .. } = asked;
        self.check_room(id)?;
        let unchanged = known.is_some_and(|known| {
            known.phase == Phase::Registering
                && known.incarnation == registrant.incarnation
                && known.recoverable == registrant.recoverable
        });
        if known.is_some_and(|known| known.incarnation != registrant.incarnation) {
            self.withdraw_from_clients(turn, id, task)?;
        }
        if !unchanged {
            self.commit(
                turn,
                Record::RegisterTask {
                    namespace: id,
                    task,
                    incarnation: registrant.incarnation,
                    recoverable: registrant.recoverable,
                    dialect: caller.dialect,
                    at: turn.now,
                },
            )?;
        }
        self.begin_beat(id, task, turn.now);
        if known.is_none() {
            self.plan_settling(id, turn.now);
        }
        let timeout = self.live(id)?.settings.register_timeout;
        let key = BarrierKey::Register;
        self.come_to_own(turn, asked, Coming { key, counter: 0, timeout, task, stamp: None })
    }
}
