//! A task of a job: a process that registers, beats, polls for errors, works with the others, leaves,
//! and is started again when it dies.

use std::collections::BTreeMap;
use std::sync::Arc;

use rondo_core::coordination::{Call, Caller, Dialect, Method, Reply, TaskName};
use rondo_core::ids::{Incarnation, Revision, ServiceIncarnation, TaskIndex};
use rondo_core::status::{Code, Detail, Status};
use rondo_core::time::{Duration, Time};

use super::marks::{Marks, happens_once};
use super::namespace_of;
use crate::mark::Mark;
use crate::swarm::NamespaceShape;
use crate::workload::actor::{Act, Actor, Happening, Role, With};
use crate::workload::outstanding::Outstanding;

/// Calls of a task that wait at once, besides its poll and beat.
pub(super) const CALLS_MAX: usize = 5;

/// What a call is for.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum For {
    Register,
    Beat,
    Poll,
    Leave,
    Barrier(Arc<str>),
    Watch,
    WatchTasks,
    Key(String),
    /// The next step when nothing goes wrong any more.
    Step,
    Other,
}

/// A call that waits.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Open {
    pub(super) what: For,
    /// What is sent again under the same mark until an answer comes.
    again: Option<(u64, Method)>,
}

/// How a task stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Its process begins at this time.
    Absent(Time),
    /// It registers again at this time.
    Waiting(Time),
    Registering,
    Here,
    Leaving,
}

/// A task.
#[derive(Clone, Debug)]
pub struct Task {
    pub(super) job: u32,
    pub(super) index: u32,
    number: u32,
    pub(super) shape: NamespaceShape,
    namespace: Arc<str>,
    dialect: Dialect,
    /// Counts its processes.
    run: u64,
    stage: Stage,
    /// How many tasks its job has.
    pub(super) size: u32,
    /// Until then it sends no heartbeat.
    pub(super) quiet_until: Time,
    /// It has left, and its process ends then.
    gone_at: Time,
    /// Its clock when something last happened to it.
    now: Time,
    life: Option<ServiceIncarnation>,
    pub(super) calls: Outstanding<Open>,
    marks: Option<Marks>,
    /// The relay it talks to, which marks its calls then.
    pub(super) relay: Option<u32>,
    beat_at: Time,
    act_at: Time,
    poll_at: Time,
    leave_at: Time,
    /// The next instance of each barrier.
    pub(super) counters: BTreeMap<Arc<str>, i64>,
    /// Revisions of keys it has heard of.
    pub(super) revisions: BTreeMap<String, Revision>,
    pub(super) watched: Option<Revision>,
    pub(super) version: i64,
    pub(super) written: u64,
    /// How far it is when nothing goes wrong any more.
    pub(super) step: u32,
    /// Its last process was refused for an error that only a reset ends.
    in_error: bool,
    got_on_at: Time,
}

impl Task {
    /// The task of this index in a job; its number is its own among all tasks.
    pub fn new(job: u32, index: u32, number: u32, shape: &NamespaceShape) -> Self {
        Self {
            job,
            index,
            number,
            shape: shape.clone(),
            namespace: namespace_of(job),
            dialect: Dialect::X,
            run: 0,
            stage: Stage::Absent(Time::ZERO),
            size: shape.tasks,
            quiet_until: Time::ZERO,
            gone_at: Time::NEVER,
            now: Time::ZERO,
            life: None,
            calls: Outstanding::new(1),
            marks: None,
            relay: None,
            beat_at: Time::NEVER,
            act_at: Time::NEVER,
            poll_at: Time::NEVER,
            leave_at: Time::NEVER,
            counters: BTreeMap::new(),
            revisions: BTreeMap::new(),
            watched: None,
            version: -1,
            written: 0,
            step: 0,
            in_error: false,
            got_on_at: Time::ZERO,
        }
    }

    /// The same, talking to a relay if there is one for it.
    pub fn behind(self, relay: Option<u32>) -> Self {
        Self { relay, ..self }
    }

    pub(super) fn name(&self) -> TaskName {
        TaskName::of(i32::try_from(self.index).unwrap_or(0))
    }

    pub(super) fn names(&self) -> Vec<TaskName> {
        (0..self.size).map(|index| TaskName::of(i32::try_from(index).unwrap_or(0))).collect()
    }

    fn incarnation(&self) -> Incarnation {
        Incarnation::new(u64::from(self.number).saturating_mul(1000).saturating_add(self.run))
    }

