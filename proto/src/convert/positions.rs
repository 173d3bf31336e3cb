//! Named positions as `rondo.v1.Admin` speaks of them.

use bytes::Bytes;
use prost::Message;
use rondo_core::dispatcher::{GetOrCreateJob, Reply, Request};
use rondo_core::status::Status;

use super::check::{field, message};
use super::jobs::job_of;
use crate::admin as wire;
use crate::tf::data::GetOrCreateJobRequest;

/// The path of `rondo.v1.Admin/SavePosition`.
pub const SAVE_POSITION_PATH: &str = "/rondo.v1.Admin/SavePosition";
/// The path of `rondo.v1.Admin/RestorePosition`.
pub const RESTORE_POSITION_PATH: &str = "/rondo.v1.Admin/RestorePosition";
/// The path of `rondo.v1.Admin/ListPositions`.
pub const LIST_POSITIONS_PATH: &str = "/rondo.v1.Admin/ListPositions";
/// The path of `rondo.v1.Admin/DeletePosition`.
pub const DELETE_POSITION_PATH: &str = "/rondo.v1.Admin/DeletePosition";

/// Decodes a request about positions; `None` when the path is of another method.
///
/// # Errors
/// INVALID_ARGUMENT for malformed bytes, and for names that are empty or too long.
pub fn decode_position_request(path: &str, bytes: &Bytes) -> Result<Option<Request>, Status> {
    let request = match path {
        SAVE_POSITION_PATH => {
            let request: wire::SavePositionRequest = message("SavePositionRequest", bytes)?;
            Request::SavePosition {
                name: position_name("SavePositionRequest", request.name)?,
                job: field("SavePositionRequest", "job").name(request.job)?,
            }
        }
        RESTORE_POSITION_PATH => {
            let request: wire::RestorePositionRequest = message("RestorePositionRequest", bytes)?;
            let job = field("RestorePositionRequest", "job").name(request.job)?;
            Request::RestorePosition {
                name: position_name("RestorePositionRequest", request.name)?,
                wanted: request.wanted.map(|wanted| wanted_job(wanted, &job)).transpose()?,
                job,
            }
        }
        LIST_POSITIONS_PATH => {
            message::<wire::ListPositionsRequest>("ListPositionsRequest", bytes)?;
            Request::ListPositions
        }
        DELETE_POSITION_PATH => {
            let request: wire::DeletePositionRequest = message("DeletePositionRequest", bytes)?;
            let name = position_name("DeletePositionRequest", request.name)?;
            Request::DeletePosition { name }
        }
        _ => return Ok(None),
    };
    Ok(Some(request))
}

/// The job of this name that a reader is to read from a position.
fn wanted_job(
    mut wanted: GetOrCreateJobRequest,
    name: &str,
) -> Result<Box<GetOrCreateJob>, Status> {
    wanted.job_name = Some(name.to_owned());
    job_of(wanted).map(Box::new)
}

fn position_name(message: &'static str, name: String) -> Result<String, Status> {
    let field = field(message, "name");
    match name.is_empty() {
        true => Err(field.refuse("empty", "it must name a position")),
        false => field.name(name),
    }
}

/// Encodes the answer to the request at `path`; `None` when `reply` answers no such request.
pub fn encode_position_reply(path: &str, reply: Reply) -> Option<Bytes> {
    let encoded = match (path, reply) {
        (SAVE_POSITION_PATH, Reply::Position(report)) => {
            let position = Some(report.into());
            wire::SavePositionResponse { position }.encode_to_vec()
        }
        (RESTORE_POSITION_PATH, Reply::Position(report)) => {
            let position = Some(report.into());
            wire::RestorePositionResponse { position }.encode_to_vec()
        }
        (LIST_POSITIONS_PATH, Reply::Positions(reports)) => {
            let positions = reports.into_iter().map(wire::Position::from).collect();
            wire::ListPositionsResponse { positions }.encode_to_vec()
        }
        (DELETE_POSITION_PATH, Reply::PositionDeleted) => {
            wire::DeletePositionResponse {}.encode_to_vec()
        }
        _ => return None,
    };
    Some(encoded.into())
}
