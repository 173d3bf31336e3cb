//! Conversions between the bytes that clients and workers send and receive and the core's types.
//!
//! Total: every sequence of bytes either becomes a request whose every field is checked, or a
//! refusal that names the field and its value.

#[macro_use]
mod mirror;

mod admin;
mod agent;
mod bulk;
mod check;
mod cluster;
mod coordination;
mod datasets;
mod deletion;
pub mod exchange;
mod holding;
mod iterations;
mod jobs;
mod method;
mod positions;
mod reader;
mod relay;
mod rendezvous;
mod splits;
mod versions;
mod worker;
mod workers;

use bytes::Bytes;
use prost::Message;
use rondo_core::dispatcher::{Reply, Report, Request};
use rondo_core::ids::Digest;
use rondo_core::limits::REQUEST_BYTES_MAX;
use rondo_core::status::{Code, Status};

use crate::tf::data as wire;

pub use admin::{GET_STATUS_PATH, HEALTH_CHECK_PATH, dispatcher_status, report};
pub use agent::{
    decode_agent_reply, decode_details, decode_devices, encode_agent_request, encode_devices,
};
pub use bulk::{
    BULK_HEAD_BYTES, BULK_LENT_BYTES, BULK_PREFACE, BulkCall, BulkFrame, BulkLent, BulkNear,
    decode_bulk_call, decode_bulk_end, decode_bulk_head, decode_bulk_lent, decode_bulk_near,
    encode_bulk_call, encode_bulk_end, encode_bulk_head, encode_bulk_lent, encode_bulk_near,
};
pub use cluster::{decode_cluster_def, encode_cluster_def};
pub use coordination::{
    CoordinationMethod, CoordinationRequest, RESET_NAMESPACE_PATH, SERVICE_RONDO, SERVICE_T,
    SERVICE_X, WATCH_KEYS_PATH, coordination_report, coordination_status, decode_coordination,
    decode_reset_namespace, encode_coordination, encode_details, encode_first_watch,
    encode_next_watch, encode_reset_namespace,
};
pub use datasets::{Registration, decode_register, definition_of, encode_definition};
pub use deletion::{
    DELETE_DATASET_PATH, DELETE_JOB_PATH, REMOVE_WORKER_PATH, decode_deletion_request,
    encode_deletion_reply,
};
pub use holding::{
    END_READER_PATH, HOLD_SPLITS_PATH, SERVICE_SPLITS, decode_end_reader, decode_ended,
    decode_held, decode_hold, encode_end_reader, encode_hold,
};
pub use iterations::encode_client_heartbeat;
pub use method::{Method, PROCESS_TASK_PATH};
pub use positions::{
    DELETE_POSITION_PATH, LIST_POSITIONS_PATH, RESTORE_POSITION_PATH, SAVE_POSITION_PATH,
    decode_position_request, encode_position_reply,
};
pub use reader::{
    READ_SPLIT_PATH, RegisteredMetadata, decode_definition_answer, decode_metadata_answer,
    decode_reader_answer, decode_records, decode_registered, decode_version_answer, encode_fetch,
    encode_get_definition, encode_get_metadata, encode_metadata, encode_read_split,
    encode_reader_request, encode_register, encode_restoration, encode_version_request,
};
pub use relay::{
    Hello, RELAY_FORWARD_PATH, RELAY_HELLO_PATH, SERVICE_RELAY, decode_forward, decode_forwarded,
    decode_hello, encode_forward, encode_forwarded, encode_heartbeat_reply, encode_hello,
    encode_hello_reply, identify_forwarded, relayed_kind, told_life,
};
pub use rendezvous::{
    Fetch, FetchChunk, ReceivedTensor, RecvTensor, RendezvousMethod, RendezvousRequest,
    SERVICE_RENDEZVOUS, SERVICE_WORKER, SendTensor, WorkerDevice, content_of_fetch_chunk,
    content_of_received_tensor, dead_tensor, decode_fetch_chunk, decode_fetch_chunk_in_pieces,
    decode_received_tensor, decode_rendezvous_request, decode_worker_devices,
    decode_worker_refusal, encode_done, encode_fetch_chunk, encode_received_tensor,
    encode_rendezvous_request, encode_worker_devices, encode_worker_refusal,
};
pub use versions::{VERSION_TO_READ_PATH, decode_version_request, encode_version_reply};
pub use worker::{
    ConsumerRound, ElementAnswer, GetElement, HeldTask, ReadSplit, SERVICE_RECORDS, SplitRecords,
    TaskDefinition, WorkerIdentity, WorkerMethod, WorkerRequest, WorkerTask, decode_element_answer,
    decode_read_split, decode_reply_of_dispatcher, decode_worker_request, decode_worker_tasks,
    encode_end, encode_nothing, encode_request_to_dispatcher, encode_skip, encode_split_records,
    encode_worker_request, encode_worker_tasks,
};
pub use workers::encode_process_task;

/// The version of the tf.data service's protocol that these messages are of. Peers of another
/// version refuse to talk.
pub const PROTOCOL_VERSION: i64 = 9;

/// A request, decoded and checked.
#[derive(Clone, Debug, PartialEq)]
pub enum Decoded {
    /// `GetVersion`, which needs no state: answer with [`encode_version`].
    Version,
    /// `GetOrRegisterDataset`, whose graph is yet to be cleaned and read.
    Register(Registration),
    /// Any other, ready for the core.
    Request(Request),
}

