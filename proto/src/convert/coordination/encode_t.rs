//! Answers of `tensorflow.CoordinationService`.

use bytes::Bytes;
use prost::Message;
use rondo_core::coordination::{KeyEntry, Reply, TaskInfo, Value};
use rondo_core::ids::{Incarnation, TaskIndex};

use super::CoordinationMethod as M;
use super::names::{error, inline, state};
use crate::tf as wire;

/// Encodes `reply` as the answer of `method`.
pub(super) fn encode(method: M, echo: String, job: &str, reply: Reply) -> Option<Vec<u8>> {
    Some(match (method, reply) {
        (M::RegisterTask, Reply::Registered(life)) => {
            wire::RegisterTaskResponse { leader_incarnation: life.get() }.encode_to_vec()
        }
        (M::Heartbeat, Reply::Heartbeat(life)) => {
            wire::HeartbeatResponse { leader_incarnation: life.get() }.encode_to_vec()
        }
        (M::WaitForAllTasks, Reply::Devices(devices)) => {
            wire::WaitForAllTasksResponse { leader_incarnation: 0, device_info: joined(&devices) }
                .encode_to_vec()
        }
        (M::GetTaskState, Reply::TaskStates(tasks)) => {
            wire::GetTaskStateResponse { task_state: infos(&tasks, job) }.encode_to_vec()
        }
        (M::GetJobState, Reply::TaskStates(tasks)) => {
            wire::GetJobStateResponse { task_state: infos(&tasks, job) }.encode_to_vec()
        }
        (M::WatchJobState, Reply::Tasks { tasks, version }) => {
            wire::WatchJobStateResponse { task_state: infos(&tasks, job), version_number: version }
                .encode_to_vec()
        }
        (M::GetAliveTasks, Reply::Alive(tasks)) => alive(&tasks, job),
        (M::Barrier, Reply::BarrierPassed { counter }) => {
            wire::BarrierResponse { counter }.encode_to_vec()
        }
        (M::GetKeyValue | M::TryGetKeyValue | M::IncrementKeyValue, Reply::Value { value, .. }) => {
            // The three responses have the same fields.
            wire::GetKeyValueResponse { kv: Some(entry(echo, value)?) }.encode_to_vec()
        }
        (M::GetKeyValueDir, Reply::Directory(entries)) => directory(&entries)?,
        (M::ShutdownTask, Reply::ShutDown)
        | (M::ResetTask, Reply::Reset)
        | (M::ReportErrorToService, Reply::ErrorReported)
        | (M::InsertKeyValue, Reply::Put { .. })
        | (M::DeleteKeyValue, Reply::Deleted { .. })
        | (M::CancelBarrier, Reply::BarrierCancelled) => Vec::new(),
        _ => return None,
    })
}

/// Devices of all tasks as one message: repeated fields of concatenated messages add up.
fn joined(devices: &[Bytes]) -> Bytes {
    match devices {
        [only] => only.clone(),
        several => several.concat().into(),
    }
}

fn named(task: TaskIndex, job: &str) -> wire::CoordinatedTask {
    wire::CoordinatedTask { job_name: job.to_owned(), task_id: task.get(), recoverable: false }
}

fn infos(tasks: &[TaskInfo], job: &str) -> Vec<wire::CoordinatedTaskStateInfo> {
    let info = |task: &TaskInfo| {
        let (error_code, error_message) = error(task);
        wire::CoordinatedTaskStateInfo {
            task: Some(named(task.index, job)),
            state: state(task.state),
            error_code,
            error_message,
            error_payload: task.fault.as_ref().map(|fault| wire::CoordinationServiceError {
                is_reported_error: fault.reported,
                source_task: Some(named(task.index, job)),
            }),
            incarnation: task.incarnation.get(),
        }
    };
    tasks.iter().map(info).collect()
}

fn alive(tasks: &[(TaskIndex, Incarnation)], job: &str) -> Vec<u8> {
    let response = wire::GetAliveTasksResponse {
        alive_tasks: tasks.iter().map(|(task, _)| named(*task, job)).collect(),
        incarnations: tasks.iter().map(|(_, incarnation)| incarnation.get()).collect(),
    };
    response.encode_to_vec()
}

fn entry(key: String, value: Value) -> Option<wire::KeyValueEntry> {
    Some(wire::KeyValueEntry { key, value: inline(value)? })
}

fn directory(entries: &[KeyEntry]) -> Option<Vec<u8>> {
    let entries = entries.iter().map(|found| entry(found.key.to_string(), found.value.clone()));
    let kv = entries.collect::<Option<_>>()?;
    Some(wire::GetKeyValueDirResponse { directory_key: String::new(), kv }.encode_to_vec())
}