    /// Its process among all there ever were.
    pub(super) fn own_number(&self) -> String {
        format!("{}-{}", self.number, self.run)
    }

    /// Its process is gone, and another one is started after a while.
    fn die(&mut self, now: Time, with: &mut With<'_>) {
        self.calls.give_up_overdue(Time::NEVER, with.acts);
        self.end(now, with);
    }

    fn end(&mut self, now: Time, with: &mut With<'_>) {
        let s = &mut *with.stream;
        with.acts.push(Act::End);
        self.calls.clear();
        self.stage = Stage::Absent(now.after(ms(100 + s.exponential(800))));
        (self.life, self.marks, self.watched) = (None, None, None);
        (self.quiet_until, self.gone_at) = (Time::ZERO, Time::NEVER);
        self.counters.clear();
        self.revisions.clear();
        (self.version, self.step) = (-1, 0);
    }

    fn begin(&mut self, now: Time, with: &mut With<'_>) {
        self.choose_size(with);
        let size = self.present_size(with);
        if size != self.size {
            with.tally.mark(Mark::JobOfAnotherSize);
            self.size = size;
        }
        if !self.takes_part() {
            self.stage = Stage::Absent(now.after(ms(500)));
            return;
        }
        self.run = self.run.saturating_add(1);
        let dialects = [Dialect::X, Dialect::T, Dialect::Rondo];
        self.dialect = with.stream.pick(&dialects).copied().unwrap_or_default();
        let stamped = with.swarm.coordination.as_ref().map_or(0, |shape| shape.stamped);
        if self.relay.is_none() && with.stream.chance(stamped) {
            self.marks = Some(Marks::of(self.incarnation().get()));
        }
        match std::mem::take(&mut self.in_error) {
            true => self.reset(now, with),
            false => self.register(now, with),
        }
    }

    /// Whoever starts it again has it reset first: it is in error, and its job goes on without it.
    fn reset(&mut self, now: Time, with: &mut With<'_>) {
        self.stage = Stage::Waiting(now.after(ms(300)));
        self.ask(now.after(ms(1000)), For::Other, Method::ResetTask { task: self.name() }, with);
    }

    fn register(&mut self, now: Time, with: &mut With<'_>) {
        self.stage = Stage::Registering;
        let method = Method::RegisterTask {
            task: self.name(),
            incarnation: self.incarnation(),
            recoverable: self.shape.recoverable,
            tasks: self.shape.said.then_some(self.size),
        };
        let until = now.after(ms(self.shape.register_ms.saturating_add(5000)));
        self.ask(until, For::Register, method, with);
    }

    /// Sends a call; what changes something bears a mark where a relay is between.
    pub(super) fn ask(&mut self, until: Time, what: For, method: Method, with: &mut With<'_>) {
        let number = match &mut self.marks {
            Some(marks) if happens_once(&method) => Some(marks.draw()),
            _ => None,
        };
        let again = number.map(|number| (number, method.clone()));
        let until = match again.is_some() {
            true => self.now.after(ms(with.swarm.net.patience_ms)),
            false => until,
        };
        self.send(until, Open { what, again }, method, with);
    }

    fn send(&mut self, until: Time, open: Open, method: Method, with: &mut With<'_>) {
        let sequence = open.again.as_ref().map(|(number, _)| *number);
        let stamp = self.marks.as_ref().zip(sequence).map(|(marks, number)| marks.stamp(number));
        let caller = Caller {
            dialect: self.dialect,
            life: self.life,
            task: Some(TaskIndex::new(i32::try_from(self.index).unwrap_or(0))),
            incarnation: Some(self.incarnation()),
            peer: None,
            stamp,
        };
        let token = self.calls.add(until, open);
        let call = Call { namespace: self.namespace.clone(), caller, method };
        with.acts.push(Act::Coordinate { token, call: Box::new(call) });
    }

    fn wake(&mut self, now: Time, with: &mut With<'_>) {
        while let Some((token, open)) = self.calls.take_overdue(now) {
            with.acts.push(Act::GiveUp { token });
            self.unanswered(now, open, with);
        }
        // Who starts the job ends the processes of the one before.
        let follows = self.present_size(with) != self.size;
        if (follows || now >= self.gone_at) && !matches!(self.stage, Stage::Absent(_)) {
            return self.die(now, with);
        }
        match self.stage {
            Stage::Absent(at) if now >= at => self.begin(now, with),
            Stage::Waiting(at) if now >= at => self.register(now, with),
            Stage::Absent(_) | Stage::Waiting(_) | Stage::Registering => {}
            Stage::Here | Stage::Leaving => self.live(now, with),
        }
    }

