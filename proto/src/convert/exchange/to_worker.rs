//! What a server says to a worker.

use bytes::Bytes;
use rondo_core::exchange::RequestNumber;
use rondo_core::exchange::message::{Answer, Credits, ToWorker, Welcome};
use rondo_core::ids::Incarnation;
use rondo_core::status::Status;

use super::frame::{self, Body, FrameHead, FrameLimits};
use super::parts::{
    at_most, present, stamps, status, tensor, wire_stamps, wire_status, wire_tensor,
};
use super::payloads::tensors_to_worker;
use crate::admin as wire;
use crate::admin::exchange_frame::Kind;
use crate::convert::check::field;

/// Decodes the header of a frame that a server sent to a worker.
///
/// # Errors
/// INVALID_ARGUMENT, naming the field and its value. Nothing that follows on the connection can be
/// trusted then.
pub fn decode_to_worker(
    head: FrameHead,
    header: &Bytes,
    body: Body,
    limits: &FrameLimits,
) -> Result<ToWorker<()>, Status> {
    let message = match frame::kind(header)? {
        Kind::Welcome(welcome) => ToWorker::Welcome(decode_welcome(welcome)?),
        Kind::Rejected(wire) => {
            ToWorker::Rejected(status(field("ExchangeFrame", "rejected"), Some(wire))?)
        }
        Kind::Pushed(pushed) => ToWorker::Pushed {
            number: RequestNumber::new(pushed.number),
            stamps: stamps(field("ExchangePushed", "stamps"), &pushed.stamps)?,
        },
        Kind::Answer(answer) => ToWorker::Answer(decode_answer(answer, limits)?),
        Kind::Refused(refused) => ToWorker::Refused {
            number: RequestNumber::new(refused.number),
            status: status(field("ExchangeRefused", "status"), refused.status)?,
        },
        Kind::Released(released) => {
            ToWorker::Released { number: RequestNumber::new(released.number) }
        }
        other => return Err(frame::misdirected(&other, "a worker")),
    };
    frame::check_body(tensors_to_worker(&message), head, body)?;
    Ok(message)
}

fn decode_welcome(wire: wire::ExchangeWelcome) -> Result<Welcome, Status> {
    let credits = present(field("ExchangeWelcome", "credits"), wire.credits)?;
    Ok(Welcome {
        incarnation: Incarnation::new(wire.incarnation),
        received: RequestNumber::new(wire.received),
        credits: Credits {
            requests: credits.requests,
            bytes: credits.bytes,
            per_key: credits.per_key,
        },
    })
}

fn decode_answer(wire: wire::ExchangeAnswer, limits: &FrameLimits) -> Result<Answer<()>, Status> {
    const NAME: &str = "ExchangeAnswer";
    let tensors = at_most(field(NAME, "tensors"), wire.tensors, limits.tensors_max)?;
    Ok(Answer {
        number: RequestNumber::new(wire.number),
        tensors: tensors.iter().map(|it| tensor(NAME, it)).collect::<Result<_, _>>()?,
        stamps: stamps(field(NAME, "stamps"), &wire.stamps)?,
    })
}

/// Appends the head and the header of a frame with this message to `out`; the tensors of
/// [`tensors_to_worker`] follow it, if they do not lie elsewhere.
///
/// # Errors
/// RESOURCE_EXHAUSTED for a message that is longer than allowed. Nothing is appended then.
pub fn encode_to_worker<T>(
    message: &ToWorker<T>,
    body: Body,
    limits: &FrameLimits,
    out: &mut Vec<u8>,
) -> Result<FrameHead, Status> {
    let kind = match message {
        ToWorker::Welcome(Welcome { incarnation, received, credits }) => {
            Kind::Welcome(wire::ExchangeWelcome {
                incarnation: incarnation.get(),
                received: received.get(),
                credits: Some(wire::ExchangeCredits {
                    requests: credits.requests,
                    bytes: credits.bytes,
                    per_key: credits.per_key,
                }),
            })
        }
        ToWorker::Rejected(status) => Kind::Rejected(wire_status(status)),
        ToWorker::Pushed { number, stamps } => {
            Kind::Pushed(wire::ExchangePushed { number: number.get(), stamps: wire_stamps(stamps) })
        }
        ToWorker::Answer(answer) => Kind::Answer(wire::ExchangeAnswer {
            number: answer.number.get(),
            tensors: answer.tensors.iter().map(|it| wire_tensor(it.key, &it.info)).collect(),
            stamps: wire_stamps(&answer.stamps),
        }),
        ToWorker::Refused { number, status } => Kind::Refused(wire::ExchangeRefused {
            number: number.get(),
            status: Some(wire_status(status)),
        }),
        ToWorker::Released { number } => {
            Kind::Released(wire::ExchangeReleased { number: number.get() })
        }
    };
    frame::append(kind, tensors_to_worker(message), body, limits, out)
}
