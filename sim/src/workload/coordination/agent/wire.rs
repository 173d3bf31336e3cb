//! Requests and answers of an agent as the service knows them.

use std::sync::Arc;

use bytes::Bytes;
use rondo_core::agent::{KeyChange, Reply as Told, Request};
use rondo_core::coordination::{
    Change, ChangeKind, Condition, KeyEntry, Method, Reply, TaskName, Value,
};
use rondo_core::ids::Revision;
use rondo_core::status::{Code, Detail, Status};

use super::AgentTask;
use crate::workload::agents::{AgentCall, Ended};

/// Statuses that links break with: of gRPC's own mapping, and of servers and gateways that go.
pub(super) const LINK_CODES: [Code; 6] = [
    Code::Unavailable,
    Code::Unknown,
    Code::Cancelled,
    Code::Internal,
    Code::DeadlineExceeded,
    Code::Aborted,
];

impl AgentTask {
    pub(super) fn method(&self, request: Request) -> Method {
        let name = TaskName { index: self.task(), job: None };
        let incarnation = self.incarnation();
        match request {
            Request::Register => Method::RegisterTask {
                task: name,
                incarnation,
                recoverable: self.shape.recoverable,
                tasks: self.shape.said.then_some(self.shape.tasks),
            },
            Request::Heartbeat => Method::Heartbeat { task: name, incarnation },
            Request::PollForError => Method::PollForError { task: name },
            Request::ReportError { message, .. } => {
                Method::ReportErrorToService { task: name, code: 13, message }
            }
            Request::Reset => Method::ResetTask { task: name },
            Request::Shutdown => Method::ShutdownTask { task: name },
            Request::Barrier { id, counter, timeout, tasks } => {
                let tasks = tasks.iter().map(|task| TaskName::of(task.get())).collect();
                let timeout_ms = i64::try_from(timeout.as_millis()).unwrap_or(0);
                Method::Barrier { id, counter, timeout_ms, tasks, source: name }
            }
            Request::CancelBarrier { id, counter } => Method::CancelBarrier { id, counter },
            Request::Get { key } => Method::GetKeyValue { key },
            Request::TryGet { key } => Method::TryGetKeyValue { key },
            Request::Put { key, value, leased, .. } => {
                let (value, condition) = (Value::Inline(value), Condition::Always);
                let lease = leased.then(|| self.task());
                Method::PutKeyValue { key, value, condition, lease }
            }
            Request::Delete { key } => Method::DeleteKeyValue { key },
            Request::Watch { key, from } => Method::WatchKeys { key: key.to_string(), from },
            _ => Method::GetTaskState { tasks: vec![name] },
        }
    }
}

/// What an agent calls the service for.
pub(super) fn purpose(request: &Request) -> AgentCall {
    match request {
        Request::Register => AgentCall::Register,
        Request::Heartbeat => AgentCall::Heartbeat,
        Request::PollForError => AgentCall::Poll,
        Request::Watch { key, .. } => AgentCall::Watch(key.clone()),
        _ => AgentCall::Application,
    }
}

/// How a call has ended: the service's own refusals say that they are its own.
pub(super) fn ended(result: &Result<Told, Status>) -> Ended {
    match result {
        Ok(Told::Life(life)) => Ended::Well(Some(*life)),
        Ok(_) => Ended::Well(None),
        Err(status) => {
            let of_service = |it: &Detail| matches!(it, Detail::CoordinationService { .. });
            match status.details.iter().any(of_service) {
                true => Ended::Refused(status.code),
                false => Ended::Lost(status.code),
            }
        }
    }
}

/// An answer of the service as an agent reads it.
pub(super) fn read(reply: Reply) -> Told {
    match reply {
        Reply::Registered(life) | Reply::Heartbeat(life) => Told::Life(life),
        Reply::BarrierPassed { counter } => Told::Barrier { counter },
        Reply::Put { revision } => Told::Put(revision),
        Reply::Value { value: Value::Inline(value), .. } => Told::Value(value),
        Reply::Keys { entries, upto } => {
            let changes = entries.into_iter().map(|KeyEntry { key, value, revision }| {
                changed(key, revision, Some(value), false)
            });
            Told::Changes { whole: true, changes: changes.collect(), upto }
        }
        Reply::Changes { changes, upto } => {
            let changes = changes.into_iter().map(|Change { key, kind, revision }| match kind {
                ChangeKind::Put(value) => changed(key, revision, Some(value), false),
                ChangeKind::Deleted => changed(key, revision, None, false),
                ChangeKind::DeletedWithAllUnder => changed(key, revision, None, true),
            });
            Told::Changes { whole: false, changes: changes.collect(), upto }
        }
        _ => Told::Done,
    }
}

fn changed(
    key: Arc<str>,
    revision: Revision,
    value: Option<Value>,
    with_all_under: bool,
) -> KeyChange {
    let value = value.map(|value| match value {
        Value::Inline(value) => value,
        Value::Blob { .. } => Bytes::new(),
    });
    KeyChange { key, revision, value, with_all_under }
}