    fn live(&mut self, now: Time, with: &mut With<'_>) {
        if now >= self.beat_at && now < self.quiet_until && !with.calm {
            self.beat_at = self.quiet_until;
        } else if now >= self.beat_at {
            self.beat_at = now.after(ms(self.shape.heartbeat_ms / 2));
            if self.gone_at < Time::NEVER {
                with.tally.mark(Mark::TaskLingered);
            }
            let method = Method::Heartbeat { task: self.name(), incarnation: self.incarnation() };
            self.ask(self.beat_at, For::Beat, method, with);
            self.beat_as_before(with);
        }
        if now >= self.poll_at {
            self.poll_at = Time::NEVER;
            let method = Method::PollForError { task: self.name() };
            self.ask(Time::NEVER, For::Poll, method, with);
        }
        if self.stage == Stage::Leaving {
            return;
        }
        if now >= self.leave_at && !with.calm {
            self.stage = Stage::Leaving;
            let until = now.after(ms(self.shape.shutdown_ms.saturating_add(5000)));
            return self.ask(until, For::Leave, Method::ShutdownTask { task: self.name() }, with);
        }
        if now >= self.act_at {
            let mean = with.swarm.coordination.as_ref().map_or(400, |shape| shape.act_ms);
            let mean = if with.calm { mean.min(200) } else { mean };
            self.act_at = now.after(ms(mean / 2 + with.stream.exponential(mean) / 2 + 1));
            match with.calm {
                true => self.go_on(now, with),
                false => self.act(now, with),
            }
        }
    }

    /// Behind a relay, a process that was forgotten on the same machine beats on now and then.
    fn beat_as_before(&mut self, with: &mut With<'_>) {
        if !with.calm && self.relay.is_some() && self.run > 1 && with.stream.chance(150) {
            let before = Incarnation::new(self.incarnation().get().saturating_sub(1));
            let method = Method::Heartbeat { task: self.name(), incarnation: before };
            self.ask(self.beat_at, For::Other, method, with);
        }
    }

    /// No answer came: the connection broke, the server is away, or it took too long.
    fn unanswered(&mut self, now: Time, open: Open, with: &mut With<'_>) {
        if let Some((_, method)) = &open.again {
            let (until, method) = (now.after(ms(with.swarm.net.patience_ms)), method.clone());
            return self.send(until, open, method, with);
        }
        match open.what {
            For::Register => self.stage = Stage::Waiting(now.after(ms(300))),
            // A process ends with its connection, or is one that asks again.
            For::Poll if self.relay.is_some() || with.stream.chance(300) => self.die(now, with),
            For::Poll => self.poll_at = now.after(ms(100)),
            For::Leave => self.end(now, with),
            _ => {}
        }
    }

    fn answered(
        &mut self,
        now: Time,
        token: u64,
        answer: Result<Reply, Status>,
        with: &mut With<'_>,
    ) {
        let Some(open) = self.calls.take(token) else {
            return;
        };
        if answer.as_ref().is_err_and(|status| status.code == Code::Unavailable && is_bare(status))
        {
            return self.broken(now, open, with);
        }
        if let (Some(marks), Some((number, _))) = (&mut self.marks, &open.again) {
            marks.close(*number);
        }
        let mismatch = |detail: &Detail| matches!(detail, Detail::ServiceMismatch { .. });
        if answer.as_ref().is_err_and(|status| status.details.iter().any(mismatch)) {
            return self.die(now, with);
        }
        match open.what {
            For::Register => self.registered(now, answer, with),
            For::Beat if answer == self.life.map(Reply::Heartbeat).ok_or_else(no_life) => {}
            For::Poll if answer.as_ref().is_err_and(|status| status.code == Code::Cancelled) => {
                self.poll_taken_over(now);
            }
            // It is as slow to hear as to beat.
            For::Poll if now < self.quiet_until => self.poll_at = self.quiet_until,
            For::Beat | For::Poll => self.die(now, with),
            For::Leave if self.lingers(with) => {
                self.gone_at = now.after(ms(self.shape.heartbeat_ms));
            }
            For::Leave => self.die(now, with),
            For::Barrier(id) => self.met(id, &answer),
            what => self.heard(&what, answer),
        }
    }

