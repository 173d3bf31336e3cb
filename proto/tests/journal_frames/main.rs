//! Records and snapshot parts survive the journal; whatever else stands there is named.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod coordination;
mod splits;
mod values;

use proptest::collection::vec;
use proptest::prelude::*;
use rondo_core::control::{Part, Record};
use rondo_core::dispatcher::{Record as DispatcherRecord, SplitProgress};
use rondo_core::ids::{ClientId, IterationId, TaskId};
use rondo_core::time::Time;
use rondo_proto::frame::{
    FrameError, decode_part, decode_records, encode_part, encode_records, records,
};

fn record() -> impl Strategy<Value = Record> {
    prop_oneof![values::record(), coordination::record()]
}

fn part() -> impl Strategy<Value = Part> {
    prop_oneof![values::part(), coordination::part()]
}

proptest! {
    #[test]
    fn records_come_back_as_they_were(records in vec(record(), 0..8)) {
        prop_assert_eq!(decode_records(&encode_records(&records)).unwrap(), records);
    }

    #[test]
    fn parts_come_back_as_they_were(part in part()) {
        prop_assert_eq!(decode_part(&encode_part(&part)).unwrap(), part);
    }

    /// A cut group is never mistaken for the whole one.
    #[test]
    fn a_cut_group_is_refused_or_shorter(
        records in vec(record(), 1..6),
        cut in any::<prop::sample::Index>(),
    ) {
        let whole = encode_records(&records);
        let cut = cut.index(whole.len());
        if let Ok(found) = decode_records(&whole[..cut]) {
            prop_assert!(found.len() < records.len());
            prop_assert_eq!(&found[..], &records[..found.len()]);
        }
    }

    #[test]
    fn any_bytes_are_read_or_refused(bytes in vec(any::<u8>(), 0..200)) {
        if let Ok(records) = decode_records(&bytes) {
            prop_assert_eq!(decode_records(&encode_records(&records)).unwrap(), records);
        }
        if let Ok(part) = decode_part(&bytes) {
            prop_assert_eq!(decode_part(&encode_part(&part)).unwrap(), part);
        }
    }

    #[test]
    fn damaged_groups_do_not_panic(
        records in vec(record(), 1..4),
        at in any::<prop::sample::Index>(),
        byte in any::<u8>(),
    ) {
        let mut damaged = encode_records(&records);
        let at = at.index(damaged.len());
        damaged[at] = byte;
        let _ = decode_records(&damaged);
    }
}

fn one(record: DispatcherRecord) -> Vec<Record> {
    vec![Record::Dispatcher(record)]
}

/// Written once and for ever: these bytes may be in somebody's journal. From the field numbers in
/// journal.proto, by hand.
#[test]
fn released_bytes_stay_readable() {
    let split = DispatcherRecord::ProduceSplit {
        iteration: IterationId::new(2000),
        source: 1,
        repetition: 3,
        finished: true,
        task: None,
    };
    let released =
        [0x0a, 0x0d, 0x0a, 0x0b, 0x5a, 0x09, 0x08, 0xd0, 0x0f, 0x10, 0x01, 0x18, 0x03, 0x20, 0x01];
    assert_eq!(decode_records(&released), Ok(one(split.clone())));
    assert_eq!(encode_records(&one(split)), released);

    let client =
        DispatcherRecord::ReleaseClient { id: ClientId::new(1), at: Time::from_nanos(258) };
    let released =
        [0x0a, 0x0f, 0x0a, 0x0d, 0x52, 0x0b, 0x08, 0x01, 0x11, 0x02, 0x01, 0, 0, 0, 0, 0, 0];
    assert_eq!(decode_records(&released), Ok(one(client)));
}

