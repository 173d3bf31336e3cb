//! `rondo.v1.Admin/GetVersionToRead`: which version of a dataset a reader is to read.

use bytes::Bytes;
use prost::Message;
use rondo_core::dispatcher::{Reply, Request};
use rondo_core::status::Status;

use super::check::{field, message};
use super::datasets::dataset_id;
use crate::admin as wire;

/// The path of `rondo.v1.Admin/GetVersionToRead`.
pub const VERSION_TO_READ_PATH: &str = "/rondo.v1.Admin/GetVersionToRead";

/// Decodes `GetVersionToReadRequest`.
///
/// # Errors
/// INVALID_ARGUMENT for malformed bytes, and for names that are too long.
pub fn decode_version_request(bytes: &Bytes) -> Result<Request, Status> {
    const NAME: &str = "GetVersionToReadRequest";
    let request: wire::GetVersionToReadRequest = message(NAME, bytes)?;
    let job = request.job_name.map(|job| field(NAME, "job_name").name(job)).transpose()?;
    let position = request.position_name;
    let position = position.map(|name| field(NAME, "position_name").name(name)).transpose()?;
    Ok(Request::GetVersionToRead { dataset: dataset_id(NAME, request.dataset_id)?, job, position })
}

/// Encodes the answer to it; `None` when `reply` answers something else.
pub fn encode_version_reply(reply: &Reply) -> Option<Bytes> {
    let Reply::Dataset(id) = reply else {
        return None;
    };
    let dataset_id = id.as_str().to_owned();
    Some(wire::GetVersionToReadResponse { dataset_id }.encode_to_vec().into())
}
