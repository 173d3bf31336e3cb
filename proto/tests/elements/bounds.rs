//! Small messages that ask for much memory.

use bytes::Bytes;
use prost::Message;
use rondo_core::element::{Dtype, Element, Shape, Tensor};
use rondo_core::status::{Code, Status};
use rondo_proto::convert::decode_element_answer;
use rondo_proto::element::{decode_tensor, encode_uncompressed};
use rondo_proto::tf;

fn tensor(dtype: i32, size: i64, string: &[u8]) -> Result<u64, Status> {
    let dim = vec![tf::tensor_shape_proto::Dim { size }];
    let proto = tf::TensorProto {
        dtype,
        tensor_shape: Some(tf::TensorShapeProto { dim, unknown_rank: false }),
        string_val: vec![Bytes::copy_from_slice(string)],
        ..Default::default()
    };
    let tensor = decode_tensor(&proto.encode_to_vec().into(), 1000);
    tensor.map(|tensor| tensor.size_bytes())
}

#[test]
fn values_that_are_not_there_are_made_within_the_bound() {
    assert_eq!(tensor(9, 125, b""), Ok(1000));
    for (dtype, size) in [(9, 126), (9, 1 << 60), (4, i64::MAX), (7, 251), (7, i64::MAX)] {
        let status = tensor(dtype, size, b"").unwrap_err();
        assert_eq!(status.code, Code::ResourceExhausted, "{status}");
        assert!(status.message.contains("an element may take 1000 in memory"), "{status}");
    }
}

#[test]
fn a_string_is_repeated_within_the_bound() {
    assert_eq!(tensor(7, 10, &[b'x'; 96]), Ok(960));
    let status = tensor(7, 10, &[b'x'; 97]).unwrap_err();
    assert_eq!(status.code, Code::ResourceExhausted);
}

#[test]
fn components_share_one_bound() {
    // Two uint8 tensors of 600 bytes that are not there.
    let component = b"\x0a\x09\x08\x04\x12\x05\x12\x03\x08\xd8\x04";
    let answer = |components: &[u8]| {
        let length = u8::try_from(components.len()).unwrap();
        Bytes::from([&[0x2a, length], components].concat())
    };
    decode_element_answer(&answer(component), 1000).unwrap();
    let status = decode_element_answer(&answer(&component.repeat(2)), 1000).unwrap_err();
    assert!(
        status.message.starts_with("component 1 of the element: it takes 600 bytes"),
        "{status}"
    );
    let status = decode_element_answer(&answer(component), 10).unwrap_err();
    assert_eq!(status.message, "GetElementResponse is 13 bytes long; at most 10 are allowed");
}

#[test]
fn components_are_counted() {
    let component = b"\x0a\x04\x08\x04\x12\x00";
    let element = component.repeat((1 << 14) + 1);
    let answer = [&[0x2a, 0x86, 0x80, 0x06][..], &element].concat();
    let status = decode_element_answer(&answer.into(), 1 << 20).unwrap_err();
    assert_eq!(status.message, "the element has more than 16384 components");
}

/// Its components share their values: in a message they would take a tebibyte.
#[test]
fn an_element_that_no_message_can_hold_is_refused_before_memory_is_taken() {
    let values = Bytes::from(vec![0; 64 << 20]);
    let shape = Shape::list(64 << 20).unwrap();
    let tensor = Tensor::fixed(Dtype::Uint8, shape, values).unwrap();
    let status = encode_uncompressed(&Element { components: vec![tensor; 1 << 14] }).unwrap_err();
    assert_eq!(status.code, Code::ResourceExhausted);
    assert!(status.message.ends_with("a message has at most 2147483647"), "{status}");
}
