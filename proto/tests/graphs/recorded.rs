//! The recorded cases.

use std::fs;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use serde_json::Value;

pub(crate) fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/graphs/recorded")
}

pub(crate) fn json(name: &str) -> Value {
    serde_json::from_slice(&fs::read(directory().join(name)).unwrap()).unwrap()
}

/// Every case: its name, the definition a client registered, what TensorFlow made of it.
pub(crate) fn cases() -> Vec<(String, Bytes, Value)> {
    let Value::Object(cases) = json("expected.json") else {
        panic!("expected.json should hold one object");
    };
    assert!(cases.len() > 80, "only {} cases are recorded", cases.len());
    cases.into_iter().map(|(name, case)| (name.clone(), definition(&name), case)).collect()
}

pub(crate) fn definition(name: &str) -> Bytes {
    fs::read(directory().join(format!("{name}.def"))).unwrap().into()
}

pub(crate) fn unhex(text: &Value) -> Vec<u8> {
    let text = text.as_str().unwrap();
    (0..text.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap())
        .collect()
}
