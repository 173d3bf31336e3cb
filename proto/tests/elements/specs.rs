//! Element specs, as TensorFlow writes them.

use rondo_core::element::Spec;
use rondo_core::status::Code;
use rondo_proto::element::{decode_spec, encode_spec};
use serde_json::Value;

use crate::{recorded, unhex};

fn cases() -> Vec<Value> {
    recorded("specs.json").as_array().unwrap().clone()
}

#[test]
fn specs_of_tensorflow_are_written_as_they_were_read() {
    for case in cases().iter().filter(|case| !case["components"].is_null()) {
        let bytes = unhex(&case["spec"]);
        let spec = decode_spec(&bytes).unwrap();
        let paths: Vec<_> = spec.components().into_iter().map(|leaf| leaf.path).collect();
        assert_eq!(serde_json::json!(paths), case["components"], "{}", case["name"]);
        assert_eq!(encode_spec(&spec), bytes, "{}", case["name"]);
    }
}

#[test]
fn leaves_that_cannot_be_read_are_named() {
    for (name, class) in [("optional", "class 7"), ("dataset", "class 5")] {
        let case = cases().into_iter().find(|case| case["name"] == name).unwrap();
        let status = decode_spec(&unhex(&case["spec"])).unwrap_err();
        assert_eq!(status.code, Code::Unimplemented);
        assert!(status.message.contains(&format!("unsupported spec, {class};")), "{status}");
    }
}

#[test]
fn a_spec_nested_too_deeply_is_refused() {
    let nested = |levels| {
        let leaf = cases().into_iter().find(|case| case["name"] == "scalar").unwrap();
        let spec = decode_spec(&unhex(&leaf["spec"])).unwrap();
        encode_spec(&(0..levels).fold(spec, |spec, _| Spec::Tuple(vec![spec])))
    };
    decode_spec(&nested(33)).unwrap();
    let status = decode_spec(&nested(34)).unwrap_err();
    assert!(status.message.contains("nested more than 33 deep"), "{status}");
    let mut deep = Vec::new();
    for _ in 0..5000 {
        deep = chunk(&[0xa2, 0x03], &chunk(&[0x0a], &deep));
    }
    let status = decode_spec(&deep).unwrap_err();
    assert!(status.message.contains("nested more than 33 deep"), "{status}");
}

/// A field of this tag.
fn chunk(tag: &[u8], content: &[u8]) -> Vec<u8> {
    let mut field = tag.to_vec();
    prost::encode_length_delimiter(content.len(), &mut field).unwrap();
    field.extend_from_slice(content);
    field
}

#[test]
fn an_empty_spec_is_refused() {
    let status = decode_spec(&[]).unwrap_err();
    assert_eq!(status.code, Code::InvalidArgument);
    assert_eq!(
        status.message,
        "element_spec: a value is empty; it must be a spec or a structure of them"
    );
    let status = decode_spec(&vec![0; (1 << 20) + 1]).unwrap_err();
    assert_eq!(status.code, Code::ResourceExhausted);
}
