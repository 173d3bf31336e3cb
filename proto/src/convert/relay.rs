//! What a relay must know of the calls it passes on, and how it and the server say so.

use bytes::Bytes;
use prost::Message;
use rondo_core::coordination::{Caller, Dialect, Method, TaskName};
use rondo_core::ids::{Incarnation, RelayId, ServiceIncarnation, TaskIndex};
use rondo_core::relay::{Forwarding, Kind, Link, Refused, Task, Who};
use rondo_core::stamp::Stamp;
use rondo_core::status::{Code, Status};

use super::check::{field, long_message, message};
use super::coordination::{CoordinationMethod, decode_coordination};
use crate::{admin as wire, xla};

/// The full name of the service that relays talk to.
pub const SERVICE_RELAY: &str = "rondo.v1.Relay";
/// The path of `rondo.v1.Relay/Hello`.
pub const RELAY_HELLO_PATH: &str = "/rondo.v1.Relay/Hello";
/// The path of `rondo.v1.Relay/Forward`.
pub const RELAY_FORWARD_PATH: &str = "/rondo.v1.Relay/Forward";

/// What must be known of a call to `path`.
///
/// # Errors
/// UNIMPLEMENTED for a method that is not the coordination service's, and what that says to a
/// message of which the relay must know more.
pub fn relayed_kind(path: &str, message: &Bytes) -> Result<Kind, Status> {
    use CoordinationMethod as M;
    let Some((dialect, method)) = CoordinationMethod::from_path(path) else {
        return Err(Status::new(Code::Unimplemented, format!("no method {path} here")));
    };
    Ok(match method {
        M::RegisterTask | M::Heartbeat | M::ShutdownTask => {
            of_task(decode_coordination((dialect, method), message)?.method)
        }
        M::Barrier => Kind::Once { waits: true },
        M::GetAliveTasks => Kind::Alive,
        M::ResetTask
        | M::ReportErrorToService
        | M::InsertKeyValue
        | M::IncrementKeyValue
        | M::DeleteKeyValue
        | M::CancelBarrier
        | M::PutKey
        | M::DeleteKey => Kind::Once { waits: false },
        M::WaitForAllTasks
        | M::ReportErrorToTask
        | M::PollForError
        | M::GetTaskState
        | M::GetJobState
        | M::WatchJobState
        | M::WatchTasks
        | M::GetKeyValue
        | M::TryGetKeyValue
        | M::GetKeyValueDir
        | M::WatchKeys => Kind::Again,
    })
}

fn of_task(method: Method) -> Kind {
    match method {
        Method::RegisterTask { task, incarnation, .. } => {
            Kind::Register(Who { task: named(task), incarnation })
        }
        Method::Heartbeat { task, incarnation } => {
            Kind::Heartbeat(Who { task: named(task), incarnation })
        }
        Method::ShutdownTask { task } => Kind::Shutdown(named(task)),
        _ => Kind::Again,
    }
}

fn named(task: TaskName) -> Task {
    Task { job: task.job.unwrap_or_else(|| "".into()), index: task.index }
}

/// The life that the answer to a registration or a heartbeat tells: the same field in both
/// dialects.
pub fn told_life(kind: &Kind, body: &Bytes) -> Option<ServiceIncarnation> {
    if !matches!(kind, Kind::Register(_) | Kind::Heartbeat(_)) {
        return None;
    }
    let response = xla::HeartbeatResponse::decode(body.clone()).ok()?;
    Some(ServiceIncarnation::new(response.service_incarnation))
}

/// The answer to a heartbeat: the same in both dialects.
pub fn encode_heartbeat_reply(life: ServiceIncarnation) -> Bytes {
    xla::HeartbeatResponse { service_incarnation: life.get() }.encode_to_vec().into()
}

/// Encodes `HelloRequest`.
pub fn encode_hello(relay: RelayId, link: Link, namespace: &str) -> Bytes {
    let namespace = namespace.to_owned();
    wire::HelloRequest { relay: relay.get(), link: link.0, namespace }.encode_to_vec().into()
}

/// A relay begins a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hello {
    /// The relay.
    pub relay: RelayId,
    /// Its connection.
    pub link: Link,
    /// The namespace it serves; empty for the port's own.
    pub namespace: String,
}

