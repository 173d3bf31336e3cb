//! Tasks: how they stand, and what becomes of the others when one fails.

use std::collections::BTreeSet;

use rondo_core::coordination::{Method, Stamp};
use rondo_core::ids::CallId;
use rondo_core::status::Code;
use rondo_core::time::{Duration, Time};

use super::heard::State;
use super::{Heard, Model, Name, Stands, Waits};

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Task {
    pub(super) incarnation: u64,
    pub(super) recoverable: bool,
    pub(super) phase: Phase,
    /// When it left, for one that has.
    left: Option<Time>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    Registering,
    Here,
    Left,
    /// With this code, and whether it said so itself.
    Failed(Code, bool),
}

const REFUSED: fn(Code) -> Option<Heard> = |code| Some(Heard::Refused(code));

impl Model {
    pub(super) fn of_tasks(
        &mut self,
        call: CallId,
        method: &Method,
        stamp: Option<Stamp>,
    ) -> Option<Heard> {
        let task = named(method);
        if task.is_some_and(|task| !self.has(task)) {
            return REFUSED(Code::InvalidArgument);
        }
        let task = task.unwrap_or(0);
        match method {
            Method::RegisterTask { incarnation, recoverable, .. } => {
                self.register(call, task, incarnation.get(), *recoverable)
            }
            Method::Heartbeat { incarnation, .. } => Some(self.beat(task, incarnation.get())),
            Method::ShutdownTask { .. } => self.shut_down(call, task, stamp),
            Method::ResetTask { .. } => Some(self.reset(task)),
            Method::PollForError { .. } => self.poll(call, task),
            Method::ReportErrorToService { code, .. } => Some(self.report(task, *code)),
            Method::GetTaskState { tasks } => {
                let tasks: Vec<_> = tasks.iter().map(|task| task.index.get()).collect();
                match tasks.iter().all(|task| self.has(*task)) {
                    true => Some(Heard::States(self.states(&tasks))),
                    false => REFUSED(Code::InvalidArgument),
                }
            }
            Method::WatchTasks { version } if *version < 0 => {
                Some(Heard::Tasks(self.states(&(0..self.size).collect::<Vec<_>>())))
            }
            Method::WatchTasks { .. } => {
                self.waiting.push((call, Waits::ForTasks));
                None
            }
            Method::GetAliveTasks { tasks, .. } => {
                let tasks: BTreeSet<_> = tasks.iter().map(|task| task.index.get()).collect();
                self.alive(call, method, (task, tasks.into_iter().collect()), stamp)
            }
            Method::WaitForAllTasks { devices, .. } => self.devices(call, task, devices),
            other => panic!("not in the model: {other:?}"),
        }
    }

    pub(super) fn phase(&self, task: i32) -> Option<Phase> {
        self.kept.tasks.get(&task).map(|task| task.phase)
    }

    pub(super) fn may_return(&self, task: i32) -> bool {
        self.kept.tasks.get(&task).is_some_and(|task| task.recoverable)
    }

    pub(super) fn states(&self, tasks: &[i32]) -> Vec<State> {
        let state = |task: &i32| match self.kept.tasks.get(task) {
            None => (0, false, None),
            Some(known) => {
                let code = match known.phase {
                    Phase::Failed(code, _) => Some(code),
                    _ => None,
                };
                (known.incarnation, known.phase == Phase::Here, code)
            }
        };
        tasks.iter().map(state).collect()
    }

    fn here_or_coming(&self) -> Vec<i32> {
        let present = |phase| matches!(phase, Phase::Registering | Phase::Here);
        let tasks = self.kept.tasks.iter().filter(|(_, task)| present(task.phase));
        tasks.map(|(task, _)| *task).collect()
    }

    fn begun(&self) -> bool {
        let register = self.kept.barriers.get(&Name::Register);
        register.is_some_and(|barrier| barrier.stands == Stands::Passed)
    }

