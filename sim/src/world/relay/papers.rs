//! Messages as a relay has them: bytes that it does not read, each standing for a request, an answer
//! or what is told beside a refusal.

use bytes::Bytes;
use rondo_core::coordination::{Call, Dialect, Method, Reply, TaskName, Value};
use rondo_core::ids::ServiceIncarnation;
use rondo_core::relay::{Answer, Kind, Refused, Task, Who};
use rondo_core::status::{Code, Detail, Status};
use rondo_proto::convert;

/// What all messages stand for.
#[derive(Debug, Default)]
pub(super) struct Papers {
    calls: Vec<Call>,
    replies: Vec<Reply>,
    details: Vec<Vec<Detail>>,
}

impl Papers {
    /// A request as bytes, about as long as it is on the wire.
    pub(super) fn write_call(&mut self, call: Box<Call>) -> Bytes {
        let long = match &call.method {
            Method::PutKeyValue { key, value: Value::Inline(value), .. } => {
                key.len().saturating_add(value.len())
            }
            _ => 8,
        };
        let bytes = number(self.calls.len(), long);
        self.calls.push(*call);
        bytes
    }

    /// The request that bytes stand for.
    pub(super) fn read_call(&self, bytes: &Bytes) -> Option<Box<Call>> {
        self.calls.get(place(bytes)?).cloned().map(Box::new)
    }

    /// The service's answer as bytes. What relays read of answers is as on the wire.
    pub(super) fn write_answer(&mut self, answer: Result<Reply, Status>) -> Result<Bytes, Refused> {
        match answer {
            Ok(Reply::Registered(life) | Reply::Heartbeat(life)) => {
                Ok(convert::encode_heartbeat_reply(life))
            }
            Ok(reply) => {
                let bytes = number(self.replies.len(), 0);
                self.replies.push(reply);
                Ok(bytes)
            }
            Err(status) if status.details.is_empty() => Err(status.into()),
            Err(status) => {
                let details = number(self.details.len(), 0);
                self.details.push(status.details.clone());
                Err(Refused { details, ..Refused::from(status) })
            }
        }
    }

    /// What a task reads of the answer to a call.
    pub(super) fn read_answer(
        &self,
        method: &Method,
        answer: &Result<Answer, Refused>,
    ) -> Result<Reply, Status> {
        let unread = || Status::new(Code::Internal, "the relay's answer is none");
        match answer {
            Ok(Answer::Heartbeat(life)) => told(method, *life).ok_or_else(unread),
            Ok(Answer::Passed(body)) => {
                let life = kind_of_task(method).and_then(|kind| convert::told_life(&kind, body));
                let told = life.and_then(|life| told(method, life));
                let reply = || place(body).and_then(|place| self.replies.get(place)).cloned();
                told.or_else(reply).ok_or_else(unread)
            }
            Err(refused) => {
                let status = Status::new(refused.code, refused.message.clone());
                let details = place(&refused.details).and_then(|place| self.details.get(place));
                Err(status.with(details.into_iter().flatten().cloned()))
            }
        }
    }
}

fn number(place: usize, more: usize) -> Bytes {
    let mut bytes = (place as u64).to_be_bytes().to_vec();
    bytes.resize(bytes.len().saturating_add(more), 0);
    bytes.into()
}

fn place(bytes: &Bytes) -> Option<usize> {
    let first = bytes.first_chunk::<8>()?;
    usize::try_from(u64::from_be_bytes(*first)).ok()
}

const fn told(method: &Method, life: ServiceIncarnation) -> Option<Reply> {
    match method {
        Method::RegisterTask { .. } => Some(Reply::Registered(life)),
        Method::Heartbeat { .. } => Some(Reply::Heartbeat(life)),
        _ => None,
    }
}

/// A call's path, and what a relay must know of it. What no message says is the product's own table.
pub(super) fn path_and_kind(call: &Call) -> (String, Kind) {
    let name = name_of(&call.method);
    let services = [
        (Dialect::X, convert::SERVICE_X),
        (Dialect::T, convert::SERVICE_T),
        (Dialect::Rondo, convert::SERVICE_RONDO),
    ];
    let own = services.iter().filter(|(dialect, _)| *dialect == call.caller.dialect);
    let mut paths = own.chain(&services).map(|(_, service)| format!("/{service}/{name}"));
    let known = |path: &String| convert::CoordinationMethod::from_path(path).is_some();
    let path = paths.find(known).unwrap_or_default();
    let kind = kind_of_task(&call.method)
        .or_else(|| convert::relayed_kind(&path, &Bytes::new()).ok())
        .unwrap_or(Kind::Again);
    (path, kind)
}

