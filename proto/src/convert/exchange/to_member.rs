//! What the scheduler says to a process.

use bytes::Bytes;
use rondo_core::exchange::message::{Failure, Tensor, ToMember};
use rondo_core::exchange::{BarrierNumber, InstanceRank, MembershipVersion, NodeId, TraceNumber};
use rondo_core::status::Status;

use super::frame::{self, Body, FrameHead, FrameLimits};
use super::members::{membership, wire_membership};
use super::parts::{lost, passed, present, status, wire_lost, wire_passed, wire_status};
use super::traces::{traces, wire_traces};
use crate::admin as wire;
use crate::admin::exchange_barrier_done::Result as Done;
use crate::admin::exchange_frame::Kind;
use crate::convert::check::field;

/// Decodes the header of a frame that the scheduler sent to a process.
///
/// # Errors
/// INVALID_ARGUMENT, naming the field and its value. Nothing that follows on the connection can be
/// trusted then.
pub fn decode_to_member(head: FrameHead, header: &Bytes) -> Result<ToMember, Status> {
    let message = match frame::kind(header)? {
        Kind::Assigned(assigned) => decode_assigned(assigned)?,
        Kind::Rejected(wire) => {
            ToMember::Rejected(status(field("ExchangeFrame", "rejected"), Some(wire))?)
        }
        Kind::Membership(wire) => {
            let of = field("ExchangeFrame", "membership");
            ToMember::Membership(membership(of, Some(wire))?)
        }
        Kind::Heard(heard) => ToMember::Heard { version: MembershipVersion::new(heard.version) },
        Kind::BarrierDone(done) => decode_done(done)?,
        Kind::Left(wire::ExchangeLeft {}) => ToMember::Left,
        Kind::TracesWanted(wire::ExchangeTracesWanted { number, after }) => {
            ToMember::AskTraces { number: TraceNumber::new(number), after }
        }
        Kind::Traces(wire) => {
            let (number, result) = traces(wire)?;
            ToMember::Traces { number, result }
        }
        other => return Err(frame::misdirected(&other, "a process of the scheduler's")),
    };
    frame::check_body::<()>([], head, Body::Follows)?;
    Ok(message)
}

fn decode_assigned(wire: wire::ExchangeAssigned) -> Result<ToMember, Status> {
    const NAME: &str = "ExchangeAssigned";
    let (node, rank) = (NodeId::new(wire.node), InstanceRank::new(wire.rank));
    let is_of = |role| NodeId::of(role, rank) == Some(node);
    if !node.role().is_some_and(is_of) || node == NodeId::SCHEDULER {
        let right = "it must be 8 (a server) or 9 (a worker) and twice the rank";
        return Err(field(NAME, "node").refuse(wire.node, right));
    }
    Ok(ToMember::Assigned {
        node,
        rank,
        membership: membership(field(NAME, "membership"), wire.membership)?,
        passed: passed(NAME, wire.passed)?,
    })
}

fn decode_done(wire: wire::ExchangeBarrierDone) -> Result<ToMember, Status> {
    let of = field("ExchangeBarrierDone", "result");
    let result = match present(of, wire.result)? {
        Done::Passed(passed) => Ok(passed),
        Done::Lost(wire) => Err(Failure::PeerLost(lost(wire)?)),
        Done::Refused(wire) => Err(Failure::Refused(status(of, Some(wire))?)),
    };
    Ok(ToMember::BarrierDone { number: BarrierNumber::new(wire.number), result })
}

/// Appends a frame with this message to `out`.
///
/// # Errors
/// RESOURCE_EXHAUSTED for a message that is longer than allowed. Nothing is appended then.
pub fn encode_to_member(
    message: &ToMember,
    limits: &FrameLimits,
    out: &mut Vec<u8>,
) -> Result<FrameHead, Status> {
    let kind = match message {
        ToMember::Assigned { node, rank, membership, passed } => {
            Kind::Assigned(wire::ExchangeAssigned {
                node: node.get(),
                rank: rank.get(),
                membership: Some(wire_membership(membership)),
                passed: wire_passed(passed),
            })
        }
        ToMember::Rejected(status) => Kind::Rejected(wire_status(status)),
        ToMember::Membership(membership) => Kind::Membership(wire_membership(membership)),
        ToMember::Heard { version } => Kind::Heard(wire::ExchangeHeard { version: version.get() }),
        ToMember::BarrierDone { number, result } => {
            let result = match result {
                Ok(passed) => Done::Passed(*passed),
                Err(Failure::PeerLost(lost)) => Done::Lost(wire_lost(lost)),
                Err(Failure::Refused(status)) => Done::Refused(wire_status(status)),
            };
            let number = number.get();
            Kind::BarrierDone(wire::ExchangeBarrierDone { number, result: Some(result) })
        }
        ToMember::Left => Kind::Left(wire::ExchangeLeft {}),
        ToMember::AskTraces { number, after } => {
            let number = number.get();
            Kind::TracesWanted(wire::ExchangeTracesWanted { number, after: *after })
        }
        ToMember::Traces { number, result } => Kind::Traces(wire_traces(*number, result)),
    };
    const NONE: [Tensor<()>; 0] = [];
    frame::append(kind, &NONE, Body::Follows, limits, out)
}
