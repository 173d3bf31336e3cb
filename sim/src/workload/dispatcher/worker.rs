//! A worker: says what it runs, runs what it is told to, asks for splits, reports what it finished.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rondo_core::dispatcher::{
    Reply, Request, TaskDef, TransferServer, WorkerHeartbeat, WorkerHeartbeatReply,
};
use rondo_core::ids::TaskId;
use rondo_core::status::Status;
use rondo_core::time::Time;

use super::running::{Running, Step};
use super::{address, ms, patience, record_bytes};
use crate::swarm::UID_OF_ANY_PROCESS;
use crate::workload::actor::{Act, Actor, Happening, Read, ReadAnswer, Role, With};
use crate::workload::kind::Kind;
use crate::workload::outstanding::Outstanding;

/// Wait before something is tried again, in ms.
const RETRY_MS: u64 = 200;

/// A worker.
#[derive(Clone, Debug)]
pub struct Worker {
    number: u32,
    life: u32,
    uid: i64,
    address: Arc<str>,
    /// Whether it says who it is when it asks for splits.
    names_itself: bool,
    tasks: BTreeMap<TaskId, Running>,
    /// Tasks that are over, and not known to be so.
    ended: BTreeSet<TaskId>,
    calls: Outstanding<For>,
    heartbeat_at: Time,
    /// Whether the dispatcher has answered a heartbeat of this process. A stock worker takes part only then.
    is_registered: bool,
    /// When it may report what is over.
    report_at: Time,
    got_on_at: Time,
}

/// What a call is for.
#[derive(Clone, Debug, PartialEq)]
enum For {
    Heartbeat,
    Split(TaskId),
    Update(Vec<TaskId>),
    Other,
}

impl Worker {
    /// The worker of this number, not yet begun. A stock worker says the same uid in all of its lives.
    pub fn new(number: u32, is_stock: bool) -> Self {
        let own = i64::from(number).saturating_mul(1000).saturating_add(1);
        Self {
            number,
            life: 0,
            uid: if is_stock { UID_OF_ANY_PROCESS } else { own },
            address: address(number, 0),
            names_itself: number % 3 != 2,
            tasks: BTreeMap::new(),
            ended: BTreeSet::new(),
            calls: Outstanding::new(1),
            heartbeat_at: Time::ZERO,
            is_registered: false,
            report_at: Time::ZERO,
            got_on_at: Time::ZERO,
        }
    }

    fn call(&mut self, now: Time, what: For, request: Request, with: &mut With<'_>) {
        let token = self.calls.add(patience(now, with), what);
        with.acts.push(Act::Call { token, request });
    }

    fn wake(&mut self, now: Time, with: &mut With<'_>) {
        while let Some((token, what)) = self.calls.take_overdue(now) {
            with.acts.push(Act::GiveUp { token });
            self.unanswered(now, &what);
        }
        let beats = self.calls.all().any(|what| *what == For::Heartbeat);
        if now >= self.heartbeat_at && !beats {
            self.heartbeat_at = now.after(ms(with.swarm.pace.worker_heartbeat_ms));
            let request = Request::WorkerHeartbeat(self.heartbeat(with));
            self.call(now, For::Heartbeat, request, with);
        }
        let due: Vec<TaskId> = self.due(now);
        for task in due {
            self.go_on(now, task, with);
        }
        self.report(now, with);
    }

    fn due(&self, now: Time) -> Vec<TaskId> {
        let due = |task: &Running| !task.asking && task.next_at <= now;
        self.tasks.iter().filter(|(_, task)| due(task)).map(|(id, _)| *id).collect()
    }

    fn heartbeat(&self, with: &With<'_>) -> WorkerHeartbeat {
        let mut protocols = vec!["grpc"];
        protocols.extend(with.swarm.reading.map(|_| "rondo"));
        WorkerHeartbeat {
            address: self.address.to_string(),
            current_tasks: self.tasks.keys().copied().collect(),
            tags: Vec::new(),
            uid: self.uid,
            transfer_servers: protocols.into_iter().map(|name| self.server(name)).collect(),
        }
    }

    fn server(&self, protocol: &str) -> TransferServer {
        TransferServer {
            protocol: protocol.into(),
            address: self.address.to_string(),
            compatibility_info: bytes::Bytes::new(),
            fall_back_to_grpc_at_client_creation_time: false,
            fall_back_to_grpc_at_get_element_time: false,
        }
    }

    fn go_on(&mut self, now: Time, id: TaskId, with: &mut With<'_>) {
        let Some(task) = self.tasks.get_mut(&id) else {
            return;
        };
        match task.step() {
            Step::Rest => task.next_at = rest(now, task, with),
            Step::End => {
                self.tasks.remove(&id);
                self.ended.insert(id);
            }
            Step::Ask { source, pass } => {
                task.asking = true;
                let iteration = task.iteration;
                let asker = self.names_itself.then(|| self.address.clone());
                let request = Request::GetSplit { iteration, repetition: pass, source, asker };
                self.call(now, For::Split(id), request, with);
            }
        }
    }

    /// Reports what is over and was not yet; all of it each time.
    fn report(&mut self, now: Time, with: &mut With<'_>) {
        let reports = self.calls.all().any(|what| matches!(what, For::Update(_)));
        if self.ended.is_empty() || reports || now < self.report_at {
            return;
        }
        let ended: Vec<TaskId> = self.ended.iter().copied().collect();
        let progress = ended.iter().map(|task| (*task, true)).collect();
        let request = Request::WorkerUpdate { worker_address: self.address.to_string(), progress };
        self.call(now, For::Update(ended), request, with);
    }

