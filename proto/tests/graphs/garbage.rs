//! Bytes that are no definition at all: an error that names the place, never a panic.

use bytes::Bytes;
use proptest::prelude::*;
use rondo_core::status::{Code, Status};
use rondo_proto::graph::{GraphError, prepare, structure_digest};

use crate::build::{chunk, varint};
use crate::recorded;

#[test]
fn every_prefix_of_every_definition_is_an_error_or_a_definition() {
    for (name, definition, _) in recorded::cases() {
        let step = (definition.len() / 300).max(1);
        for length in (0..definition.len()).step_by(step) {
            let cut = definition.slice(..length);
            // The outer message says how long it is, so no real prefix can pass for the whole.
            assert_eq!(prepare(&cut).is_err(), length > 0, "{name} cut to {length} bytes");
        }
    }
}

#[test]
fn errors_name_the_place() {
    let refused = |bytes: &[u8]| prepare(&Bytes::copy_from_slice(bytes)).unwrap_err();
    let at = |message, offset| (message, offset);
    let cut = chunk(1, &chunk(1, &[0x0a, 0x05, b'a']));
    assert_eq!(
        refused(&cut),
        GraphError::Truncated { message: "DatasetDef", offset: 4, needed: 5, left: 1 }
    );
    let endless = chunk(1, &[[0x0a].as_slice(), &[0xff; 12]].concat());
    let GraphError::BadVarint { message, offset } = refused(&endless) else { panic!() };
    assert_eq!(at(message, offset), at("DatasetDef", 3));
    for tag in [0x00, 0x06, 0x07, 0x0e, 0x04] {
        let GraphError::BadTag { offset, .. } = refused(&[0x08, 0x01, tag]) else {
            panic!("{tag}")
        };
        assert_eq!(offset, 2);
    }
    let status = Status::from(refused(&cut));
    assert_eq!(status.code, Code::InvalidArgument);
    assert!(status.message.contains("DatasetDef") && status.message.contains("byte 4"));
}

#[test]
fn groups_are_skipped_and_bounded() {
    let group = |depth: usize| [vec![0x7b; depth], vec![0x7c; depth]].concat();
    prepare(&group(100).into()).unwrap();
    let error = prepare(&group(101).into()).unwrap_err();
    assert!(matches!(error, GraphError::TooDeep { depth_max: 100, .. }), "{error}");
    prepare(&vec![0x7b; 1 << 20].into()).unwrap_err();
    prepare(&vec![0x7b, 0x74].into()).unwrap_err();
    // Fields of every wire type within a group.
    let fields = [0x08, 1, 0x09, 1, 2, 3, 4, 5, 6, 7, 8, 0x12, 1, 9, 0x1d, 1, 2, 3, 4];
    prepare(&[&[0x7b], fields.as_slice(), &[0x7c]].concat().into()).unwrap();
}

#[test]
fn a_length_beyond_memory_is_an_error() {
    for length in [1 << 31, 1 << 63, u64::MAX] {
        let bytes = [vec![0x0a], varint(length)].concat();
        assert!(matches!(prepare(&bytes.into()), Err(GraphError::Truncated { .. })));
    }
}

/// Reads bytes every way there is; only a panic fails.
fn read(bytes: Vec<u8>) {
    let bytes = Bytes::from(bytes);
    let _ = structure_digest(&bytes);
    if let Ok(prepared) = prepare(&bytes) {
        let again = prepare(&prepared.cleaned).unwrap();
        assert_eq!(again.cleaned, prepared.cleaned);
        assert_eq!(again.plan, prepared.plan);
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 2048,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn random_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        read(bytes);
    }

    #[test]
    fn mutated_definitions_never_panic(
        which in any::<prop::sample::Index>(),
        edits in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
        removed in proptest::option::of(any::<prop::sample::Index>()),
    ) {
        let mut bytes = recorded::definition(CASES[which.index(CASES.len())]).to_vec();
        for (at, value) in edits {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        if let Some(at) = removed {
            bytes.remove(at.index(bytes.len()));
        }
        read(bytes);
    }

    #[test]
    fn mutated_structures_never_panic(
        which in any::<prop::sample::Index>(),
        edits in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
    ) {
        let pairs = recorded::json("structures.json");
        let mut bytes = recorded::unhex(&which.get(pairs.as_array().unwrap())["first"]);
        for (at, value) in edits {
            if !bytes.is_empty() {
                let at = at.index(bytes.len());
                bytes[at] = value;
            }
        }
        read(bytes);
    }
}

/// Cases with every kind of node in them.
const CASES: &[&str] = &[
    "device",
    "device_on_nodes",
    "hash_table_mutable",
    "list",
    "range_down",
    "shuffle_far_interleave",
    "slices_of_datasets",
    "zip_nested",
];
