//! Requests of the agent.

use bytes::Bytes;
use prost::Message;
use rondo_core::agent::{Config, PutCondition, Request};
use rondo_core::ids::{Revision, ServiceIncarnation, TaskIndex};
use rondo_core::time::Duration;

use crate::{admin, tf};

/// The paths of dialect T.
macro_rules! t {
    ($method:literal) => {
        concat!("/tensorflow.CoordinationService/", $method)
    };
}

/// The paths of our own service.
macro_rules! rondo {
    ($method:literal) => {
        concat!("/rondo.v1.Coordination/", $method)
    };
}

/// Encodes a list of devices, each an encoded `google.protobuf.Any`, as `DeviceInfo`.
pub fn encode_devices(devices: &[Bytes]) -> Bytes {
    encoded(&tf::DeviceInfo { device: devices.to_vec() })
}

/// The path and the message of a request by the task of these settings, which registered in this
/// life of its namespace, if it did.
pub fn encode_agent_request(
    config: &Config,
    life: Option<ServiceIncarnation>,
    request: &Request,
) -> (&'static str, Bytes) {
    match request {
        Request::Register
        | Request::Heartbeat
        | Request::PollForError
        | Request::WaitForAllTasks { .. }
        | Request::ReportError { .. }
        | Request::Reset
        | Request::Shutdown => of_task(config, request),
        Request::Barrier { .. }
        | Request::CancelBarrier { .. }
        | Request::TaskStatus { .. }
        | Request::WatchJob { .. }
        | Request::AliveTasks { .. } => of_others(config, request),
        Request::Put { .. } | Request::Watch { .. } => of_rondo(config, life, request),
        Request::Get { .. }
        | Request::TryGet { .. }
        | Request::Insert { .. }
        | Request::Delete { .. }
        | Request::Increment { .. }
        | Request::Directory { .. } => of_keys(request),
    }
}

fn encoded(message: &impl Message) -> Bytes {
    message.encode_to_vec().into()
}

fn own(config: &Config) -> Option<tf::CoordinatedTask> {
    Some(tf::CoordinatedTask { recoverable: config.recoverable, ..named(config, config.task) })
}

fn named(config: &Config, task: TaskIndex) -> tf::CoordinatedTask {
    tf::CoordinatedTask {
        job_name: config.job.to_string(),
        task_id: task.get(),
        recoverable: false,
    }
}

fn all_named(config: &Config, tasks: &[TaskIndex]) -> Vec<tf::CoordinatedTask> {
    tasks.iter().map(|task| named(config, *task)).collect()
}

/// What the task says of itself.
fn of_task(config: &Config, request: &Request) -> (&'static str, Bytes) {
    let (incarnation, source_task) = (config.incarnation.get(), own(config));
    match request {
        Request::Register => {
            (t!("RegisterTask"), encoded(&tf::RegisterTaskRequest { incarnation, source_task }))
        }
        Request::Heartbeat => {
            (t!("Heartbeat"), encoded(&tf::HeartbeatRequest { incarnation, source_task }))
        }
        Request::WaitForAllTasks { devices } => {
            let device_info = devices.clone();
            let request = tf::WaitForAllTasksRequest { source_task, device_info };
            (t!("WaitForAllTasks"), encoded(&request))
        }
        Request::ReportError { code, message } => {
            let request = tf::ReportErrorToServiceRequest {
                error_code: code.number(),
                error_message: message.clone(),
                error_origin: source_task,
            };
            (t!("ReportErrorToService"), encoded(&request))
        }
        Request::Reset => (t!("ResetTask"), encoded(&tf::ResetTaskRequest { source_task })),
        Request::Shutdown => {
            (t!("ShutdownTask"), encoded(&tf::ShutdownTaskRequest { source_task }))
        }
        _ => (t!("PollForError"), encoded(&tf::PollForErrorRequest { source_task })),
    }
}

