//! Answers to the agent.

use bytes::Bytes;
use prost::Message;
use rondo_core::agent::{JobStatus, KeyChange, Reply, Request, State, TaskStatus};
use rondo_core::ids::{Incarnation, Revision, ServiceIncarnation, TaskIndex};
use rondo_core::status::{Code, Status};

use crate::{admin, tf};
use admin::key_change::Kind;

/// Decodes `DeviceInfo` into devices, each an encoded `google.protobuf.Any`.
///
/// # Errors
/// INTERNAL for malformed bytes.
pub fn decode_devices(bytes: &Bytes) -> Result<Vec<Bytes>, Status> {
    Ok(message::<tf::DeviceInfo>("DeviceInfo", bytes)?.device)
}

/// Decodes the answer to a request.
///
/// # Errors
/// INTERNAL for malformed bytes, and for an answer that lacks what was asked for.
pub fn decode_agent_reply(request: &Request, bytes: &Bytes) -> Result<Reply, Status> {
    Ok(match request {
        Request::Register | Request::Heartbeat => {
            // Both answers have the same field.
            let answer: tf::HeartbeatResponse = message("HeartbeatResponse", bytes)?;
            Reply::Life(ServiceIncarnation::new(answer.leader_incarnation))
        }
        Request::WaitForAllTasks { .. } => {
            let answer: tf::WaitForAllTasksResponse = message("WaitForAllTasksResponse", bytes)?;
            Reply::Devices(answer.device_info)
        }
        Request::Barrier { .. } => {
            let answer: tf::BarrierResponse = message("BarrierResponse", bytes)?;
            Reply::Barrier { counter: answer.counter }
        }
        Request::TaskStatus { .. } => task(bytes)?,
        Request::WatchJob { .. } => job(bytes)?,
        Request::AliveTasks { .. } => alive(bytes)?,
        Request::Get { .. } | Request::TryGet { .. } | Request::Increment { .. } => {
            // The three answers have the same field.
            let answer: tf::GetKeyValueResponse = message("GetKeyValueResponse", bytes)?;
            let entry = answer.kv.ok_or_else(|| malformed("GetKeyValueResponse", "no kv"))?;
            Reply::Value(entry.value)
        }
        Request::Directory { .. } => {
            let answer: tf::GetKeyValueDirResponse = message("GetKeyValueDirResponse", bytes)?;
            let entries = answer.kv.into_iter().map(|entry| (entry.key, entry.value));
            Reply::Entries(entries.collect())
        }
        Request::Put { .. } => {
            let answer: admin::PutKeyResponse = message("PutKeyResponse", bytes)?;
            Reply::Put(Revision::new(answer.revision))
        }
        Request::Watch { .. } => changes(bytes)?,
        Request::PollForError
        | Request::ReportError { .. }
        | Request::Reset
        | Request::Shutdown
        | Request::CancelBarrier { .. }
        | Request::Insert { .. }
        | Request::Delete { .. } => Reply::Done,
    })
}

fn message<M: Message + Default>(name: &str, bytes: &Bytes) -> Result<M, Status> {
    M::decode(bytes.clone()).map_err(|error| malformed(name, &error.to_string()))
}

fn malformed(name: &str, what: &str) -> Status {
    Status::new(Code::Internal, format!("the server's {name} is malformed: {what}"))
}

fn task(bytes: &Bytes) -> Result<Reply, Status> {
    const NAME: &str = "GetTaskStateResponse";
    let answer: tf::GetTaskStateResponse = message(NAME, bytes)?;
    let found = answer.task_state.into_iter().next();
    let found = found.ok_or_else(|| malformed(NAME, "no task_state"))?;
    status_of(NAME, found).map(Reply::Task)
}

fn job(bytes: &Bytes) -> Result<Reply, Status> {
    const NAME: &str = "WatchJobStateResponse";
    let answer: tf::WatchJobStateResponse = message(NAME, bytes)?;
    let tasks = answer.task_state.into_iter().map(|info| {
        let index = info.task.as_ref().map(|task| TaskIndex::new(task.task_id));
        let index = index.ok_or_else(|| malformed(NAME, "a task_state without its task"))?;
        Ok((index, status_of(NAME, info)?))
    });
    let tasks = tasks.collect::<Result<_, Status>>()?;
    Ok(Reply::Job(JobStatus { tasks, version: answer.version_number }))
}

fn status_of(name: &str, info: tf::CoordinatedTaskStateInfo) -> Result<TaskStatus, Status> {
    let state = state_of(info.state).ok_or_else(|| {
        let what = format!("state is {}, not 1 to 4", info.state);
        malformed(name, &what)
    })?;
    let in_error = state == State::Error;
    // A code that nobody knows is an error nevertheless.
    let code = Code::of_number(info.error_code).unwrap_or(Code::Unknown);
    let error = in_error.then(|| Status::new(code, info.error_message));
    Ok(TaskStatus { state, error })
}

const fn state_of(number: i32) -> Option<State> {
    Some(match number {
        1 => State::Uninitialized,
        2 => State::Disconnected,
        3 => State::Running,
        4 => State::Error,
        _ => return None,
    })
}

fn alive(bytes: &Bytes) -> Result<Reply, Status> {
    const NAME: &str = "GetAliveTasksResponse";
    let answer: tf::GetAliveTasksResponse = message(NAME, bytes)?;
    if answer.alive_tasks.len() != answer.incarnations.len() {
        let (tasks, lives) = (answer.alive_tasks.len(), answer.incarnations.len());
        return Err(malformed(NAME, &format!("{tasks} alive_tasks, {lives} incarnations")));
    }
    let tasks = answer.alive_tasks.into_iter().map(|task| TaskIndex::new(task.task_id));
    let incarnations = answer.incarnations.into_iter().map(Incarnation::new);
    Ok(Reply::Alive(tasks.zip(incarnations).collect()))
}

fn changes(bytes: &Bytes) -> Result<Reply, Status> {
    const NAME: &str = "WatchKeysResponse";
    let answer: admin::WatchKeysResponse = message(NAME, bytes)?;
    let changes = answer.changes.into_iter().map(|change| {
        let (value, with_all_under) = match change.kind {
            Some(Kind::Put(value)) => (Some(value), false),
            Some(Kind::Deleted(gone)) => (None, gone.with_all_under),
            None => return Err(malformed(NAME, "a change of no kind")),
        };
        let (key, revision) = (change.key.into(), Revision::new(change.revision));
        Ok(KeyChange { key, revision, value, with_all_under })
    });
    Ok(Reply::Changes {
        whole: answer.is_whole,
        changes: changes.collect::<Result<_, _>>()?,
        upto: Revision::new(answer.upto),
    })
}