    /// Whether the thread for its heartbeats outlives the call by which it has left.
    fn lingers(&self, with: &mut With<'_>) -> bool {
        let often = with.swarm.coordination.as_ref().map_or(0, |shape| shape.partings.lingers);
        !with.calm && with.stream.chance(often)
    }

    /// Another poll of its own came later, or what the network made of this one.
    fn poll_taken_over(&mut self, now: Time) {
        let has_left = self.gone_at < Time::NEVER;
        if !has_left && !self.calls.all().any(|open| open.what == For::Poll) {
            self.poll_at = now.after(ms(100));
        }
    }

    /// The way to the server broke; what must not happen twice is sent again a little later.
    fn broken(&mut self, now: Time, open: Open, with: &mut With<'_>) {
        match open.again.is_some() {
            true => drop(self.calls.add(now.after(ms(100)), open)),
            false => self.unanswered(now, open, with),
        }
    }

    fn registered(&mut self, now: Time, answer: Result<Reply, Status>, with: &mut With<'_>) {
        let Ok(Reply::Registered(life)) = answer else {
            let aborted = answer.is_err_and(|status| status.code == Code::Aborted);
            self.in_error = aborted && self.shape.recoverable && with.calm;
            return self.die(now, with);
        };
        let stay = with.swarm.coordination.as_ref().map_or(60_000, |shape| shape.stay_ms);
        self.life = Some(life);
        self.stage = Stage::Here;
        (self.beat_at, self.poll_at, self.act_at) = (now, now, now);
        self.leave_at = now.after(ms(stay / 2 + with.stream.exponential(stay)));
    }

    /// A barrier has ended for it: the next time it comes to the next instance.
    fn met(&mut self, id: Arc<str>, answer: &Result<Reply, Status>) {
        let counter = match answer {
            Ok(Reply::BarrierPassed { counter }) => Some(*counter),
            Ok(_) => None,
            Err(status) => status.details.iter().find_map(|detail| match detail {
                Detail::Barrier { counter, .. } => Some(*counter),
                _ => None,
            }),
        };
        if *id == *super::act::CALM && answer.is_ok() {
            // It comes again and again: one that is started anew meets it there.
            self.done(self.now);
        }
        if let Some(counter) = counter {
            self.counters.insert(id, counter.saturating_add(1));
        }
    }

    /// It got on: all its steps are done.
    pub(super) fn done(&mut self, now: Time) {
        self.got_on_at = now;
    }
}

/// It beats in no life.
fn no_life() -> Status {
    Status::new(Code::Unknown, "no life")
}

/// A refusal without anything of the service: of the way to it, or of a node that stops.
fn is_bare(status: &Status) -> bool {
    status.details.is_empty()
}

pub(super) const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

impl Actor for Task {
    fn role(&self) -> Role {
        Role::Task
    }

    fn happen(&mut self, now: Time, what: Happening, with: &mut With<'_>) {
        self.now = now;
        match what {
            Happening::Wake => self.wake(now, with),
            Happening::Coordinated { token, answer } => {
                self.answered(now, token, answer, with);
            }
            Happening::Reborn { .. } => self.end(now, with),
            Happening::Answered { .. }
            | Happening::Pushed(_)
            | Happening::Asked { .. }
            | Happening::Told { .. }
            | Happening::Element(_) => {}
        }
    }

    fn wake_at(&self) -> Time {
        let own = match self.stage {
            Stage::Absent(at) | Stage::Waiting(at) => at,
            Stage::Registering => Time::NEVER,
            Stage::Here => self.beat_at.min(self.poll_at).min(self.act_at),
            Stage::Leaving => self.beat_at.min(self.poll_at).min(self.gone_at),
        };
        own.min(self.calls.deadline())
    }

    fn got_on_at(&self) -> Time {
        if self.takes_part() { self.got_on_at } else { Time::NEVER }
    }

    fn state(&self) -> String {
        let Self { namespace, index, run, stage, step, calls, .. } = self;
        format!("{namespace}/{index} in run {run}, {stage:?}, at step {step}, waits for {calls:?}")
    }

    fn job(&self) -> Option<u32> {
        (self.shape.told || self.shape.said).then_some(self.job)
    }

    fn relay(&self) -> Option<u32> {
        self.relay
    }
}
