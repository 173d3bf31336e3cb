//! `SendRequest`, which holds a tensor, and is read in place.

use bytes::Bytes;
use prost::Message as _;
use rondo_core::ids::StepId;
use rondo_core::rendezvous::Key;
use rondo_core::status::{Code, Status};

use super::SendTensor;
use super::tensors::{dead_tensor, memory_max, sendable};
use crate::admin as wire;
use crate::element::{decode_tensor, encode_tensor};
use crate::graph::wire::{Field, Message, Value, chunk_header};
use crate::pieces::Pieces;

const NAME: &str = "SendRequest";
/// The number of the field `tensor`.
const TENSOR: u64 = 5;

/// Decodes `SendRequest`.
pub(super) fn decode_send(bytes: &Bytes, bytes_max: u64) -> Result<SendTensor, Status> {
    let invalid = |text: String| Status::new(Code::InvalidArgument, text);
    let mut tensor = None;
    let mut key = &[][..];
    let mut sent = wire::SendRequest::default();
    for field in Message::root(bytes, NAME).fields() {
        match field.map_err(|error| invalid(error.to_string()))? {
            Field { number: 1, value: Value::Varint(step), .. } => {
                sent.step_id = step.cast_signed()
            }
            Field { number: 2, value: Value::Chunk(text), .. } => key = text.bytes,
            Field { number: 3, value: Value::Varint(flag), .. } => sent.is_dead = flag != 0,
            Field { number: 4, value: Value::Varint(flag), .. } => sent.waits = flag != 0,
            Field { number: TENSOR, value: Value::Chunk(chunk), .. } => tensor = Some(chunk.bytes),
            _ => {}
        }
    }
    let key = str::from_utf8(key)
        .map_err(|error| invalid(format!("{NAME}.rendezvous_key is no UTF-8: {error}")))?;
    let key = Key::parse(key)?;
    let tensor = match tensor {
        Some(proto) => {
            let tensor = decode_tensor(&bytes.slice_ref(proto), memory_max(bytes, bytes_max));
            sendable(tensor.map_err(of_tensor)?)?
        }
        None if sent.is_dead => dead_tensor(),
        None => {
            return Err(invalid(format!("{NAME} has no tensor; only a dead one may be missing")));
        }
    };
    let step = StepId::new(sent.step_id);
    Ok(SendTensor { step, key, tensor, is_dead: sent.is_dead, waits: sent.waits })
}

/// What is broken came with a request.
fn of_tensor(status: Status) -> Status {
    let code = match status.code {
        Code::Internal => Code::InvalidArgument,
        code => code,
    };
    Status { code, message: format!("{NAME}.tensor is broken: {}", status.message), ..status }
}

/// Encodes `SendRequest`.
pub(super) fn encode_send(send: &SendTensor) -> Result<Pieces, Status> {
    let tensor = encode_tensor(&send.tensor)?;
    let head = wire::SendRequest {
        step_id: send.step.get(),
        rendezvous_key: send.key.text().to_owned(),
        is_dead: send.is_dead,
        waits: send.waits,
        tensor: None,
    };
    let mut head = head.encode_to_vec();
    head.extend(chunk_header(TENSOR, tensor.len()));
    let mut message = Pieces::with_capacity(head.len());
    message.push_slice(&head);
    message.append(tensor);
    Ok(message)
}
