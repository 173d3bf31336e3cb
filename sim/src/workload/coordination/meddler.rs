//! A client that keeps to no rules: it speaks for tasks that are not there or are others, in incarnations
//! of the past, at barriers of the future, in namespaces of nobody.

use std::sync::Arc;

use rondo_core::coordination::{Call, Caller, Condition, Dialect, Method, TaskName, Value};
use rondo_core::ids::{Incarnation, Revision, ServiceIncarnation};
use rondo_core::time::Time;

use super::task::ms;
use super::{namespace_of, some_barrier, some_key, some_namespace};
use crate::fault::Fault;
use crate::workload::actor::{Act, Actor, Happening, Role, With};
use crate::workload::outstanding::Outstanding;

/// A key that is too long for a service.
const HUGE_BYTES: usize = 5000;

/// A client that misbehaves.
#[derive(Clone, Debug)]
pub struct Meddler {
    number: u32,
    at: Time,
    calls: Outstanding<()>,
    written: u64,
}

impl Meddler {
    /// The one of this number.
    pub const fn new(number: u32) -> Self {
        Self { number, at: Time::ZERO, calls: Outstanding::new(1), written: 0 }
    }

    fn act(&mut self, now: Time, with: &mut With<'_>) {
        let Some((job, shape)) = some_namespace(with) else {
            return;
        };
        let bound = u64::from(shape.tasks).saturating_add(2);
        let index = i32::try_from(with.stream.below(bound)).unwrap_or(0).saturating_sub(1);
        let namespace: Arc<str> = match with.stream.chance(50) {
            true => "nobody".into(),
            false => namespace_of(job),
        };
        let method = self.method(TaskName::of(index), with);
        with.tally.fault(Fault::StaleRequest);
        let dialect = with.stream.pick(&[Dialect::T, Dialect::X, Dialect::Rondo]);
        let life = with.stream.chance(300).then(|| ServiceIncarnation::new(with.stream.below(9)));
        let caller =
            Caller { dialect: dialect.copied().unwrap_or_default(), life, ..Caller::default() };
        let token = self.calls.add(now.after(ms(with.swarm.net.patience_ms)), ());
        let call = Call { namespace, caller, method };
        with.acts.push(Act::Coordinate { token, call: Box::new(call) });
    }

    fn method(&mut self, task: TaskName, with: &mut With<'_>) -> Method {
        let keys = with.swarm.coordination.as_ref().map_or(1, |shape| shape.keys);
        let barriers = with.swarm.coordination.as_ref().map_or(1, |shape| shape.barriers);
        let s = &mut *with.stream;
        let huge = s.chance(50);
        let key = if huge { "h".repeat(HUGE_BYTES) } else { some_key(keys, s) };
        let incarnation = Incarnation::new(s.below(4));
        match s.below(24) {
            0 => Method::Heartbeat { task, incarnation },
            1 if s.chance(200) => {
                Method::RegisterTask { task, incarnation, recoverable: false, tasks: Some(77) }
            }
            2..=4 => self.put(key),
            5 => Method::IncrementKeyValue { key: "c/0".to_owned(), increment: i64::MAX },
            6 => Method::WatchKeys { key, from: Some(Revision::new(1 << 40)) },
            7 => Method::WatchTasks { version: 1 << 40 },
            8 => Method::GetTaskState { tasks: vec![task] },
            9 => Method::GetAliveTasks { requester: task, tasks: Vec::new() },
            10 => {
                let (id, counter) = (some_barrier(barriers, s), 7);
                Method::Barrier {
                    id,
                    counter,
                    timeout_ms: 1000,
                    tasks: vec![task.clone()],
                    source: task,
                }
            }
            11 => {
                let tasks = vec![task.clone(), task.clone()];
                let id = some_barrier(barriers, s);
                Method::Barrier { id, counter: 0, timeout_ms: -1, tasks, source: task }
            }
            12 => Method::CancelBarrier { id: some_barrier(barriers, s), counter: 3 },
            13 if s.chance(100) => {
                Method::ReportErrorToService { task, code: 99, message: "no code".to_owned() }
            }
            14 => Method::ReportErrorToTask,
            15 if s.chance(100) => Method::ShutdownTask { task },
            16 if s.chance(100) => Method::ResetTask { task },
            17 => Method::PollForError { task: TaskName::of(-1) },
            18 => Method::WaitForAllTasks { task: TaskName::of(99), devices: vec![1].into() },
            19 => Method::DeleteKeyValue { key: String::new() },
            20 => Method::GetKeyValueDir { directory: String::new() },
            21 => Method::GetKeyValue { key },
            _ => Method::TryGetKeyValue { key },
        }
    }

    fn put(&mut self, key: String) -> Method {
        self.written = self.written.saturating_add(1);
        let value = format!("m{}.{}", self.number, self.written);
        Method::PutKeyValue {
            key,
            value: Value::Inline(value.into_bytes().into()),
            condition: Condition::Absent,
            lease: None,
        }
    }
}

impl Actor for Meddler {
    fn role(&self) -> Role {
        Role::Rogue
    }

    fn happen(&mut self, now: Time, what: Happening, with: &mut With<'_>) {
        match what {
            Happening::Wake | Happening::Reborn { .. } => {
                self.calls.give_up_overdue(now, with.acts);
                if now >= self.at {
                    let mean = with.swarm.pace.act_ms;
                    self.at = now.after(ms(mean / 2 + with.stream.exponential(mean) + 1));
                    if !with.calm {
                        self.act(now, with);
                    }
                }
            }
            Happening::Coordinated { token, .. } => drop(self.calls.take(token)),
            Happening::Answered { .. }
            | Happening::Pushed(_)
            | Happening::Asked { .. }
            | Happening::Told { .. }
            | Happening::Element(_) => {}
        }
    }

    fn wake_at(&self) -> Time {
        self.at.min(self.calls.deadline())
    }

    fn state(&self) -> String {
        format!("meddler {} waits for {:?}", self.number, self.calls)
    }
}
