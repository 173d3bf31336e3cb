//! Namespaces as `rondo.v1.Admin` shows and resets them.

use bytes::Bytes;
use prost::Message;
use rondo_core::coordination::{
    CoordinationTaskReport, NamespaceReport, Report, TaskWait, WaitReport,
};
use rondo_core::ids::ServiceIncarnation;
use rondo_core::status::Status;

use crate::admin as wire;
use crate::convert::check::{field, message};

/// The path of `rondo.v1.Admin/ResetNamespace`.
pub const RESET_NAMESPACE_PATH: &str = "/rondo.v1.Admin/ResetNamespace";

/// The core's report as it stands on the wire.
pub fn coordination_status(report: Report) -> wire::CoordinationStatus {
    wire::CoordinationStatus { namespaces: all(report.namespaces) }
}

/// The core's report from how it stands on the wire.
pub fn coordination_report(status: wire::CoordinationStatus) -> Report {
    Report { namespaces: all(status.namespaces) }
}

/// Decodes `ResetNamespaceRequest` into the namespace's name.
///
/// # Errors
/// INVALID_ARGUMENT for malformed bytes, and for a name that is empty or too long.
pub fn decode_reset_namespace(bytes: &Bytes) -> Result<String, Status> {
    const NAME: &str = "ResetNamespaceRequest";
    let request: wire::ResetNamespaceRequest = message(NAME, bytes)?;
    let field = field(NAME, "name");
    match request.name.is_empty() {
        true => Err(field.refuse("empty", "it must name a namespace")),
        false => field.name(request.name),
    }
}

/// Encodes `ResetNamespaceResponse`.
pub fn encode_reset_namespace(life: ServiceIncarnation) -> Bytes {
    wire::ResetNamespaceResponse { service_incarnation: life.get() }.encode_to_vec().into()
}

fn all<A, B: From<A>>(items: Vec<A>) -> Vec<B> {
    items.into_iter().map(B::from).collect()
}

mirror!(NamespaceReport, NamespaceStatus {
    name, life, incarnation, tasks_expected, tasks_connected, never_registered, error, keys,
    size_bytes, revision, waiting_calls, heartbeat_timeout_ms;
    tasks, waits
});
mirror!(CoordinationTaskReport, CoordinationTaskStatus {
    task, state, since_ms, incarnation, recoverable, peer, silent_ms, last_did, last_did_ms, error,
    progress, progress_ms, stuck;
});
mirror!(WaitReport, WaitStatus {
    kind, what, waiting_ms, remaining_ms, came, missing, about_missing, calls;
    waits
});
mirror!(TaskWait, TaskWaitStatus { task, waiting_ms; });