    fn register(&mut self, call: CallId, task: i32, incarnation: u64, flag: bool) -> Option<Heard> {
        let over = !self.kept.tasks.is_empty() && self.here_or_coming().is_empty();
        let same = self.kept.tasks.get(&task).is_some_and(|known| known.incarnation == incarnation);
        if over && !(same && self.begun()) {
            self.begin_life();
        }
        let recoverable = flag || self.settings.recoverable;
        match self.kept.tasks.get(&task).map(|known| (known.phase, known.recoverable)) {
            Some((Phase::Here, _)) if same => {
                self.last_heard.insert(task, self.now);
                Some(Heard::Registered)
            }
            Some((Phase::Here, true)) => self.connect(task, incarnation, recoverable),
            Some((Phase::Here, false)) => {
                self.clash(task);
                REFUSED(Code::Aborted)
            }
            Some((Phase::Failed(Code::Unavailable, false), true)) => {
                self.connect(task, incarnation, recoverable)
            }
            Some((Phase::Failed(..), _)) => {
                self.propagate(Code::Aborted, &[task]);
                REFUSED(Code::Aborted)
            }
            _ if self.begun() => self.connect(task, incarnation, recoverable),
            _ => {
                if !same {
                    self.withdraw_from(task, |name| matches!(name, Name::Named(_)));
                }
                let phase = Phase::Registering;
                let known = Task { incarnation, recoverable, phase, left: None };
                self.kept.tasks.insert(task, known);
                self.last_heard.insert(task, self.now);
                let timeout = self.settings.register_timeout;
                self.come(call, &Name::Register, 0, (None, timeout), task, None)
            }
        }
    }

    fn connect(&mut self, task: i32, incarnation: u64, recoverable: bool) -> Option<Heard> {
        self.end_leases(task);
        self.withdraw(task);
        let phase = Phase::Here;
        let known = Task { incarnation, recoverable, phase, left: None };
        self.kept.tasks.insert(task, known);
        self.last_heard.insert(task, self.now);
        self.release(
            &Heard::Refused(Code::Cancelled),
            |waits| matches!(waits, Waits::ForTheLiving(_, asker, _) if *asker == task),
        );
        Some(Heard::Registered)
    }

    /// All who wait to register take part.
    pub(super) fn all_registered(&mut self) {
        for known in self.kept.tasks.values_mut() {
            if known.phase == Phase::Registering {
                known.phase = Phase::Here;
            }
        }
        self.last_heard.values_mut().for_each(|heard| *heard = self.now);
    }

    /// All who are here leave.
    pub(super) fn all_left(&mut self) {
        let now = self.now;
        for known in self.kept.tasks.values_mut().filter(|known| known.phase == Phase::Here) {
            (known.phase, known.left) = (Phase::Left, Some(now));
        }
        let gone: Vec<_> = self.kept.tasks.keys().copied().collect();
        for task in gone {
            if self.phase(task) != Some(Phase::Left) {
                continue;
            }
            self.end_leases(task);
            self.release(&Heard::Refused(Code::Cancelled), |waits| *waits == Waits::ForError(task));
        }
        self.fail_barriers(|_| true);
        self.look_for_the_living();
    }

    fn clash(&mut self, task: i32) {
        self.fail(task, Code::Aborted, false);
        self.propagate(Code::Aborted, &[task]);
    }

    fn beat(&mut self, task: i32, incarnation: u64) -> Heard {
        let known = self.kept.tasks.get(&task).cloned();
        let same = known.as_ref().is_some_and(|known| known.incarnation == incarnation);
        if !same && self.kept.former.get(&task) == Some(&incarnation) {
            return Heard::Refused(Code::Aborted);
        }
        match known.map(|known| (known.phase, known.recoverable)) {
            Some((Phase::Here, _)) if same => {
                self.last_heard.insert(task, self.now);
                Heard::Beat
            }
            Some((Phase::Here, true)) => Heard::Beat,
            Some((Phase::Here, false)) => {
                self.clash(task);
                Heard::Refused(Code::Aborted)
            }
            Some((Phase::Left, _)) if self.left_just_now(task) => Heard::Beat,
            Some((Phase::Failed(..), _)) => Heard::Refused(Code::Aborted),
            _ => Heard::Refused(Code::InvalidArgument),
        }
    }

    fn left_just_now(&self, task: i32) -> bool {
        let left = self.kept.tasks.get(&task).and_then(|known| known.left);
        left.is_some_and(|left| {
            self.now.since(left.max(self.started)) <= self.settings.heartbeat_timeout
        })
    }

