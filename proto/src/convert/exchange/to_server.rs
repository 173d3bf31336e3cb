//! What a worker says to a server.

use bytes::Bytes;
use rondo_core::exchange::message::{Hello, Request, ToServer};
use rondo_core::exchange::{InstanceIndex, MembershipVersion, RequestNumber, WorkerRank};
use rondo_core::ids::Incarnation;
use rondo_core::status::Status;

use super::EXCHANGE_PROTOCOL;
use super::frame::{self, Body, FrameHead, FrameLimits};
use super::parts::{
    at_most, numbers, pull, stamps, tensor, wire_numbers, wire_stamps, wire_tensor,
};
use super::payloads::tensors_to_server;
use crate::admin as wire;
use crate::admin::exchange_frame::Kind;
use crate::convert::check::{Field, field};

/// Whether the other end means the same by these messages.
pub(super) fn check_protocol(field: Field, protocol: u32) -> Result<(), Status> {
    if protocol == EXCHANGE_PROTOCOL {
        return Ok(());
    }
    let right =
        format_args!("this process speaks {EXCHANGE_PROTOCOL}: both must be of one release");
    Err(field.refuse(protocol, right))
}

/// Decodes the header of a frame that a worker sent to a server.
///
/// # Errors
/// INVALID_ARGUMENT, naming the field and its value. Nothing that follows on the connection can be
/// trusted then.
pub fn decode_to_server(
    head: FrameHead,
    header: &Bytes,
    body: Body,
    limits: &FrameLimits,
) -> Result<ToServer<()>, Status> {
    let message = match frame::kind(header)? {
        Kind::Hello(hello) => ToServer::Hello(decode_hello(hello)?),
        Kind::Request(request) => ToServer::Request(decode_request(request, limits)?),
        Kind::Acknowledge(wire::ExchangeAcknowledge { numbers: wire }) => ToServer::Acknowledge {
            numbers: numbers(field("ExchangeAcknowledge", "numbers"), wire)?,
        },
        other => return Err(frame::misdirected(&other, "a server")),
    };
    frame::check_body(tensors_to_server(&message), head, body)?;
    Ok(message)
}

fn decode_hello(wire: wire::ExchangeHello) -> Result<Hello, Status> {
    const NAME: &str = "ExchangeHello";
    check_protocol(field(NAME, "protocol"), wire.protocol)?;
    let open = numbers(field(NAME, "open"), wire.open)?;
    if !open.is_sorted_by(|a, b| a < b) {
        let found = format_args!("a list of {} items", open.len());
        return Err(field(NAME, "open").refuse(found, "they must be in ascending order"));
    }
    Ok(Hello {
        worker: WorkerRank::new(wire.worker),
        index: InstanceIndex::new(wire.index),
        incarnation: Incarnation::new(wire.incarnation),
        version: MembershipVersion::new(wire.version),
        server: Incarnation::new(wire.server),
        attempt: wire.attempt,
        open,
    })
}

fn decode_request(
    wire: wire::ExchangeRequest,
    limits: &FrameLimits,
) -> Result<Request<()>, Status> {
    const NAME: &str = "ExchangeRequest";
    if wire.number == 0 {
        return Err(field(NAME, "number").refuse(0, "requests are counted from 1"));
    }
    let pushes = at_most(field(NAME, "pushes"), wire.pushes, limits.tensors_max)?;
    let left = limits.tensors_max.saturating_sub(pushes.len());
    let pulls = at_most(field(NAME, "pulls"), wire.pulls, left)?;
    Ok(Request {
        number: RequestNumber::new(wire.number),
        acknowledged: numbers(field(NAME, "acknowledged"), wire.acknowledged)?,
        pushes: pushes.iter().map(|it| tensor(NAME, it)).collect::<Result<_, _>>()?,
        pulls: pulls.iter().map(|it| pull(NAME, it)).collect::<Result<_, _>>()?,
        stamps: stamps(field(NAME, "stamps"), &wire.stamps)?,
    })
}

/// Appends the head and the header of a frame with this message to `out`; the tensors of
/// [`tensors_to_server`] follow it, if they do not lie elsewhere.
///
/// # Errors
/// RESOURCE_EXHAUSTED for a message that is longer than allowed. Nothing is appended then.
pub fn encode_to_server<T>(
    message: &ToServer<T>,
    body: Body,
    limits: &FrameLimits,
    out: &mut Vec<u8>,
) -> Result<FrameHead, Status> {
    let kind = match message {
        ToServer::Hello(hello) => Kind::Hello(wire::ExchangeHello {
            protocol: EXCHANGE_PROTOCOL,
            worker: hello.worker.get(),
            index: hello.index.get(),
            incarnation: hello.incarnation.get(),
            version: hello.version.get(),
            server: hello.server.get(),
            open: wire_numbers(&hello.open),
            attempt: hello.attempt,
        }),
        ToServer::Request(request) => Kind::Request(wire::ExchangeRequest {
            number: request.number.get(),
            acknowledged: wire_numbers(&request.acknowledged),
            pushes: request.pushes.iter().map(|it| wire_tensor(it.key, &it.info)).collect(),
            pulls: request.pulls.iter().map(|it| wire_tensor(it.key, &it.info)).collect(),
            stamps: wire_stamps(&request.stamps),
        }),
        ToServer::Acknowledge { numbers } => {
            Kind::Acknowledge(wire::ExchangeAcknowledge { numbers: wire_numbers(numbers) })
        }
    };
    frame::append(kind, tensors_to_server(message), body, limits, out)
}
