//! Messages as frames: what is said becomes a header, the tensors in it the body.

use bytes::Bytes;
use rondo_core::exchange::message::{Answer, Tensor, ToMember, ToScheduler, ToServer, ToWorker};
use rondo_core::exchange::{Point, TensorInfo};
use rondo_core::status::Status;
use rondo_core::time::Time;
use rondo_proto::convert::exchange::{
    Body, FrameHead, FrameLimits, encode_to_member, encode_to_scheduler, encode_to_server,
    encode_to_worker, tensors_to_server, tensors_to_worker,
};

use super::link::{Frame, Place};
use crate::tensor::TensorBuffer;

/// What is said to the scheduler, as a frame.
pub(super) fn to_scheduler(message: &ToScheduler, limits: &FrameLimits) -> Option<Frame> {
    framed(|out| encode_to_scheduler(message, limits, out), &[])
}

/// What the scheduler says, as a frame.
pub(super) fn to_member(message: &ToMember, limits: &FrameLimits) -> Option<Frame> {
    framed(|out| encode_to_member(message, limits, out), &[])
}

/// What a worker says now, as a frame.
pub(super) fn to_server(
    mut message: ToServer<TensorBuffer>,
    limits: &FrameLimits,
    now: Time,
) -> Option<Frame> {
    if let ToServer::Request(request) = &mut message {
        request.stamps.set(Point::RequestPostsend, now);
    }
    let encode = |out: &mut Vec<u8>| encode_to_server(&message, Body::Follows, limits, out);
    framed(encode, tensors_to_server(&message))
}

/// What a server says now, as a frame.
pub(super) fn to_worker(
    mut message: ToWorker<TensorBuffer>,
    limits: &FrameLimits,
    now: Time,
) -> Option<Frame> {
    if let ToWorker::Answer(Answer { stamps, .. }) | ToWorker::Pushed { stamps, .. } = &mut message
    {
        stamps.set(Point::ResponsePostsend, now);
    }
    let encode = |out: &mut Vec<u8>| encode_to_worker(&message, Body::Follows, limits, out);
    framed(encode, tensors_to_worker(&message))
}

/// A frame; `None` for a message that is too long, which the machines do not make.
fn framed(
    encode: impl FnOnce(&mut Vec<u8>) -> Result<FrameHead, Status>,
    tensors: &[Tensor<TensorBuffer>],
) -> Option<Frame> {
    let mut header = Vec::new();
    if let Err(status) = encode(&mut header) {
        tracing::error!(%status, "a message cannot be sent");
        return None;
    }
    let body = tensors.iter().map(|tensor| tensor.payload.clone()).collect();
    Some(Frame { header: Bytes::from(header), body })
}

/// Room for tensors that nobody has a place for.
pub(super) fn anywhere(tensors: &[Tensor<()>]) -> Vec<Place> {
    tensors.iter().map(|tensor| Place::Anywhere(length(&tensor.info))).collect()
}

/// The size of a tensor, in bytes.
pub(super) fn length(info: &TensorInfo) -> usize {
    usize::try_from(info.bytes()).unwrap_or(usize::MAX)
}