    fn shut_down(&mut self, call: CallId, task: i32, stamp: Option<Stamp>) -> Option<Heard> {
        if !matches!(self.phase(task), Some(Phase::Here | Phase::Failed(..))) {
            return REFUSED(Code::Internal);
        }
        let shutdown = self.kept.barriers.get(&Name::Shutdown).map(|barrier| barrier.stands);
        if let Some(Stands::Failed(_)) = shutdown {
            self.leave(task);
            return REFUSED(Code::Internal);
        }
        let timeout = self.settings.shutdown_timeout;
        if self.may_return(task) || timeout == Duration::ZERO {
            self.leave(task);
            return Some(Heard::Left);
        }
        let all: Vec<_> = (0..self.size).collect();
        if self.has_lost(&all) {
            self.open(&Name::Shutdown, 0, None, Duration::ZERO);
            self.fail_barrier(&Name::Shutdown, Code::Internal);
            return REFUSED(Code::Internal);
        }
        self.come(call, &Name::Shutdown, 0, (None, timeout), task, stamp)
    }

    /// Whether one of these is in error for good.
    pub(super) fn has_lost(&self, tasks: &[i32]) -> bool {
        tasks.iter().any(|task| {
            matches!(self.phase(*task), Some(Phase::Failed(..))) && !self.may_return(*task)
        })
    }

    fn leave(&mut self, task: i32) {
        let now = self.now;
        if let Some(known) = self.kept.tasks.get_mut(&task) {
            (known.phase, known.left) = (Phase::Left, Some(now));
        }
        self.end_leases(task);
        self.release(&Heard::Refused(Code::Cancelled), |waits| *waits == Waits::ForError(task));
        self.leave_barriers(task);
    }

    fn reset(&mut self, task: i32) -> Heard {
        match self.phase(task) {
            Some(Phase::Here | Phase::Failed(..)) => {
                self.leave(task);
                Heard::Reset
            }
            _ => Heard::Refused(Code::FailedPrecondition),
        }
    }

    fn report(&mut self, task: i32, code: i32) -> Heard {
        let Some(code) = Code::of_number(code) else {
            return Heard::Refused(Code::InvalidArgument);
        };
        if self.phase(task) != Some(Phase::Here) {
            return Heard::Refused(Code::FailedPrecondition);
        }
        self.fail(task, code, true);
        self.propagate(code, &[task]);
        Heard::Reported
    }

    fn poll(&mut self, call: CallId, task: i32) -> Option<Heard> {
        if let Some(code) = self.kept.sticky {
            return REFUSED(code);
        }
        let may = match self.phase(task) {
            Some(Phase::Here) => true,
            Some(Phase::Left) => self.left_just_now(task),
            _ => false,
        };
        if !may {
            return REFUSED(Code::FailedPrecondition);
        }
        self.kept.polled = true;
        self.release(&Heard::Refused(Code::Cancelled), |waits| *waits == Waits::ForError(task));
        self.waiting.push((call, Waits::ForError(task)));
        None
    }

    fn fail(&mut self, task: i32, code: Code, reported: bool) {
        let Some(known) = self.kept.tasks.get_mut(&task) else {
            return;
        };
        if matches!(known.phase, Phase::Failed(..)) {
            return;
        }
        (known.phase, known.left) = (Phase::Failed(code, reported), None);
        self.end_leases(task);
        self.leave_barriers(task);
    }

    fn leave_barriers(&mut self, task: i32) {
        if self.may_return(task) {
            self.withdraw(task);
        } else {
            self.fail_barriers(|members| members.contains(&task));
        }
        self.look_for_the_living();
    }

    fn propagate(&mut self, code: Code, from: &[i32]) {
        if self.settings.recoverable || from.iter().all(|task| self.may_return(*task)) {
            return;
        }
        match self.kept.polled {
            true => self.stick(code),
            false => self.fail_all(Code::Internal),
        }
    }

    pub(super) fn stick(&mut self, code: Code) {
        if self.kept.sticky.is_none() {
            self.kept.sticky = Some(code);
            self.release(&Heard::Refused(code), |waits| matches!(waits, Waits::ForError(_)));
        }
    }

