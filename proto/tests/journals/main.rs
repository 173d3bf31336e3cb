//! Journals and snapshots of released formats stay readable: every kind of record and every field.
//!
//! `v1` holds one journal segment and one snapshot. `v1/write.py` wrote them with an encoder of its own, from
//! field numbers copied by hand, so they tell when Rondo's encoder and decoder agree on another format
//! than the one that lies on disks. `schema.txt` lists all fields that were ever released.
//!
//! A new record or field fails three tests here, which say what to do: append an example of it at the end
//! of a list in `v1/write.py` and run that, append the same value in `records.rs` or `parts.rs`, and add
//! its line to `schema.txt`.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a failed unwrap is a failed test"
)]

mod parts;
mod records;
mod schema;
mod values;
mod wire;

use std::collections::BTreeSet;
use std::fmt::Debug;

use bytes::{Buf, Bytes};
use rondo_core::ids::Lsn;
use rondo_core::journal::GroupHeader;
use rondo_proto::frame::{
    FRAME_HEADER_BYTES, decode_part, decode_records, encode, encode_part, encode_records, scan,
};

use schema::Schema;
use wire::Seen;

const SEGMENT: &[u8] = include_bytes!("v1/00000000000000000001.seg");
const SNAPSHOT: &[u8] = include_bytes!("v1/00000000000000000500.snap");
const RELEASED: &str = include_str!("schema.txt");

/// The payloads of the golden segment's groups that have records, each with its header.
fn groups() -> Vec<(GroupHeader, Bytes)> {
    let stretches = scan(&Bytes::from_static(SEGMENT));
    let frames = stretches.into_iter().map(|stretch| stretch.frame.expect("a good frame"));
    let groups = frames.map(|(header, frame)| (header, frame.slice(FRAME_HEADER_BYTES..)));
    groups.filter(|(header, _)| header.count > 0).collect()
}

/// The parts of the golden snapshot. That its checksums are right is a test of the store.
fn parts() -> Vec<Bytes> {
    let (header_bytes, trailer_bytes) = (24, 48);
    let mut rest = Bytes::from_static(SNAPSHOT);
    rest.advance(header_bytes);
    let mut parts = Vec::new();
    while rest.len() > trailer_bytes {
        let length = rest.get_u32_le() as usize;
        let _checksum = rest.get_u32_le();
        parts.push(rest.split_to(length));
    }
    parts
}

/// Compares lists one by one, so that a difference shows alone.
fn assert_same<T: Debug + PartialEq>(found: &[T], expected: &[T]) {
    for (index, (found, expected)) in found.iter().zip(expected).enumerate() {
        assert_eq!(found, expected, "number {index}");
    }
    assert_eq!(found.len(), expected.len());
}

#[test]
fn released_records_are_read_as_they_were_meant() {
    let groups = groups();
    let expected = [records::dispatcher(), records::coordination()];
    assert_eq!(groups.len(), expected.len());
    for ((header, payload), expected) in groups.iter().zip(&expected) {
        assert_same(&decode_records(payload).unwrap(), expected);
        assert_eq!(header.count, expected.len() as u64);
    }
}

#[test]
fn released_parts_are_read_as_they_were_meant() {
    let found: Vec<_> = parts().iter().map(|part| decode_part(part).unwrap()).collect();
    assert_same(&found, &parts::all());
}

/// An older release of this format reads what this one writes.
#[test]
fn records_and_parts_are_written_as_released() {
    for ((_, payload), records) in
        groups().iter().zip([records::dispatcher(), records::coordination()])
    {
        let each = records.iter().flat_map(|record| encode_records(std::slice::from_ref(record)));
        assert_eq!(Bytes::from_iter(each), payload);
        assert_eq!(encode_records(&records), payload[..]);
    }
    for (part, released) in parts::all().iter().zip(parts()) {
        assert_eq!(encode_part(part), released[..], "{part:?}");
    }
}

/// The golden segment's frames, marks included, are those that this release writes.
#[test]
fn frames_are_written_as_released() {
    let mut written = Vec::new();
    let mut next = 1;
    let mut durable = 0;
    for (_, payload) in groups() {
        let count = decode_records(&payload).unwrap().len() as u64;
        for (first, count, payload) in [(next, count, &payload[..]), (next + count, 0, &[])] {
            let header =
                GroupHeader { first: Lsn::new(first), count, durable_upto: Lsn::new(durable) };
            let frame = encode(&header, payload).unwrap();
            written.extend_from_slice(&frame);
            written.resize(written.len().next_multiple_of(8), 0);
            durable = first + count - 1;
        }
        next += count;
    }
    let (used, rest) = SEGMENT.split_at(written.len());
    assert_eq!(written, used);
    assert!(rest.iter().all(|byte| *byte == 0), "space set aside");
}

fn seen(schema: &Schema) -> Seen {
    let mut seen = Seen::default();
    for (_, payload) in groups() {
        seen.message(schema, "rondo.journal.v1.Group", &payload);
    }
    for part in parts() {
        seen.message(schema, "rondo.journal.v1.Part", &part);
    }
    seen
}

/// Otherwise a mistake about what is missing would go unnoticed.
#[test]
fn the_golden_files_hold_every_kind_and_every_field() {
    let schema = Schema::read();
    let missing = seen(&schema).missing(&schema, "rondo.journal.v1");
    assert!(missing.is_empty(), "append these to v1/write.py and to the lists here: {missing:#?}");
}

/// Otherwise two fields could change places unnoticed.
#[test]
fn no_two_fields_of_the_golden_files_are_always_alike() {
    let schema = Schema::read();
    let alike = seen(&schema).alike(&schema, "rondo.journal.v1");
    assert!(alike.is_empty(), "give them different values once in v1/write.py: {alike:#?}");
}

#[test]
fn released_fields_keep_their_numbers_and_types() {
    let lines = Schema::read().lines();
    let now: BTreeSet<&str> = lines.iter().map(String::as_str).collect();
    let released: BTreeSet<&str> = RELEASED.lines().collect();
    let changed: Vec<_> = released.difference(&now).collect();
    assert!(changed.is_empty(), "released, so they must not change or go: {changed:#?}");
    let new: Vec<_> = now.difference(&released).collect();
    assert!(new.is_empty(), "add these lines to schema.txt: {new:#?}");
}
