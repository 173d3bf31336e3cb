//! What consumers ask of workers, as bytes: of our own making, since Rondo is not asked.

use bytes::{Buf, BufMut, Bytes, BytesMut};
use rondo_core::ids::TaskId;

use crate::workload::{ActorId, Read, ReadAnswer};

/// The path of the method.
pub(super) const READ_PATH: &str = "/sim/Read";

/// Who asks, their call, and for what.
pub(super) fn encode_read(from: ActorId, token: u64, read: &Read) -> Bytes {
    let mut out = BytesMut::new();
    out.put_u32(from.0);
    out.put_u64(token);
    out.put_i64(read.task.get());
    out.put_i64(read.consumer);
    out.put_i64(read.round);
    out.freeze()
}

/// The same from bytes.
pub(super) fn decode_read(bytes: &Bytes) -> Option<(ActorId, u64, Read)> {
    let mut bytes = bytes.clone();
    let from = ActorId(bytes.try_get_u32().ok()?);
    let token = bytes.try_get_u64().ok()?;
    let task = TaskId::new(bytes.try_get_i64().ok()?);
    let consumer = bytes.try_get_i64().ok()?;
    let round = bytes.try_get_i64().ok()?;
    // Nobody reads by split in this world.
    Some((from, token, Read { task, consumer, round, split: None }))
}

/// A worker's answer.
pub(super) fn encode_answer(answer: ReadAnswer) -> Bytes {
    match answer {
        ReadAnswer::Element => Bytes::from_static(&[1]),
        ReadAnswer::NoTask | ReadAnswer::Records { .. } => Bytes::from_static(&[0]),
    }
}

/// The same from bytes.
pub(super) fn decode_answer(bytes: &Bytes) -> ReadAnswer {
    match bytes.first() {
        Some(1) => ReadAnswer::Element,
        _ => ReadAnswer::NoTask,
    }
}