/// What concerns other tasks too.
fn of_others(config: &Config, request: &Request) -> (&'static str, Bytes) {
    match request {
        Request::Barrier { id, counter, timeout, tasks } => {
            let request = tf::BarrierRequest {
                barrier_id: id.to_string(),
                barrier_timeout_in_ms: millis(*timeout),
                tasks: all_named(config, tasks),
                source_task: own(config),
                counter: *counter,
            };
            (t!("Barrier"), encoded(&request))
        }
        Request::CancelBarrier { id, counter } => {
            let (barrier_id, counter) = (id.to_string(), *counter);
            let source_task = own(config);
            let request = tf::CancelBarrierRequest { barrier_id, source_task, counter };
            (t!("CancelBarrier"), encoded(&request))
        }
        Request::TaskStatus { job, task } => {
            let job_name = job.to_string();
            let task = tf::CoordinatedTask { job_name, task_id: task.get(), recoverable: false };
            (t!("GetTaskState"), encoded(&tf::GetTaskStateRequest { source_task: vec![task] }))
        }
        Request::AliveTasks { tasks } => {
            let (requesting_task, tasks) = (own(config), all_named(config, tasks));
            (t!("GetAliveTasks"), encoded(&tf::GetAliveTasksRequest { requesting_task, tasks }))
        }
        other => {
            let version_number =
                if let Request::WatchJob { version } = other { *version } else { -1 };
            let job_name = config.job.to_string();
            let request = tf::WatchJobStateRequest { job_name, version_number };
            (t!("WatchJobState"), encoded(&request))
        }
    }
}

/// Milliseconds, rounded up: a barrier must not end before its time.
fn millis(span: Duration) -> i64 {
    i64::try_from(span.as_nanos().div_ceil(1_000_000)).unwrap_or(i64::MAX)
}

/// Keys, as dialect T knows them.
fn of_keys(request: &Request) -> (&'static str, Bytes) {
    match request {
        Request::Get { key } => {
            (t!("GetKeyValue"), encoded(&tf::GetKeyValueRequest { key: key.clone() }))
        }
        Request::Insert { key, value } => {
            let kv = Some(tf::KeyValueEntry { key: key.clone(), value: value.clone() });
            let request = tf::InsertKeyValueRequest { kv, allow_overwrite: false };
            (t!("InsertKeyValue"), encoded(&request))
        }
        Request::Delete { key } => {
            let request = tf::DeleteKeyValueRequest { key: key.clone(), is_directory: true };
            (t!("DeleteKeyValue"), encoded(&request))
        }
        Request::Increment { key, increment } => {
            let (key, increment) = (key.clone(), *increment);
            let request = tf::IncrementKeyValueRequest { key, increment };
            (t!("IncrementKeyValue"), encoded(&request))
        }
        Request::Directory { key } => {
            let request = tf::GetKeyValueDirRequest { directory_key: key.clone() };
            (t!("GetKeyValueDir"), encoded(&request))
        }
        other => {
            let key = if let Request::TryGet { key } = other { key.clone() } else { String::new() };
            (t!("TryGetKeyValue"), encoded(&tf::TryGetKeyValueRequest { key }))
        }
    }
}

/// What dialect T does not have.
fn of_rondo(
    config: &Config,
    life: Option<ServiceIncarnation>,
    request: &Request,
) -> (&'static str, Bytes) {
    let service_incarnation = life.map_or(0, ServiceIncarnation::get);
    match request {
        Request::Put { key, value, condition, leased } => {
            let (condition, revision) = condition_of(*condition);
            let request = admin::PutKeyRequest {
                service_incarnation,
                key: key.clone(),
                value: value.clone(),
                condition: condition.into(),
                revision,
                lease_task_id: leased.then(|| config.task.get()),
            };
            (rondo!("PutKey"), encoded(&request))
        }
        other => {
            let (key, from) = match other {
                Request::Watch { key, from } => (key.to_string(), *from),
                _ => (String::new(), None),
            };
            let from_revision = from.map(Revision::get);
            let request = admin::WatchKeysRequest { service_incarnation, key, from_revision };
            (rondo!("WatchKeys"), encoded(&request))
        }
    }
}

const fn condition_of(condition: PutCondition) -> (admin::PutCondition, u64) {
    match condition {
        PutCondition::Always => (admin::PutCondition::PutAlways, 0),
        PutCondition::Present => (admin::PutCondition::PutIfPresent, 0),
        PutCondition::Absent => (admin::PutCondition::PutIfAbsent, 0),
        PutCondition::Revision(revision) => (admin::PutCondition::PutIfRevision, revision.get()),
    }
}
