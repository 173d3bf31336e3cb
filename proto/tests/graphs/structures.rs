//! Element structures are equal where TensorFlow says so.

use std::collections::BTreeMap;

use rondo_proto::graph::{GraphError, structure_digest};

use crate::build::chunk;
use crate::recorded;

/// TensorFlow forgets fields that it does not know; here they count, so that structures only a
/// newer client can tell apart are not taken for the same.
const STRICTER: [&str; 1] = ["unknown field"];

#[test]
fn structures_are_equal_where_the_real_dispatcher_says_so() {
    let pairs = recorded::json("structures.json");
    let pairs = pairs.as_array().unwrap();
    assert!(pairs.len() > 40);
    for pair in pairs {
        let name = pair["name"].as_str().unwrap();
        let digest = |side: &str| structure_digest(&recorded::unhex(&pair[side])).unwrap();
        let same = pair["same"].as_bool().unwrap() && !STRICTER.contains(&name);
        assert_eq!(digest("first") == digest("second"), same, "{name}");
    }
}

#[test]
fn structures_that_clients_sent_are_told_apart() {
    let mut seen = BTreeMap::new();
    for (name, _, expected) in recorded::cases() {
        if expected["element_spec"].is_string() {
            let spec = recorded::unhex(&expected["element_spec"]);
            let digest = structure_digest(&spec).unwrap();
            let first = seen.entry(digest).or_insert_with(|| (name.clone(), spec.clone()));
            assert_eq!(first.1, spec, "{name} and {} have one digest", first.0);
        }
    }
    assert!(seen.len() > 10, "only {} structures", seen.len());
}

#[test]
fn a_digest_stays_what_it_is() {
    // A journal compares digests made by different releases: these bytes must never change.
    let empty = structure_digest(&[]).unwrap().to_string();
    assert_eq!(empty, "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262");
    let scalar = structure_digest(&[0x8a, 0x02, 0x04, 0x12, 0x00, 0x18, 0x09]).unwrap().to_string();
    assert_eq!(scalar, "f1aaa41c3d913f41b66e19e143d2c3ca5e4597348f256d41adcfb5c2d19433cf");
}

#[test]
fn depth_is_bounded() {
    let nested =
        |levels: usize| (0..levels).fold(Vec::new(), |inner, _| chunk(51, &chunk(1, &inner)));
    structure_digest(&nested(40)).unwrap();
    let error = structure_digest(&nested(2000)).unwrap_err();
    assert!(matches!(error, GraphError::TooDeep { depth_max: 100, .. }), "{error}");
}

#[test]
fn what_is_no_message_is_refused_with_its_place() {
    let error = structure_digest(&[0x8a, 0x02, 0x04, 0x12]).unwrap_err();
    assert_eq!(
        error,
        GraphError::Truncated { message: "StructuredValue", offset: 0, needed: 4, left: 1 }
    );
}
