//! What readers say of the splits they hold, and what they are told.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use bytes::Bytes;
use prost::Message;
use rondo_core::dispatcher::{Group, HeldSplit, HoldSplits, Reply, SplitProgress, SplitsHeld};
use rondo_core::ids::ClientId;
use rondo_core::status::Code;
use rondo_proto::admin as wire;
use rondo_proto::convert::{Encoded, decode_held, decode_hold, encode_hold, encode_reply};

fn request() -> wire::HoldSplitsRequest {
    wire::HoldSplitsRequest {
        client_id: 3000,
        hold: 2,
        progress: vec![wire::SplitProgress { place: 7, records: 258, finished: true }],
        group_index: None,
        group_size: None,
    }
}

fn decode(request: &wire::HoldSplitsRequest) -> Result<HoldSplits, String> {
    decode_hold(&request.encode_to_vec().into()).map_err(|status| {
        assert_eq!(status.code, Code::InvalidArgument);
        status.message
    })
}

#[test]
fn a_request_is_what_it_says() {
    let mut held = HoldSplits {
        client: ClientId::new(3000),
        hold: 2,
        progress: vec![SplitProgress { place: 7, records: 258, finished: true }],
        group: Group::ALL,
    };
    assert_eq!(decode(&request()), Ok(held.clone()));
    assert_eq!(encode_hold(&held), request().encode_to_vec());
    let (group_index, group_size) = (Some(1), Some(2));
    let grouped = wire::HoldSplitsRequest { group_index, group_size, ..request() };
    held.group = Group { index: 1, size: 2 };
    assert_eq!(decode(&grouped), Ok(held.clone()));
    assert_eq!(encode_hold(&held), grouped.encode_to_vec());
}

#[test]
fn what_is_out_of_range_is_named() {
    let grouped =
        |group_index, group_size| wire::HoldSplitsRequest { group_index, group_size, ..request() };
    let progress = vec![wire::SplitProgress::default(); 1025];
    let cases = [
        (wire::HoldSplitsRequest { hold: 1025, ..request() }, "hold is 1025; at most 1024"),
        (wire::HoldSplitsRequest { progress, ..request() }, "progress is a list of 1025 items"),
        (grouped(Some(0), None), "group_index is 0; it must come with a group_size"),
        (grouped(None, Some(3)), "group_size is 3; it must come with a group_index"),
        (grouped(Some(0), Some(0)), "group_size is 0; it must be from 1 to 1024"),
        (grouped(Some(0), Some(1025)), "group_size is 1025; it must be from 1 to 1024"),
        (grouped(Some(3), Some(3)), "group_index is 3; it must be below group_size, which is 3"),
    ];
    for (request, problem) in cases {
        let text = decode(&request).unwrap_err();
        assert!(text.contains(&format!("HoldSplitsRequest.{problem}")), "{text}");
    }
    assert!(decode_hold(&Bytes::from_static(b"\x0a")).is_err());
    let long = decode_hold(&vec![0x12; (4 << 20) + 1].into()).unwrap_err();
    assert_eq!(long.code, Code::ResourceExhausted);
}

#[test]
fn an_answer_reaches_the_reader() {
    let split = |place| HeldSplit { place, split: -5, records: 9 };
    for splits in [Vec::new(), vec![split(3), split(8)]] {
        let held =
            SplitsHeld { finished: splits.is_empty(), with_workers: splits.len() == 1, splits };
        let Encoded::Message(bytes) = encode_reply(Reply::SplitsHeld(held.clone())) else {
            panic!("no message");
        };
        assert_eq!(decode_held(&bytes), Ok(held));
    }
}

#[test]
fn an_answer_out_of_order_or_too_long_is_refused() {
    let split = |place| wire::HeldSplit { place, split: 0, records: 0 };
    let answer = |splits| wire::HoldSplitsResponse { splits, ..Default::default() }.encode_to_vec();
    let refused = |splits| decode_held(&answer(splits).into()).unwrap_err().message;
    let text = refused(vec![split(1), split(1)]);
    assert!(text.contains("place 1 before place 1"), "{text}");
    let text = refused((0..1025).map(split).collect());
    assert!(text.contains("1025 items"), "{text}");
}
