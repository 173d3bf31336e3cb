//! Deletions as `rondo.v1.Admin` speaks of them.

use bytes::Bytes;
use prost::Message;
use rondo_core::dispatcher::{Reply, Request};
use rondo_core::ids::DatasetId;
use rondo_core::status::Status;

use super::check::{field, message};
use crate::admin as wire;

/// The path of `rondo.v1.Admin/DeleteJob`.
pub const DELETE_JOB_PATH: &str = "/rondo.v1.Admin/DeleteJob";
/// The path of `rondo.v1.Admin/DeleteDataset`.
pub const DELETE_DATASET_PATH: &str = "/rondo.v1.Admin/DeleteDataset";
/// The path of `rondo.v1.Admin/RemoveWorker`.
pub const REMOVE_WORKER_PATH: &str = "/rondo.v1.Admin/RemoveWorker";

/// Decodes a request to delete something; `None` when the path is of another method.
///
/// # Errors
/// INVALID_ARGUMENT for malformed bytes, and for names that are empty or too long.
pub fn decode_deletion_request(path: &str, bytes: &Bytes) -> Result<Option<Request>, Status> {
    let request = match path {
        DELETE_JOB_PATH => {
            let request: wire::DeleteJobRequest = message("DeleteJobRequest", bytes)?;
            let name = named(("DeleteJobRequest", "name"), request.name, "a job")?;
            Request::DeleteJob { name }
        }
        DELETE_DATASET_PATH => {
            let request: wire::DeleteDatasetRequest = message("DeleteDatasetRequest", bytes)?;
            let of = ("DeleteDatasetRequest", "dataset_id");
            let id = named(of, request.dataset_id, "a dataset")?;
            Request::DeleteDataset { dataset: DatasetId::new(id) }
        }
        REMOVE_WORKER_PATH => {
            let request: wire::RemoveWorkerRequest = message("RemoveWorkerRequest", bytes)?;
            let of = ("RemoveWorkerRequest", "address");
            Request::RemoveWorker { address: named(of, request.address, "a worker")? }
        }
        _ => return Ok(None),
    };
    Ok(Some(request))
}

fn named(
    (message, name): (&'static str, &'static str),
    value: String,
    what: &str,
) -> Result<String, Status> {
    let field = field(message, name);
    match value.is_empty() {
        true => Err(field.refuse("empty", format!("it must name {what}"))),
        false => field.name(value),
    }
}

/// Encodes the answer to the request at `path`; `None` when `reply` answers no such request.
pub fn encode_deletion_reply(path: &str, reply: &Reply) -> Option<Bytes> {
    let encoded = match (path, reply) {
        (DELETE_JOB_PATH, Reply::JobDeleted) => wire::DeleteJobResponse {}.encode_to_vec(),
        (DELETE_DATASET_PATH, Reply::DatasetDeleted) => {
            wire::DeleteDatasetResponse {}.encode_to_vec()
        }
        (REMOVE_WORKER_PATH, Reply::WorkerRemoved) => wire::RemoveWorkerResponse {}.encode_to_vec(),
        _ => return None,
    };
    Some(encoded.into())
}
