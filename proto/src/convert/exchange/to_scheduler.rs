//! What a process says to the scheduler.

use bytes::Bytes;
use rondo_core::exchange::message::{Register, Tensor, ToScheduler};
use rondo_core::exchange::{BarrierNumber, InstanceRank, MembershipVersion};
use rondo_core::ids::Incarnation;
use rondo_core::status::Status;

use super::EXCHANGE_PROTOCOL;
use super::frame::{self, Body, FrameHead, FrameLimits};
use super::members::{membership, wire_membership};
use super::parts::{
    addresses, barrier, barriers, passed, role, sizes, wire_addresses, wire_barrier, wire_passed,
    wire_sizes,
};
use super::to_server::check_protocol;
use super::traces::{ask_traces, known, wire_ask_traces, wire_known};
use crate::admin as wire;
use crate::admin::exchange_frame::Kind;
use crate::convert::check::field;

/// Decodes the header of a frame that a process sent to the scheduler.
///
/// # Errors
/// INVALID_ARGUMENT, naming the field and its value. Nothing that follows on the connection can be
/// trusted then.
pub fn decode_to_scheduler(head: FrameHead, header: &Bytes) -> Result<ToScheduler, Status> {
    let message = match frame::kind(header)? {
        Kind::Register(register) => ToScheduler::Register(decode_register(register)?),
        Kind::Heartbeat(heartbeat) => {
            ToScheduler::Heartbeat { version: MembershipVersion::new(heartbeat.version) }
        }
        Kind::Barrier(wire) => ToScheduler::Barrier(barrier("ExchangeBarrier", wire)?),
        Kind::Withdraw(withdraw) => {
            ToScheduler::Withdraw { number: BarrierNumber::new(withdraw.number) }
        }
        Kind::Leave(wire::ExchangeLeave {}) => ToScheduler::Leave,
        Kind::Observe(wire::ExchangeObserve { protocol }) => {
            check_protocol(field("ExchangeObserve", "protocol"), protocol)?;
            ToScheduler::Observe
        }
        Kind::AskTraces(wire) => ToScheduler::AskTraces(ask_traces(wire)?),
        Kind::Known(wire) => {
            let (number, page) = known(wire)?;
            ToScheduler::Traces { number, page }
        }
        other => return Err(frame::misdirected(&other, "the scheduler")),
    };
    frame::check_body::<()>([], head, Body::Follows)?;
    Ok(message)
}

fn decode_register(wire: wire::ExchangeRegister) -> Result<Register, Status> {
    const NAME: &str = "ExchangeRegister";
    check_protocol(field(NAME, "protocol"), wire.protocol)?;
    let known = wire.known.map(|known| membership(field(NAME, "known"), Some(known)));
    Ok(Register {
        role: role(field(NAME, "role"), wire.role)?,
        rank: wire.rank.map(InstanceRank::new),
        incarnation: Incarnation::new(wire.incarnation),
        addresses: addresses(field(NAME, "addresses"), wire.addresses)?,
        host: field(NAME, "host").name(wire.host)?.into(),
        sizes: sizes(field(NAME, "sizes"), wire.sizes)?,
        known: known.transpose()?,
        passed: passed(NAME, wire.passed)?,
        waiting: barriers(NAME, wire.waiting)?,
    })
}

/// Appends a frame with this message to `out`.
///
/// # Errors
/// RESOURCE_EXHAUSTED for a message that is longer than allowed. Nothing is appended then.
pub fn encode_to_scheduler(
    message: &ToScheduler,
    limits: &FrameLimits,
    out: &mut Vec<u8>,
) -> Result<FrameHead, Status> {
    let kind = match message {
        ToScheduler::Register(register) => Kind::Register(wire::ExchangeRegister {
            protocol: EXCHANGE_PROTOCOL,
            role: register.role.number(),
            rank: register.rank.map(InstanceRank::get),
            incarnation: register.incarnation.get(),
            addresses: wire_addresses(&register.addresses),
            host: register.host.as_ref().to_owned(),
            sizes: Some(wire_sizes(register.sizes)),
            known: register.known.as_ref().map(|known| wire_membership(known)),
            passed: wire_passed(&register.passed),
            waiting: register.waiting.iter().map(wire_barrier).collect(),
        }),
        ToScheduler::Heartbeat { version } => {
            Kind::Heartbeat(wire::ExchangeHeartbeat { version: version.get() })
        }
        ToScheduler::Barrier(barrier) => Kind::Barrier(wire_barrier(barrier)),
        ToScheduler::Withdraw { number } => {
            Kind::Withdraw(wire::ExchangeWithdraw { number: number.get() })
        }
        ToScheduler::Leave => Kind::Leave(wire::ExchangeLeave {}),
        ToScheduler::Observe => {
            Kind::Observe(wire::ExchangeObserve { protocol: EXCHANGE_PROTOCOL })
        }
        ToScheduler::AskTraces(ask) => Kind::AskTraces(wire_ask_traces(ask)),
        ToScheduler::Traces { number, page } => Kind::Known(wire_known(*number, page)),
    };
    const NONE: [Tensor<()>; 0] = [];
    frame::append(kind, &NONE, Body::Follows, limits, out)
}
