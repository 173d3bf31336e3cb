//! Tensors as they pass from worker to worker: `RecvTensorResponse`.

use bytes::Bytes;
use prost::encoding::decode_varint;
use rondo_core::element::{Dtype, Shape, Tensor};
use rondo_core::limits::{ELEMENT_BYTES_MAX, EXPANDED_BYTES_MAX};
use rondo_core::status::{Code, Status};

use crate::element::{decode_tensor, encode_tensor};
use crate::graph::wire::{Field, Message, Value, chunk_header, put_varint};
use crate::pieces::Pieces;

const NAME: &str = "RecvTensorResponse";
/// Its fields.
const TENSOR: u64 = 1;
const IS_DEAD: u64 = 2;
const SEND_START_MICROS: u64 = 3;
const REQUIRE_ACK: u64 = 5;
/// The number of `TensorProto.tensor_content`.
const CONTENT: u64 = 4;
/// Bytes in memory that one byte of a message can stand for: a varint for an integer of 64 bits. Where an
/// empty string ends takes less.
const RATIO_MAX: u64 = 8;

/// What answers RecvTensor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReceivedTensor {
    /// The tensor.
    pub tensor: Tensor,
    /// Whether it comes of a branch that was not taken: then the tensor has no meaning.
    pub is_dead: bool,
    /// When it was sent, in microseconds of the sender's clock; 0 if that is not said.
    pub send_start_micros: i64,
    /// Whether the answer is kept until its receiver says that it has it.
    pub require_ack: bool,
}

/// The tensor that stands where there is none: TensorFlow's own empty one.
pub fn dead_tensor() -> Tensor {
    let nothing = Shape::list(0).ok();
    let tensor = nothing.and_then(|shape| Tensor::fixed(Dtype::Float, shape, Bytes::new()).ok());
    // Neither can fail: no bytes are what no values take.
    tensor.unwrap_or_else(|| unreachable!("a list of no values is a tensor"))
}

/// Encodes `RecvTensorResponse`, byte for byte as TensorFlow does. What is long of the tensor is not
/// copied.
///
/// # Errors
/// UNIMPLEMENTED for variants and resources, RESOURCE_EXHAUSTED for a tensor that no message can hold.
pub fn encode_received_tensor(answer: &ReceivedTensor) -> Result<Pieces, Status> {
    let tensor = encode_tensor(&answer.tensor)?;
    let header = chunk_header(TENSOR, tensor.len());
    let flags = flags(answer);
    let size = (tensor.len() as u64).saturating_add((header.len() + flags.len()) as u64);
    if size > ELEMENT_BYTES_MAX {
        let text =
            format!("{NAME} would be {size} bytes long; a message has at most {ELEMENT_BYTES_MAX}");
        return Err(Status::new(Code::ResourceExhausted, text));
    }
    let mut message = Pieces::with_capacity(128);
    // Where TensorFlow writes by hand, the tensor stands last.
    let is_behind = answer.tensor.dtype().width().is_some();
    if is_behind {
        message.push_slice(&flags);
    }
    message.push_slice(&header);
    message.append(tensor);
    if !is_behind {
        message.push_slice(&flags);
    }
    Ok(message)
}

/// All fields but the tensor.
fn flags(answer: &ReceivedTensor) -> Vec<u8> {
    let mut out = Vec::new();
    let sent = answer.send_start_micros.cast_unsigned();
    let fields = [
        (IS_DEAD, u64::from(answer.is_dead)),
        (SEND_START_MICROS, sent),
        (REQUIRE_ACK, u64::from(answer.require_ack)),
    ];
    for (field, value) in fields.into_iter().filter(|(_, value)| *value != 0) {
        put_varint(&mut out, field << 3);
        put_varint(&mut out, value);
    }
    out
}

