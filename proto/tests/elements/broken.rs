//! What a peer must not send: refused in words, each check by itself.

use bytes::Bytes;
use prost::Message;
use rondo_core::status::Code;
use rondo_proto::convert::decode_element_answer;
use rondo_proto::element::{decode_tensor, encode_uncompressed};
use rondo_proto::tf;
use rondo_proto::tf::data as wire;
use wire::get_element_response::Element as Form;

use crate::{BYTES_MAX, recorded, unhex};

fn shape(sizes: &[i64]) -> Option<tf::TensorShapeProto> {
    let dim = sizes.iter().map(|size| tf::tensor_shape_proto::Dim { size: *size }).collect();
    Some(tf::TensorShapeProto { dim, unknown_rank: false })
}

fn answer(element: Form) -> Bytes {
    let answer = wire::GetElementResponse { element: Some(element), ..Default::default() };
    answer.encode_to_vec().into()
}

/// The refusal's text.
fn refused(bytes: &Bytes) -> String {
    let status = decode_element_answer(bytes, BYTES_MAX).unwrap_err();
    assert_eq!(status.code, Code::Internal, "{status}");
    status.message
}

/// A compressed element: an int32 list of two and two strings, 12 bytes in all.
fn compressed() -> wire::CompressedElement {
    let metadata = |dtype, uncompressed_bytes| wire::CompressedComponentMetadata {
        dtype,
        tensor_shape: shape(&[2]),
        uncompressed_bytes,
    };
    let data = snappy(b"\x01\0\0\0\x02\0\0\0abcd");
    let component_metadata = vec![metadata(3, vec![8]), metadata(7, vec![1, 3])];
    wire::CompressedElement { data, component_metadata, version: 0 }
}

/// A block of one literal, written by hand.
fn snappy(plain: &[u8]) -> Bytes {
    let length = u8::try_from(plain.len()).unwrap();
    [&[length, (length - 1) << 2], plain].concat().into()
}

fn refused_with(change: impl FnOnce(&mut wire::CompressedElement)) -> String {
    let mut element = compressed();
    change(&mut element);
    refused(&answer(Form::Compressed(element)))
}

#[test]
fn a_literal_block_is_read() {
    let found = crate::element(&answer(Form::Compressed(compressed())));
    let strings: Vec<_> = found.components[1].each_string().collect();
    assert_eq!(strings, ["a", "bcd"]);
}

#[test]
fn compressed_elements_are_checked() {
    let text = refused_with(|element| element.version = 1);
    assert_eq!(text, "Unsupported compressed element version: 1; it must be 0");
    let text = refused_with(|element| element.component_metadata[0].uncompressed_bytes = vec![7]);
    assert!(text.ends_with("uncompressed_bytes is 7; 2 values of int32 take 8"), "{text}");
    let text = refused_with(|element| element.component_metadata[0].uncompressed_bytes.push(0));
    assert!(
        text.contains("component 0 of the element: uncompressed_bytes has 2 entries"),
        "{text}"
    );
    let text = refused_with(|element| element.component_metadata[1].uncompressed_bytes.push(0));
    assert!(text.contains("has 3 entries for 2 strings"), "{text}");
    let text = refused_with(|element| element.component_metadata[1].uncompressed_bytes[1] = 4);
    assert!(text.starts_with("Uncompressed size mismatch. Snappy has 12 bytes"), "{text}");
    let text =
        refused_with(|element| element.component_metadata[1].uncompressed_bytes[1] = u64::MAX);
    assert!(text.contains("its strings have"), "{text}");
    let text = refused_with(|element| element.component_metadata[0].dtype = 34);
    assert!(text.contains("its dtype is 34"), "{text}");
    let text = refused_with(|element| element.component_metadata[0].tensor_shape = shape(&[-2]));
    assert!(text.contains("dimension 0 is -2"), "{text}");
    let text = refused_with(|element| element.data.truncate(5));
    assert!(text.starts_with("the element's snappy block is damaged"), "{text}");
}

#[test]
fn a_block_that_claims_more_than_it_can_hold_is_not_believed() {
    let metadata = wire::CompressedComponentMetadata {
        dtype: 4,
        tensor_shape: shape(&[1 << 19]),
        uncompressed_bytes: vec![1 << 19],
    };
    let data = Bytes::from_static(b"\x80\x80\x20\0a");
    let element = wire::CompressedElement { data, component_metadata: vec![metadata], version: 0 };
    let text = refused(&answer(Form::Compressed(element)));
    assert_eq!(text, "5 bytes of snappy cannot hold 524288 bytes");
}

#[test]
fn an_answer_is_one_thing() {
    let both = wire::GetElementResponse {
        element: Some(Form::Compressed(compressed())),
        end_of_sequence: true,
        ..Default::default()
    };
    let text = refused(&both.encode_to_vec().into());
    assert!(text.contains("has an element: true, end_of_sequence: true"), "{text}");
    assert!(refused(&Bytes::new()).contains("it must have exactly one of them"));
    let twice = [answer(Form::Compressed(compressed())), answer(Form::Compressed(compressed()))];
    assert!(refused(&twice.concat().into()).contains("two elements"));
}

#[test]
fn a_tensor_of_another_length_is_refused() {
    let proto = |dtype, content: &'static [u8]| tf::TensorProto {
        dtype,
        tensor_shape: shape(&[2]),
        tensor_content: Bytes::from_static(content),
        ..Default::default()
    };
    for (dtype, content, right) in [
        (9, &b"123456789"[..], "9 bytes were found for 2 values of int64, which take 16"),
        (10, b"\x01\x02", "a bool is the byte 2; it must be 0 or 1"),
        (7, b"\x01", "1 bytes cannot hold the lengths of 2 strings"),
        (7, b"\x01\x05abc", "its strings have 6 bytes by their lengths, but 3 bytes follow"),
        (0, b"", "its dtype is 0"),
    ] {
        let bytes: Bytes = proto(dtype, content).encode_to_vec().into();
        let status = decode_tensor(&bytes, BYTES_MAX).unwrap_err();
        assert!(status.message.starts_with(right), "{status}");
    }
    let unknown = tf::TensorProto {
        tensor_shape: Some(tf::TensorShapeProto { dim: vec![], unknown_rank: true }),
        ..proto(9, b"")
    };
    let status = decode_tensor(&unknown.encode_to_vec().into(), BYTES_MAX).unwrap_err();
    assert!(status.message.contains("unknown rank"), "{status}");
}

#[test]
fn a_lone_variant_is_not_sent_uncompressed() {
    let all = recorded("elements.json");
    let cases = all["elements"].as_array().unwrap();
    let ragged = cases.iter().find(|case| case["name"] == "ragged").unwrap();
    let mut element = crate::element(&unhex(&ragged["uncompressed"]));
    element.components.truncate(1);
    let status = encode_uncompressed(&element).unwrap_err();
    assert_eq!(status.code, Code::FailedPrecondition);
}
