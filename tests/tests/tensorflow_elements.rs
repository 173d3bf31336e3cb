//! TensorFlow reads the elements and specs that are written here.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a failed unwrap is a failed test"
)]

#[path = "../../proto/tests/elements/cases.rs"]
#[allow(dead_code, reason = "the other tests over these cases use more of it")]
mod cases;

use std::fs;
use std::process::Command;

use bytes::Bytes;
use prost::Message;
use rondo_core::element::Element;
use rondo_proto::element::{decode_spec, encode_compressed, encode_spec, encode_uncompressed};
use rondo_proto::tf::data as wire;
use rondo_tests::tensorflow;
use serde_json::{Value, json};
use wire::get_element_response::Element as Form;

use cases::{described, folder, recorded, unhex};

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The element in the answer, by itself.
fn form(answer: Bytes) -> Vec<u8> {
    match wire::GetElementResponse::decode(answer).unwrap().element.unwrap() {
        Form::Compressed(element) => element.encode_to_vec(),
        Form::Uncompressed(element) => element.encode_to_vec(),
    }
}

/// An element made from its description, in both forms.
fn written(case: &Value) -> Value {
    let described = case["components"].as_array().unwrap().iter().map(described);
    let element = Element { components: described.collect() };
    json!({
        "components": case["components"],
        "uncompressed": hex(&form(encode_uncompressed(&element).unwrap())),
        "compressed": hex(&form(encode_compressed(&element).unwrap())),
    })
}

#[test]
fn tensorflow_reads_what_is_written() {
    let Some(python) = tensorflow::python() else {
        return;
    };
    let (elements, specs) = (recorded("elements.json"), recorded("specs.json"));
    let is_dense = |case: &&Value| !case["components"].to_string().contains("variant");
    let elements = elements["elements"].as_array().unwrap().iter().filter(is_dense);
    let specs = specs.as_array().unwrap().iter().filter(|case| !case["components"].is_null());
    let spec = |case: &Value| {
        json!({
            "name": case["name"],
            "spec": hex(&encode_spec(&decode_spec(&unhex(&case["spec"])).unwrap())),
        })
    };
    let cases = json!({
        "elements": elements.map(written).collect::<Vec<_>>(),
        "specs": specs.map(spec).collect::<Vec<_>>(),
    });
    let file = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("written_elements.json");
    fs::write(&file, cases.to_string()).unwrap();
    let mut command = Command::new(python);
    command.arg(folder().join("read.py")).arg(&file).env("PYTHONDONTWRITEBYTECODE", "1");
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}\n{}", String::from_utf8_lossy(&output.stderr));
    assert!(said.contains("6 elements and 10 specs are as they should be"), "{said}");
}