/// Decodes `RecvTensorResponse`. The tensor's values are slices of `bytes` where they can be.
///
/// # Errors
/// INTERNAL for what is no answer or no tensor, RESOURCE_EXHAUSTED for a tensor that takes more than
/// `bytes_max` bytes of memory beside the message, or repeats values for more than
/// [`EXPANDED_BYTES_MAX`], UNIMPLEMENTED for variants and resources.
pub fn decode_received_tensor(bytes: &Bytes, bytes_max: u64) -> Result<ReceivedTensor, Status> {
    let mut tensor = None;
    let mut answer = ReceivedTensor {
        tensor: dead_tensor(),
        is_dead: false,
        send_start_micros: 0,
        require_ack: false,
    };
    for field in Message::root(bytes, NAME).fields() {
        match field.map_err(|error| Status::new(Code::Internal, error.to_string()))? {
            Field { number: TENSOR, value: Value::Chunk(chunk), .. } => tensor = Some(chunk),
            Field { number: IS_DEAD, value: Value::Varint(flag), .. } => {
                answer.is_dead = flag != 0;
            }
            Field { number: SEND_START_MICROS, value: Value::Varint(micros), .. } => {
                answer.send_start_micros = micros.cast_signed();
            }
            Field { number: REQUIRE_ACK, value: Value::Varint(flag), .. } => {
                answer.require_ack = flag != 0;
            }
            _ => {}
        }
    }
    match tensor {
        Some(chunk) => {
            let proto = bytes.slice_ref(chunk.bytes);
            let bytes_max = memory_max(bytes, bytes_max);
            answer.tensor = sendable(decode_tensor(&proto, bytes_max).map_err(of_tensor)?)?;
        }
        None if answer.is_dead => {}
        None => return Err(Status::new(Code::Internal, format!("{NAME} has no tensor"))),
    }
    Ok(answer)
}

/// The bytes of memory that a tensor in this message may take. Without this bound a short message with a
/// large shape takes gigabytes before the rendezvous knows whether it has room for the tensor.
pub(super) fn memory_max(message: &Bytes, bytes_max: u64) -> u64 {
    let of_values = (message.len() as u64).saturating_mul(RATIO_MAX);
    bytes_max.min(of_values.saturating_add(EXPANDED_BYTES_MAX))
}

/// Where the values begin in an encoded `RecvTensorResponse`, seen from its first bytes; `None` if they do
/// not show it.
pub fn content_of_received_tensor(begin: &[u8]) -> Option<usize> {
    let response = find_chunk(begin, TENSOR)?;
    let tensor = begin.get(response..)?;
    response.checked_add(find_chunk(tensor, CONTENT)?)
}

/// Where the value of the first length-delimited field of this number begins.
fn find_chunk(message: &[u8], number: u64) -> Option<usize> {
    let mut rest = message;
    loop {
        let tag = decode_varint(&mut rest).ok()?;
        let value = decode_varint(&mut rest).ok()?;
        match tag & 7 {
            0 => {}
            2 if tag >> 3 == number => return Some(message.len().saturating_sub(rest.len())),
            2 => rest = rest.get(usize::try_from(value).ok()?..)?,
            _ => return None,
        }
    }
}

/// Refuses what means nothing in another process.
pub(super) fn sendable(tensor: Tensor) -> Result<Tensor, Status> {
    match tensor.dtype() {
        dtype @ (Dtype::Variant | Dtype::Resource) => {
            let text = format!("a tensor of {dtype} cannot be received from another worker");
            Err(Status::new(Code::Unimplemented, text))
        }
        _ => Ok(tensor),
    }
}

