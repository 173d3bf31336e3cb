//! Short words for what tasks do.

use rondo_core::coordination::{
    Call, Caller, Condition, Dialect, Method, Reply, Request, Stamp, TaskName, Value,
};
use rondo_core::ids::{CallId, Incarnation, RelayId, Revision, ServiceIncarnation, TaskIndex};
use rondo_core::status::{Code, Detail, Status};

use crate::driver::{Answer, Driver};

pub(crate) const NO_TASKS: &[i32] = &[];

pub(crate) fn call(caller: Caller, method: Method) -> Request {
    Request::Call(Box::new(Call { namespace: "default".into(), caller, method }))
}

/// A request of nobody in particular.
pub(crate) fn of(method: Method) -> Request {
    call(Caller::default(), method)
}

/// A call in the namespace "other".
pub(crate) fn elsewhere(method: Method) -> Request {
    let caller = Caller::default();
    Request::Call(Box::new(Call { namespace: "other".into(), caller, method }))
}

/// A request in dialect T.
pub(crate) fn in_t(method: Method) -> Request {
    call(Caller { dialect: Dialect::T, ..Caller::default() }, method)
}

/// A request in dialect X, for a life.
pub(crate) fn in_life(life: ServiceIncarnation, method: Method) -> Request {
    call(Caller { life: Some(life), ..Caller::default() }, method)
}

/// A request through relay 7.
pub(crate) fn relayed(sequence: u64, acknowledged: u64, method: Method) -> Request {
    let stamp = Some(Stamp { relay: RelayId::new(7), sequence, acknowledged });
    call(Caller { stamp, ..Caller::default() }, method)
}

pub(crate) fn task(index: i32) -> TaskName {
    TaskName::of(index)
}

/// A task as dialect T names it.
pub(crate) fn task_of(job: &str, index: i32) -> TaskName {
    TaskName { job: Some(job.into()), index: TaskIndex::new(index) }
}

pub(crate) fn register(index: i32, incarnation: u64) -> Method {
    let incarnation = Incarnation::new(incarnation);
    Method::RegisterTask { task: task(index), incarnation, recoverable: false, tasks: None }
}

pub(crate) fn beat(index: i32, incarnation: u64) -> Method {
    Method::Heartbeat { task: task(index), incarnation: Incarnation::new(incarnation) }
}

pub(crate) fn shutdown(index: i32) -> Method {
    Method::ShutdownTask { task: task(index) }
}

pub(crate) fn poll(index: i32) -> Method {
    Method::PollForError { task: task(index) }
}

pub(crate) fn barrier(id: &str, counter: i64, index: i32, tasks: &[i32]) -> Method {
    barrier_for(id, counter, index, tasks, 5_000)
}

pub(crate) fn barrier_for(
    id: &str,
    counter: i64,
    index: i32,
    tasks: &[i32],
    timeout_ms: i64,
) -> Method {
    let tasks = tasks.iter().copied().map(task).collect();
    Method::Barrier { id: id.into(), counter, timeout_ms, tasks, source: task(index) }
}

pub(crate) fn cancel_barrier(id: &str, counter: i64) -> Method {
    Method::CancelBarrier { id: id.into(), counter }
}

pub(crate) fn put(key: &str, value: &'static str, condition: Condition) -> Method {
    Method::PutKeyValue { key: key.into(), value: value.into(), condition, lease: None }
}

pub(crate) fn insert(key: &str, value: &'static str) -> Method {
    put(key, value, Condition::Absent)
}

pub(crate) fn overwrite(key: &str, value: &'static str) -> Method {
    put(key, value, Condition::Always)
}

pub(crate) fn leased(key: &str, value: &'static str, index: i32) -> Method {
    let lease = Some(TaskIndex::new(index));
    Method::PutKeyValue {
        key: key.into(),
        value: value.into(),
        condition: Condition::Always,
        lease,
    }
}

pub(crate) fn get(key: &str) -> Method {
    Method::GetKeyValue { key: key.into() }
}

pub(crate) fn try_get(key: &str) -> Method {
    Method::TryGetKeyValue { key: key.into() }
}

pub(crate) fn increment(key: &str, increment: i64) -> Method {
    Method::IncrementKeyValue { key: key.into(), increment }
}

pub(crate) fn delete(key: &str) -> Method {
    Method::DeleteKeyValue { key: key.into() }
}

pub(crate) fn watch(key: &str, from: Option<u64>) -> Method {
    Method::WatchKeys { key: key.into(), from: from.map(Revision::new) }
}

pub(crate) fn alive(index: i32, tasks: &[i32]) -> Method {
    let tasks = tasks.iter().copied().map(task).collect();
    Method::GetAliveTasks { requester: task(index), tasks }
}

/// The incarnation of a task in its first run.
pub(crate) fn first(index: i32) -> u64 {
    100 + u64::try_from(index).unwrap()
}

#[track_caller]
pub(crate) fn text_of(answer: Option<Answer>, code: Code) -> String {
    let status = refusal_of(answer);
    assert_eq!(status.code, code, "{status}");
    status.message
}

#[track_caller]
pub(crate) fn refusal_of(answer: Option<Answer>) -> Status {
    answer.expect("an answer").expect_err("a refusal")
}

/// The instance that a barrier's error names.
pub(crate) fn counter_of(status: &Status) -> Option<i64> {
    status.details.iter().find_map(|detail| match detail {
        Detail::Barrier { counter, .. } => Some(*counter),
        _ => None,
    })
}

pub(crate) fn passed(counter: i64) -> Option<Answer> {
    Some(Ok(Reply::BarrierPassed { counter }))
}

impl Driver {
    #[track_caller]
    pub(crate) fn tell(&mut self, method: Method) -> Answer {
        self.ask(of(method))
    }

    #[track_caller]
    pub(crate) fn start_call(&mut self, method: Method) -> CallId {
        self.send(of(method))
    }

    #[track_caller]
    pub(crate) fn refused(&mut self, method: Method, code: Code) -> Status {
        let status = self.tell(method).expect_err("a refusal");
        assert_eq!(status.code, code, "{status}");
        status
    }

    /// All tasks register, in their first run; names the life.
    #[track_caller]
    pub(crate) fn register_all(&mut self, tasks: i32) -> ServiceIncarnation {
        self.register_as(tasks, 0)
    }

    /// The same in a later run of all processes.
    #[track_caller]
    pub(crate) fn register_as(&mut self, tasks: i32, run: u64) -> ServiceIncarnation {
        let calls: Vec<_> =
            (0..tasks).map(|index| self.start_call(register(index, first(index) + run))).collect();
        let lives: Vec<_> = calls.into_iter().map(|call| self.take(call)).collect();
        match lives.first() {
            Some(Some(Ok(Reply::Registered(life)))) => {
                assert!(lives.iter().all(|other| *other == Some(Ok(Reply::Registered(*life)))));
                *life
            }
            other => panic!("{other:?}"),
        }
    }

    /// Time passes, and these tasks beat often enough.
    #[track_caller]
    pub(crate) fn advance_beating(&mut self, seconds: u64, tasks: &[i32]) {
        for _ in 0..seconds {
            self.advance(crate::driver::seconds(1));
            for index in tasks {
                // One that is in error, or has left, may be refused.
                let _ = self.tell(beat(*index, first(*index)));
            }
        }
    }

    #[track_caller]
    pub(crate) fn value(&mut self, key: &str) -> Option<Value> {
        match self.tell(try_get(key)) {
            Ok(Reply::Value { value, .. }) => Some(value),
            Err(status) if status.code == Code::NotFound => None,
            other => panic!("{other:?}"),
        }
    }
}