/// Decodes `HelloRequest`.
///
/// # Errors
/// INVALID_ARGUMENT for malformed bytes.
pub fn decode_hello(bytes: &Bytes) -> Result<Hello, Status> {
    let request: wire::HelloRequest = message("HelloRequest", bytes)?;
    let (relay, link) = (RelayId::new(request.relay), Link(request.link));
    Ok(Hello { relay, link, namespace: request.namespace })
}

/// Encodes `HelloResponse`.
pub fn encode_hello_reply(version: &str) -> Bytes {
    wire::HelloResponse { version: version.to_owned() }.encode_to_vec().into()
}

/// Encodes `ForwardRequest`.
pub fn encode_forward(relay: RelayId, link: Link, call: Forwarding) -> Bytes {
    let stamp = call.stamp.map(|stamp| wire::RelayStamp {
        lane: stamp.relay.get(),
        sequence: stamp.sequence,
        acknowledged: stamp.acknowledged,
    });
    let request = wire::ForwardRequest {
        relay: relay.get(),
        link: link.0,
        path: call.path.to_string(),
        message: call.message,
        peer: call.peer.to_string(),
        stamp,
        task_id: call.task.map(TaskIndex::get),
        service_incarnation: call.life.map_or(0, ServiceIncarnation::get),
        waits: call.waits,
        task_incarnation: call.incarnation.map_or(0, Incarnation::get),
    };
    request.encode_to_vec().into()
}

/// Decodes `ForwardRequest`: which relay, on which connection, and the call.
///
/// # Errors
/// INVALID_ARGUMENT for malformed bytes, and for a stamp with a zero.
pub fn decode_forward(bytes: &Bytes) -> Result<(RelayId, Link, Forwarding), Status> {
    const NAME: &str = "ForwardRequest";
    let request: wire::ForwardRequest = long_message(NAME, bytes)?;
    let stamp = request.stamp.map(|stamp| Stamp {
        relay: RelayId::new(stamp.lane),
        sequence: stamp.sequence,
        acknowledged: stamp.acknowledged,
    });
    if let Some(stamp) = stamp.filter(|stamp| stamp.relay.get() == 0 || stamp.sequence == 0) {
        let text = format!("{}, {}", stamp.relay, stamp.sequence);
        return Err(field(NAME, "stamp").refuse(text, "lane and sequence count from 1"));
    }
    let (life, process) = (request.service_incarnation, request.task_incarnation);
    let call = Forwarding {
        path: request.path.into(),
        message: request.message,
        peer: request.peer.into(),
        stamp,
        task: request.task_id.map(TaskIndex::new),
        incarnation: (process != 0).then(|| Incarnation::new(process)),
        life: (life != 0).then(|| ServiceIncarnation::new(life)),
        waits: request.waits,
    };
    Ok((RelayId::new(request.relay), Link(request.link), call))
}

/// Adds to the caller of a forwarded request what the relay says of it: its address, its mark, and what its
/// connection knows and a request of dialect T does not say.
pub fn identify_forwarded(call: &Forwarding, caller: &mut Caller) {
    caller.peer = Some(call.peer.clone());
    caller.task = caller.task.or(call.task);
    caller.stamp = call.stamp;
    if caller.dialect == Dialect::T {
        caller.life = call.life;
        caller.incarnation = call.incarnation.filter(|_| caller.task == call.task);
    }
}

/// Encodes `ForwardResponse`.
pub fn encode_forwarded(result: Result<Bytes, Refused>) -> Bytes {
    let response = match result {
        Ok(body) => wire::ForwardResponse { body, ..wire::ForwardResponse::default() },
        Err(Refused { code, message, details }) => {
            let code = code.number();
            wire::ForwardResponse { code, message, details, body: Bytes::new() }
        }
    };
    response.encode_to_vec().into()
}

/// Decodes `ForwardResponse` into what the service said.
///
/// # Errors
/// INTERNAL for malformed bytes, and for a code that is none.
pub fn decode_forwarded(bytes: &Bytes) -> Result<Result<Bytes, Refused>, Status> {
    let internal = |text: String| Status::new(Code::Internal, text);
    let response = wire::ForwardResponse::decode(bytes.clone())
        .map_err(|error| internal(format!("malformed ForwardResponse: {error}")))?;
    if response.code == 0 {
        return Ok(Ok(response.body));
    }
    let code = Code::of_number(response.code)
        .ok_or_else(|| internal(format!("ForwardResponse.code is {}", response.code)))?;
    Ok(Err(Refused { code, message: response.message, details: response.details }))
}
