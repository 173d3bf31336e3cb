//! The coordination service: two dialects with different numbers for the same fields, and our own
//! service beside them, become one kind of request; answers and refusals go back as they were asked.

mod dialect_t;
mod dialect_x;
mod encode_rondo;
mod encode_t;
mod encode_x;
mod method;
mod names;
mod payloads;
mod rondo;
mod status;

use bytes::Bytes;
use rondo_core::coordination::{Caller, Dialect, Method, Reply};
use rondo_core::limits::REQUEST_BYTES_MAX;
use rondo_core::status::{Code, Detail, Status};

pub use method::{CoordinationMethod, SERVICE_RONDO, SERVICE_T, SERVICE_X, WATCH_KEYS_PATH};
pub use payloads::encode_details;
pub(super) use payloads::{BARRIER_ERROR, SERVICE_ERROR};
pub use rondo::{encode_first_watch, encode_next_watch};
pub use status::{
    RESET_NAMESPACE_PATH, coordination_report, coordination_status, decode_reset_namespace,
    encode_reset_namespace,
};

/// A request to a namespace, decoded and checked.
#[derive(Clone, Debug, PartialEq)]
pub struct CoordinationRequest {
    /// What is asked.
    pub method: Method,
    /// Who asks, as far as the request tells.
    pub caller: Caller,
    /// What the answer repeats: the key as asked, or nothing.
    pub echo: String,
}

impl CoordinationRequest {
    fn of(method: Method, caller: Caller) -> Self {
        Self { method, caller, echo: String::new() }
    }

    fn echoing(method: Method, caller: Caller, key: &str) -> Self {
        Self { method, caller, echo: key.to_owned() }
    }
}

/// Decodes the request message of `method` in `dialect`.
///
/// # Errors
/// INVALID_ARGUMENT for malformed bytes and wrong values, RESOURCE_EXHAUSTED for requests that are
/// too long.
pub fn decode_coordination(
    (dialect, method): (Dialect, CoordinationMethod),
    bytes: &Bytes,
) -> Result<CoordinationRequest, Status> {
    let decoded = check_size(method, bytes).and_then(|()| match dialect {
        Dialect::T => dialect_t::decode(method, bytes),
        Dialect::X => dialect_x::decode(method, bytes),
        Dialect::Rondo => rondo::decode(method, bytes),
    });
    // The service itself refuses: a client that sees no such mark registers again and again.
    decoded.map_err(|status| status.with([Detail::SERVICE]))
}

/// A list of empty messages takes much more memory decoded than encoded: hence a bound before
/// anything is decoded. What holds a value has no list.
fn check_size(method: CoordinationMethod, bytes: &Bytes) -> Result<(), Status> {
    if method.is_long() || bytes.len() <= REQUEST_BYTES_MAX {
        return Ok(());
    }
    let text = format!(
        "{}Request is {} bytes long; at most {REQUEST_BYTES_MAX} bytes are allowed",
        method.name(),
        bytes.len()
    );
    Err(Status::new(Code::ResourceExhausted, text))
}

/// A method that the dialect does not have, though its path was found.
fn not_offered(method: CoordinationMethod) -> Status {
    Status::new(Code::Unimplemented, format!("no method {} in this dialect", method.name()))
}

/// Encodes the reply to a request of `method` in `dialect`, whose echo was `echo`, in a namespace
/// whose job is called `job`. `None` when the reply answers no such request, or holds a value whose
/// blob was not read.
pub fn encode_coordination(
    (dialect, method): (Dialect, CoordinationMethod),
    (echo, job): (String, &str),
    reply: Reply,
) -> Option<Bytes> {
    let encoded = match dialect {
        Dialect::T => encode_t::encode(method, echo, job, reply)?,
        Dialect::X => encode_x::encode(method, echo, reply)?,
        Dialect::Rondo => encode_rondo::encode(method, reply)?,
    };
    Some(encoded.into())
}