/// A reply, as far as the core's answer alone can be encoded.
#[derive(Clone, Debug, PartialEq)]
pub enum Encoded {
    /// The whole response.
    Message(Bytes),
    /// The definition with this hash is a blob: answer with [`encode_definition`] of its bytes.
    Blob(Digest),
    /// No dataset has the wished id: ask again with its definition.
    DefinitionNeeded,
    /// A picture of the state, to be answered together with what the driver knows.
    Report(Report),
    /// What administration asked for, which is no method of the dispatcher.
    Administration,
}

/// Decodes the request message of `method`.
///
/// # Errors
/// INVALID_ARGUMENT for malformed bytes and wrong values (INTERNAL for a sharding policy that does
/// not exist, as TensorFlow has it), RESOURCE_EXHAUSTED for requests that are too long, UNIMPLEMENTED
/// for methods that are not offered.
pub fn decode_request(method: Method, bytes: &Bytes) -> Result<Decoded, Status> {
    check_size(method, bytes)?;
    let request = match method {
        Method::GetVersion => {
            check::message::<wire::GetVersionRequest>("GetVersionRequest", bytes)?;
            return Ok(Decoded::Version);
        }
        Method::GetOrRegisterDataset => return decode_register(bytes).map(Decoded::Register),
        Method::GetDataServiceMetadata => datasets::decode_get_metadata(bytes)?,
        Method::GetDataServiceConfig => datasets::decode_get_config(bytes)?,
        Method::DisableCompressionAtRuntime => datasets::decode_disable_compression(bytes)?,
        Method::GetOrCreateJob => jobs::decode_job(bytes)?,
        Method::GetOrCreateIteration => iterations::decode_iteration(bytes)?,
        Method::ClientHeartbeat => iterations::decode_heartbeat(bytes)?,
        Method::ReleaseIterationClient => iterations::decode_release(bytes)?,
        Method::WorkerHeartbeat => workers::decode_heartbeat(bytes)?,
        Method::WorkerUpdate => workers::decode_update(bytes)?,
        Method::GetDatasetDef => datasets::decode_get_definition(bytes)?,
        Method::GetSplit => splits::decode_split(bytes)?,
        Method::MaybeRemoveTask => iterations::decode_remove_task(bytes)?,
        Method::GetWorkers => workers::decode_get_workers(bytes)?,
        Method::Snapshot | Method::GetSnapshotSplit | Method::GetSnapshotStreams => {
            return Err(method.unimplemented());
        }
    };
    Ok(Decoded::Request(request))
}

/// A list of empty messages takes much more memory decoded than encoded: hence a bound before
/// anything is decoded. What holds a graph, with all its constants, has no list.
fn check_size(method: Method, bytes: &Bytes) -> Result<(), Status> {
    let has_graph = matches!(method, Method::GetOrRegisterDataset | Method::Snapshot);
    if has_graph || bytes.len() <= REQUEST_BYTES_MAX {
        return Ok(());
    }
    let text = format!(
        "{}Request is {} bytes long; at most {REQUEST_BYTES_MAX} bytes are allowed",
        method.name(),
        bytes.len()
    );
    Err(Status::new(Code::ResourceExhausted, text))
}

/// Encodes a reply as the response message of its method.
pub fn encode_reply(reply: Reply) -> Encoded {
    Encoded::Message(match reply {
        Reply::Dataset(id) => datasets::encode_registered(&id),
        Reply::Metadata(encoded) => datasets::encode_metadata(&encoded),
        Reply::Config(mode) => datasets::encode_config(mode),
        Reply::Compression(disabled) => datasets::encode_compression(disabled),
        Reply::Job(id) => jobs::encode_job(id),
        Reply::Client(id) => iterations::encode_client(id),
        Reply::ClientHeartbeat(reply) => encode_client_heartbeat(&reply),
        Reply::ClientReleased => iterations::encode_released(),
        Reply::WorkerHeartbeat(reply) => workers::encode_heartbeat(&reply),
        Reply::WorkerUpdated => workers::encode_updated(),
        Reply::Definition(definition) => match definition.inline {
            Some(bytes) => encode_definition(bytes),
            None => return Encoded::Blob(definition.digest),
        },
        Reply::Split(split) => splits::encode_split(split),
        Reply::TaskRemoved(removed) => iterations::encode_removed(removed),
        Reply::Workers(addresses) => workers::encode_workers(&addresses),
        Reply::Report(report) => return Encoded::Report(report),
        Reply::SplitsHeld(held) => holding::encode_held(&held),
        Reply::ReaderEnded(reader) => holding::encode_ended(&reader),
        Reply::Position(_)
        | Reply::PositionDeleted
        | Reply::Positions(_)
        | Reply::JobDeleted
        | Reply::DatasetDeleted
        | Reply::WorkerRemoved => return Encoded::Administration,
        Reply::NotRegistered => return Encoded::DefinitionNeeded,
    })
}

/// Encodes `GetVersionResponse`.
pub fn encode_version(version: i64) -> Bytes {
    wire::GetVersionResponse { version }.encode_to_vec().into()
}
