//! Answers of a worker other than tensors.

use bytes::Bytes;
use prost::Message;
use rondo_core::limits::REQUEST_BYTES_MAX;
use rondo_core::status::{Code, Status};

use crate::tf;

/// A worker's device, as GetStatus tells of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkerDevice {
    /// The whole name: `/job:NAME/replica:N/task:N/device:TYPE:N`.
    pub name: String,
    /// Its type, such as `CPU`.
    pub kind: String,
    /// A random number that a later run of the worker does not have.
    pub incarnation: u64,
}

/// Encodes `GetStatusResponse`.
pub fn encode_worker_devices(devices: &[WorkerDevice]) -> Bytes {
    let attributes = |device: &WorkerDevice| tf::DeviceAttributes {
        name: device.name.clone(),
        device_type: device.kind.clone(),
        incarnation: device.incarnation,
        locality: Some(tf::DeviceLocality::default()),
        ..Default::default()
    };
    let device_attributes = devices.iter().map(attributes).collect();
    tf::GetStatusResponse { device_attributes }.encode_to_vec().into()
}

/// Decodes `GetStatusResponse`.
///
/// # Errors
/// INTERNAL for what is none, or is too long.
pub fn decode_worker_devices(bytes: &Bytes) -> Result<Vec<WorkerDevice>, Status> {
    let broken = |text: String| Status::new(Code::Internal, text);
    let size = bytes.len();
    if size > REQUEST_BYTES_MAX {
        let text = format!(
            "GetStatusResponse is {size} bytes long; at most {REQUEST_BYTES_MAX} are allowed"
        );
        return Err(broken(text));
    }
    let response = tf::GetStatusResponse::decode(bytes.clone()).map_err(|error| {
        broken(format!("the {size} bytes received are no GetStatusResponse: {error}"))
    })?;
    let device = |it: tf::DeviceAttributes| WorkerDevice {
        name: it.name,
        kind: it.device_type,
        incarnation: it.incarnation,
    };
    Ok(response.device_attributes.into_iter().map(device).collect())
}

/// Encodes the responses that say nothing: all but those that hold tensors or devices.
pub const fn encode_done() -> Bytes {
    Bytes::new()
}