    fn answered(
        &mut self,
        now: Time,
        token: u64,
        answer: Result<Reply, Status>,
        with: &mut With<'_>,
    ) {
        let Some(what) = self.calls.take(token) else {
            return;
        };
        match (&what, answer) {
            (For::Heartbeat, Ok(Reply::WorkerHeartbeat(reply))) => self.hear(now, reply, with),
            (For::Split(id), Ok(Reply::Split(split))) => {
                if let Some(task) = self.tasks.get_mut(id) {
                    task.asking = false;
                    task.took(split);
                    let pause = split.map_or(0, |_| pause_ms(with));
                    task.next_at = now.after(ms(pause));
                }
            }
            (For::Update(reported), Ok(_)) => {
                self.ended.retain(|task| !reported.contains(task));
            }
            (_, Err(_)) => self.unanswered(now, &what),
            (_, Ok(_)) => {}
        }
        self.wake(now, with);
    }

    fn hear(&mut self, now: Time, reply: WorkerHeartbeatReply, with: &mut With<'_>) {
        self.got_on_at = now;
        self.is_registered = true;
        for task in reply.tasks_to_delete {
            self.tasks.remove(&task);
        }
        for task in &reply.new_tasks {
            self.start(now, task, with);
        }
    }

    fn start(&mut self, now: Time, task: &TaskDef, with: &mut With<'_>) {
        let known = self.tasks.contains_key(&task.task) || self.ended.contains(&task.task);
        if known || *task.worker_address != *self.address {
            return;
        }
        self.tasks.insert(task.task, Running::new(task, now));
        let dataset = task.dataset.clone();
        if task.definition.inline.is_none() {
            let request = Request::GetDefinition { dataset: dataset.clone() };
            self.call(now, For::Other, request, with);
        }
        if with.swarm.weights.of(Kind::DisableCompression) > 0 {
            let request = Request::DisableCompression { dataset, disable: false };
            self.call(now, For::Other, request, with);
        }
    }

    /// A call failed. Whatever the error is, the worker keeps the task until it is told to drop it, as
    /// TensorFlow's does: the next read of the task asks for a split again.
    fn unanswered(&mut self, now: Time, what: &For) {
        let again = now.after(ms(RETRY_MS));
        match what {
            For::Heartbeat => self.heartbeat_at = self.heartbeat_at.min(again),
            For::Split(id) => {
                if let Some(task) = self.tasks.get_mut(id) {
                    task.asking = false;
                    task.next_at = again;
                }
            }
            For::Update(_) => self.report_at = again,
            For::Other => {}
        }
    }

    /// When it has something to report, and may.
    fn reports_at(&self) -> Time {
        let reports = self.calls.all().any(|what| matches!(what, For::Update(_)));
        match self.ended.is_empty() || reports {
            true => Time::NEVER,
            false => self.report_at,
        }
    }

    fn reborn(&mut self, now: Time, fresh: bool) {
        if self.uid != UID_OF_ANY_PROCESS {
            self.uid = self.uid.saturating_add(1);
        }
        if fresh {
            self.life = self.life.saturating_add(1);
            self.address = address(self.number, self.life);
        }
        self.tasks.clear();
        self.ended.clear();
        self.calls.clear();
        self.heartbeat_at = now;
        self.is_registered = false;
    }

    fn tell(&self, read: &Read, with: &With<'_>) -> ReadAnswer {
        match (self.tasks.get(&read.task), read.split, &with.swarm.reading) {
            (Some(task), Some(wanted), Some(shape)) if task.is_served() => {
                record_bytes::answer(shape, wanted)
            }
            (Some(_), None, _) => ReadAnswer::Element,
            _ => ReadAnswer::NoTask,
        }
    }
}

fn rest(now: Time, task: &Running, with: &With<'_>) -> Time {
    match task.is_endless() {
        true => Time::NEVER,
        false => now.after(ms(pause_ms(with))),
    }
}

/// When nothing goes wrong any more there is no need to take long.
fn pause_ms(with: &With<'_>) -> u64 {
    match with.calm {
        true => with.swarm.pace.split_ms.min(50),
        false => with.swarm.pace.split_ms,
    }
}

impl Actor for Worker {
    fn role(&self) -> Role {
        Role::Worker
    }

    fn happen(&mut self, now: Time, what: Happening, with: &mut With<'_>) {
        match what {
            Happening::Wake => self.wake(now, with),
            Happening::Answered { token, answer } => self.answered(now, token, answer, with),
            Happening::Pushed(task) => {
                if self.is_registered || self.uid != UID_OF_ANY_PROCESS {
                    self.start(now, &task, with);
                }
                self.wake(now, with);
            }
            Happening::Asked { from, token, read } => {
                with.acts.push(Act::Tell { to: from, token, answer: self.tell(&read, with) });
            }
            Happening::Told { .. } | Happening::Coordinated { .. } | Happening::Element(_) => {}
            Happening::Reborn { fresh } => {
                self.reborn(now, fresh);
                self.wake(now, with);
            }
        }
    }

    fn wake_at(&self) -> Time {
        let tasks = self.tasks.values().filter(|task| !task.asking).map(|task| task.next_at);
        let tasks = tasks.min().unwrap_or(Time::NEVER);
        let beats = self.calls.all().any(|what| *what == For::Heartbeat);
        let heartbeat = if beats { Time::NEVER } else { self.heartbeat_at };
        tasks.min(heartbeat).min(self.reports_at()).min(self.calls.deadline())
    }

    fn got_on_at(&self) -> Time {
        self.got_on_at
    }

    fn state(&self) -> String {
        let Self { tasks, ended, calls, .. } = self;
        format!("runs {:?}, has ended {ended:?}, waits for {calls:?}", tasks.keys())
    }

    fn address(&self) -> Option<Arc<str>> {
        Some(self.address.clone())
    }
}