fn of_tensor(status: Status) -> Status {
    let text = format!("{NAME}.tensor is broken: {}", status.message);
    Status { message: text, ..status }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tf;
    use prost::Message as _;
    use rondo_core::element::Values;
    use std::sync::Arc;

    fn answer(tensor: Tensor) -> ReceivedTensor {
        ReceivedTensor { tensor, is_dead: false, send_start_micros: 0, require_ack: false }
    }

    fn float(sizes: &[i64], bytes: Vec<u8>) -> Tensor {
        let shape = Shape::of(sizes.iter().copied()).unwrap();
        Tensor::fixed(Dtype::Float, shape, bytes.into()).unwrap()
    }

    fn strings(sizes: &[i64], all: &[&str]) -> Tensor {
        let mut ends = Vec::new();
        for text in all {
            ends.push(ends.last().unwrap_or(&0) + text.len() as u32);
        }
        let shape = Shape::of(sizes.iter().copied()).unwrap();
        Tensor::strings(shape, all.concat().into(), Arc::from(ends)).unwrap()
    }

    #[test]
    fn encoded_as_tensorflow_encodes() {
        let one = vec![0, 0, 128, 63];
        let cases: [(Tensor, &[u8]); 5] = [
            (float(&[], one.clone()), &[10, 8, 8, 1, 34, 4, 0, 0, 128, 63]),
            (float(&[1], one), &[10, 14, 8, 1, 18, 4, 18, 2, 8, 1, 34, 4, 0, 0, 128, 63]),
            (float(&[0, 3], vec![]), &[10, 14, 8, 1, 18, 8, 18, 2, 8, 0, 18, 2, 8, 3, 34, 0]),
            (strings(&[], &["ab"]), &[10, 9, 8, 7, 18, 0, 34, 3, 2, b'a', b'b']),
            (strings(&[0], &[]), &[10, 6, 8, 7, 18, 2, 18, 0]),
        ];
        for (tensor, expected) in cases {
            let encoded = encode_received_tensor(&answer(tensor.clone())).unwrap().join();
            assert_eq!(encoded.as_ref(), expected, "{tensor:?}");
        }
    }

    #[test]
    fn any_client_reads_what_is_written_and_so_do_we() {
        for tensor in [
            float(&[2, 1], vec![7; 8]),
            float(&[300, 100], vec![1; 120_000]),
            float(&[0], vec![]),
            strings(&[2, 2], &["", "a", "", "long"]),
            strings(&[1], &["x".repeat(9000).as_str()]),
            dead_tensor(),
        ] {
            for (is_dead, send_start_micros, require_ack) in
                [(false, 0, false), (true, 1_700_000_000_000_000, false), (false, -1, true)]
            {
                let sent = ReceivedTensor {
                    tensor: tensor.clone(),
                    is_dead,
                    send_start_micros,
                    require_ack,
                };
                let bytes = encode_received_tensor(&sent).unwrap().join();
                let plain = tf::RecvTensorResponse::decode(bytes.clone()).unwrap();
                assert_eq!((plain.is_dead, plain.require_ack), (is_dead, require_ack));
                assert_eq!(plain.send_start_micros, send_start_micros);
                assert_eq!(plain.tensor.unwrap().dtype, tensor.dtype().number());
                assert_eq!(decode_received_tensor(&bytes, 1 << 20), Ok(sent));
            }
        }
    }

    #[test]
    fn a_long_tensor_is_copied_neither_out_nor_in() {
        let bytes = Bytes::from(vec![1; 120_000]);
        let tensor = float(&[30_000], Vec::from(bytes));
        let Values::Fixed(bytes) = tensor.values() else { panic!("{tensor:?}") };
        let mut encoded = encode_received_tensor(&answer(tensor.clone())).unwrap();
        let head = encoded.len() - bytes.len();
        drop(encoded.split_to(head));
        assert_eq!(encoded.join().as_ptr(), bytes.as_ptr());
        let message = encode_received_tensor(&answer(tensor.clone())).unwrap().join();
        assert_eq!(content_of_received_tensor(&message[..head]), Some(head));
        assert_eq!(content_of_received_tensor(&message[..head - 1]), None);
        let message = encode_received_tensor(&answer(tensor.clone())).unwrap().join();
        let found = decode_received_tensor(&message, 0).unwrap().tensor;
        let Values::Fixed(values) = found.values() else { panic!("{found:?}") };
        assert!(message.as_ptr_range().contains(&values.as_ptr()));
    }

    #[test]
    fn what_is_no_answer() {
        let variant = Tensor::encoded(Dtype::Variant, Shape::scalar(), Bytes::new()).unwrap();
        let refused = encode_received_tensor(&answer(variant)).unwrap_err();
        assert_eq!(refused.code, Code::Unimplemented);
        let cases: [(&[u8], Code, &str); 6] = [
            (&[], Code::Internal, "RecvTensorResponse has no tensor"),
            (&[10, 9, 8, 1], Code::Internal, "RecvTensorResponse"),
            (&[10, 4, 8, 1, 34, 0], Code::ResourceExhausted, "RecvTensorResponse.tensor"),
            (&[10, 5, 8, 1, 34, 1, 0], Code::Internal, "take 4"),
            (&[10, 2, 8, 99], Code::Internal, "its dtype is 99"),
            (&[10, 2, 8, 20], Code::Unimplemented, "a tensor of resource"),
        ];
        for (bytes, code, text) in cases {
            let refused = decode_received_tensor(&Bytes::from_static(bytes), 3).unwrap_err();
            assert_eq!(refused.code, code, "{refused}");
            assert!(refused.message.contains(text), "{refused}");
        }
    }
}