    pub(super) fn fail_all(&mut self, code: Code) {
        let tasks = self.here_or_coming();
        if tasks.is_empty() {
            return;
        }
        for task in &tasks {
            let known = self.kept.tasks.get_mut(task).unwrap();
            known.phase = Phase::Failed(code, false);
        }
        for task in &tasks {
            self.end_leases(*task);
        }
        self.fail_barriers(|_| true);
        self.look_for_the_living();
    }

    /// Who has been silent for too long.
    pub(super) fn silent(&self) -> Vec<i32> {
        let long = |task: &i32| {
            let heard = self.last_heard.get(task).copied().unwrap_or(self.started);
            self.now.since(heard.max(self.started)) > self.settings.heartbeat_timeout
        };
        let here = self.kept.tasks.iter().filter(|(_, known)| known.phase == Phase::Here);
        here.map(|(task, _)| *task).filter(long).collect()
    }

    pub(super) fn lose(&mut self, silent: &[i32]) {
        if silent.is_empty() {
            return;
        }
        for task in silent {
            self.fail(*task, Code::Unavailable, false);
        }
        self.propagate(Code::Unavailable, silent);
    }

    fn alive(
        &mut self,
        call: CallId,
        method: &Method,
        (task, tasks): (i32, Vec<i32>),
        stamp: Option<Stamp>,
    ) -> Option<Heard> {
        if !tasks.contains(&task) {
            return REFUSED(Code::InvalidArgument);
        }
        let stamp = stamp.map(|stamp| (stamp, std::mem::discriminant(method)));
        self.waiting.push((call, Waits::ForTheLiving(tasks, task, stamp)));
        self.look_for_the_living();
        None
    }

    /// Whoever waits for nobody who is here is told who is.
    fn look_for_the_living(&mut self) {
        let waiting: Vec<_> = self.waiting.iter().map(|(_, waits)| waits.clone()).collect();
        for waits in &waiting {
            let Waits::ForTheLiving(tasks, ..) = waits else {
                continue;
            };
            let here = tasks.iter().filter(|task| self.phase(**task) == Some(Phase::Here));
            let here: Vec<_> = here.copied().collect();
            let group =
                |waits: &&Waits| matches!(waits, Waits::ForTheLiving(of, ..) if of == tasks);
            let group: Vec<_> = waiting.iter().filter(group).collect();
            let asked = |who: &i32| {
                group
                    .iter()
                    .any(|of| matches!(of, Waits::ForTheLiving(_, asker, _) if asker == who))
            };
            let still = self.waiting.iter().any(|(_, of)| of == waits);
            if still && here.iter().all(asked) {
                let alive = here.iter().map(|who| (*who, self.kept.tasks[who].incarnation));
                let heard = Heard::Alive(alive.collect());
                for waits in group {
                    if let Waits::ForTheLiving(_, _, Some((stamp, asked))) = waits {
                        self.kept.keep(*stamp, *asked, heard.clone());
                    }
                }
                self.release(
                    &heard,
                    |waits| matches!(waits, Waits::ForTheLiving(of, ..) if of == tasks),
                );
            }
        }
    }

    fn devices(&mut self, call: CallId, task: i32, devices: &[u8]) -> Option<Heard> {
        if self.phase(task) != Some(Phase::Here) {
            return REFUSED(Code::InvalidArgument);
        }
        self.kept.devices.entry(task).or_insert_with(|| devices.to_vec());
        let barrier = self.kept.barriers.get(&Name::Devices);
        match barrier.map(|barrier| barrier.stands) {
            Some(Stands::Passed) => Some(self.passed(&Name::Devices, 0)),
            Some(Stands::Failed(code)) => REFUSED(code),
            Some(Stands::Open) | None => {
                let timeout = self.settings.devices_timeout;
                self.come(call, &Name::Devices, 0, (None, timeout), task, None)
            }
        }
    }
}

/// The task a method names, if it names one.
fn named(method: &Method) -> Option<i32> {
    match method {
        Method::RegisterTask { task, .. }
        | Method::Heartbeat { task, .. }
        | Method::ShutdownTask { task }
        | Method::ResetTask { task }
        | Method::PollForError { task }
        | Method::ReportErrorToService { task, .. }
        | Method::GetAliveTasks { requester: task, .. }
        | Method::WaitForAllTasks { task, .. } => Some(task.index.get()),
        _ => None,
    }
}