/// Client 3000 has read split 7 and is 258 records far in split 8, and holds split 9 from now on,
/// as whoever comes gets the next one.
#[test]
fn held_splits_cost_few_bytes_and_stay_readable() {
    let progress = |place, records, finished| SplitProgress { place, records, finished };
    let held = DispatcherRecord::HoldSplits {
        client: ClientId::new(3000),
        progress: vec![progress(7, 1, true), progress(8, 258, false)],
        taken: vec![9],
        group_size: 1,
    };
    let released = [
        0x0a, 0x1c, 0x0a, 0x1a, 0xe2, 0x03, 0x17, // A record of kind 60.
        0x08, 0xb8, 0x17, // Its client.
        0x12, 0x06, 0x08, 0x07, 0x10, 0x01, 0x18, 0x01, // What is read.
        0x12, 0x05, 0x08, 0x08, 0x10, 0x82, 0x02, // What is being read.
        0x1a, 0x01, 0x09, // What is taken.
        0x20, 0x01,
    ];
    // Kind 60 is three bytes long with its length, so that the lengths above follow.
    assert_eq!(encode_records(&one(held.clone())), released);
    assert_eq!(decode_records(&released), Ok(one(held)));
}

#[test]
fn an_unknown_kind_is_named() {
    let mut group = encode_records(&one(DispatcherRecord::FinishTask { id: TaskId::new(7) }));
    // A second entry: machine 1, kind 99.
    group.extend([0x0a, 0x05, 0x0a, 0x03, 0x9a, 0x06, 0x00]);
    let error = decode_records(&group).unwrap_err();
    assert_eq!(error, FrameError::UnknownKind { index: 1, machine: 1, kind: 99 });
    assert!(error.to_string().starts_with("kind 1.99 at index 1 is not known"), "{error}");
}

#[test]
fn an_unknown_machine_is_named() {
    // An entry of machine 5, kind 2.
    let error = decode_records(&[0x0a, 0x04, 0x2a, 0x02, 0x12, 0x00]).unwrap_err();
    assert_eq!(error, FrameError::UnknownKind { index: 0, machine: 5, kind: 2 });
    let error = decode_part(&[0x2a, 0x02, 0x12, 0x00]).unwrap_err();
    assert_eq!(error, FrameError::UnknownKind { index: 0, machine: 5, kind: 2 });
}

#[test]
fn what_is_no_entry_is_refused() {
    // Field 2 of the group, which no release writes.
    let error = decode_records(&[0x12, 0x00]).unwrap_err();
    assert!(error.to_string().contains("key 18 where an entry should begin"), "{error}");
}

#[test]
fn records_before_a_bad_one_are_decoded_and_none_after_it() {
    let good = encode_records(&one(DispatcherRecord::FinishTask { id: TaskId::new(7) }));
    let group = [&good[..], &[0x0a, 0x00], &good].concat();
    let found: Vec<bool> = records(&group).map(|record| record.is_ok()).collect();
    assert_eq!(found, [true, false]);
}

#[test]
fn an_empty_entry_is_refused() {
    let error = decode_records(&[0x0a, 0x00]).unwrap_err();
    assert_eq!(error.to_string(), "the field machine is missing");
}

#[test]
fn a_missing_submessage_is_named() {
    // Registers worker 1 without a profile.
    let error = decode_records(&[0x0a, 0x06, 0x0a, 0x04, 0x1a, 0x02, 0x08, 0x01]).unwrap_err();
    assert_eq!(error.to_string(), "the field RegisterWorker.profile is missing");
}

#[test]
fn an_unknown_number_of_an_enum_is_named() {
    // Creates a job with sharding 9.
    let error = decode_records(&[0x0a, 0x06, 0x0a, 0x04, 0x2a, 0x02, 0x20, 0x09]).unwrap_err();
    assert_eq!(error.to_string(), "ShardingPolicy is 9; no release writes that number");
}

#[test]
fn fields_of_later_releases_are_ignored() {
    // Finishes task 7, and says something more in field 15.
    let later = [0x0a, 0x08, 0x0a, 0x06, 0x72, 0x04, 0x08, 0x07, 0x78, 0x01];
    let finish = DispatcherRecord::FinishTask { id: TaskId::new(7) };
    assert_eq!(decode_records(&later), Ok(one(finish)));
}

#[test]
fn a_split_costs_few_bytes() {
    let split = DispatcherRecord::ProduceSplit {
        iteration: IterationId::new(123_456),
        source: 0,
        repetition: 0,
        finished: false,
        task: None,
    };
    assert!(encode_records(&one(split)).len() <= 12);
}