fn kind_of_task(method: &Method) -> Option<Kind> {
    let task =
        |of: &TaskName| Task { job: of.job.clone().unwrap_or_else(|| "".into()), index: of.index };
    Some(match method {
        Method::RegisterTask { task: of, incarnation, .. } => {
            Kind::Register(Who { task: task(of), incarnation: *incarnation })
        }
        Method::Heartbeat { task: of, incarnation } => {
            Kind::Heartbeat(Who { task: task(of), incarnation: *incarnation })
        }
        Method::ShutdownTask { task: of } => Kind::Shutdown(task(of)),
        _ => return None,
    })
}

/// The method's name on the wire.
const fn name_of(method: &Method) -> &'static str {
    match method {
        Method::RegisterTask { .. } => "RegisterTask",
        Method::Heartbeat { .. } => "Heartbeat",
        Method::ShutdownTask { .. } => "ShutdownTask",
        Method::ResetTask { .. } | Method::ResetNamespace => "ResetTask",
        Method::PollForError { .. } => "PollForError",
        Method::ReportErrorToService { .. } => "ReportErrorToService",
        Method::ReportErrorToTask => "ReportErrorToTask",
        Method::GetTaskState { .. } => "GetTaskState",
        Method::GetJobState { .. } => "GetJobState",
        Method::WatchTasks { .. } => "WatchTasks",
        Method::GetAliveTasks { .. } => "GetAliveTasks",
        Method::WaitForAllTasks { .. } => "WaitForAllTasks",
        Method::Barrier { .. } => "Barrier",
        Method::CancelBarrier { .. } => "CancelBarrier",
        Method::PutKeyValue { .. } => "InsertKeyValue",
        Method::GetKeyValue { .. } => "GetKeyValue",
        Method::TryGetKeyValue { .. } => "TryGetKeyValue",
        Method::IncrementKeyValue { .. } => "IncrementKeyValue",
        Method::GetKeyValueDir { .. } => "GetKeyValueDir",
        Method::DeleteKeyValue { .. } => "DeleteKeyValue",
        Method::WatchKeys { .. } => "WatchKeys",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rondo_core::coordination::{Caller, Condition};

    fn call(dialect: Dialect, method: Method) -> Box<Call> {
        let caller = Caller { dialect, ..Caller::default() };
        Box::new(Call { namespace: "n0".into(), caller, method })
    }

    #[test]
    fn what_is_written_is_read() {
        let mut papers = Papers::default();
        let put = |key: &str| Method::PutKeyValue {
            key: key.to_owned(),
            value: Value::Inline("v".into()),
            condition: Condition::Always,
            lease: None,
        };
        let calls = ["a", "b"].map(|key| call(Dialect::T, put(key)));
        let written = calls.clone().map(|call| papers.write_call(call));
        for (bytes, call) in written.iter().zip(&calls) {
            assert_eq!(papers.read_call(bytes).as_ref(), Some(call));
        }
        let life = ServiceIncarnation::new(7);
        let refused = Status::new(Code::NotFound, "no").with([Detail::SERVICE]);
        let task = TaskName::of(1);
        for (method, answer) in [
            (put("a"), Ok(Reply::Reset)),
            (Method::ShutdownTask { task: task.clone() }, Err(refused)),
            (
                Method::Heartbeat { task, incarnation: Default::default() },
                Ok(Reply::Heartbeat(life)),
            ),
        ] {
            let passed = papers.write_answer(answer.clone()).map(Answer::Passed);
            assert_eq!(papers.read_answer(&method, &passed), answer);
        }
    }

    #[test]
    fn every_call_has_a_path_in_some_dialect() {
        for dialect in [Dialect::X, Dialect::T, Dialect::Rondo] {
            let once = Method::IncrementKeyValue { key: "c".to_owned(), increment: 1 };
            let (path, kind) = path_and_kind(&call(dialect, once));
            assert!(path.ends_with("/IncrementKeyValue"), "{path}");
            assert_eq!(kind, Kind::Once { waits: false });
            let watch = Method::WatchKeys { key: String::new(), from: None };
            assert_eq!(path_and_kind(&call(dialect, watch)).1, Kind::Again);
        }
    }
}
