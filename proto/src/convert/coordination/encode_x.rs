//! Answers of `xla.coordination.CoordinationService`.

use prost::Message;
use rondo_core::coordination::{KeyEntry, Reply, TaskInfo, Value};
use rondo_core::ids::{Incarnation, TaskIndex};

use super::CoordinationMethod as M;
use super::names::{error, inline, state};
use crate::xla as wire;

/// Encodes `reply` as the answer of `method`.
pub(super) fn encode(method: M, echo: String, reply: Reply) -> Option<Vec<u8>> {
    Some(match (method, reply) {
        (M::RegisterTask, Reply::Registered(life)) => {
            wire::RegisterTaskResponse { service_incarnation: life.get() }.encode_to_vec()
        }
        (M::Heartbeat, Reply::Heartbeat(life)) => {
            wire::HeartbeatResponse { service_incarnation: life.get() }.encode_to_vec()
        }
        (M::WatchTasks, Reply::Tasks { tasks, version }) => {
            let task_state = tasks.iter().map(info).collect();
            wire::WatchTasksResponse { task_state, version_number: version }.encode_to_vec()
        }
        (M::GetAliveTasks, Reply::Alive(tasks)) => alive(&tasks),
        (M::Barrier, Reply::BarrierPassed { counter }) => {
            wire::BarrierResponse { counter }.encode_to_vec()
        }
        (M::GetKeyValue | M::TryGetKeyValue | M::IncrementKeyValue, Reply::Value { value, .. }) => {
            // The three responses have the same fields.
            wire::GetKeyValueResponse { kv: Some(entry(echo, value)?) }.encode_to_vec()
        }
        (M::GetKeyValueDir, Reply::Directory(entries)) => directory(&entries)?,
        (M::ShutdownTask, Reply::ShutDown)
        | (M::ReportErrorToService, Reply::ErrorReported)
        | (M::InsertKeyValue, Reply::Put { .. })
        | (M::DeleteKeyValue, Reply::Deleted { .. })
        | (M::CancelBarrier, Reply::BarrierCancelled) => Vec::new(),
        _ => return None,
    })
}

fn info(task: &TaskInfo) -> wire::TaskInfo {
    let (error_code, error_message) = error(task);
    wire::TaskInfo {
        task_id: task.index.get(),
        state: state(task.state),
        error_code,
        error_message,
        error_payload: task.fault.as_ref().map(|fault| wire::CoordinationServiceError {
            is_reported_error: fault.reported,
            source_task_id: task.index.get(),
        }),
        incarnation: task.incarnation.get(),
    }
}

fn alive(tasks: &[(TaskIndex, Incarnation)]) -> Vec<u8> {
    let response = wire::GetAliveTasksResponse {
        alive_task_ids: tasks.iter().map(|(task, _)| task.get()).collect(),
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
