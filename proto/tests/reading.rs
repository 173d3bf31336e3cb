//! What readers say of the splits they hold, and what they are told.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use bytes::Bytes;
use prost::Message;
use rondo_core::dispatcher::{Group, HeldSplit, HoldSplits, Reply, SplitProgress, SplitsHeld};
use rondo_core::ids::ClientId;
use rondo_core::status::Code;
use rondo_proto::admin as wire;
use rondo_proto::convert::{
    Encoded, decode_end_reader, decode_ended, decode_held, decode_hold, encode_hold, encode_reply,
};

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

#[test]
fn a_request_to_end_a_reader_must_name_a_job() {
    let decode = |job: &str| {
        let request = wire::EndReaderRequest { client_id: 7, job: job.to_owned() };
        decode_end_reader(&request.encode_to_vec().into()).map_err(|status| status.message)
    };
    for job in ["train", &"n".repeat(4096)] {
        assert_eq!(decode(job), Ok((ClientId::new(7), job.to_owned())));
    }
    for job in ["", &"n".repeat(4097)] {
        let text = decode(job).unwrap_err();
        let problem = format!("EndReaderRequest.job is a name of {} bytes", job.len());
        assert!(text.contains(&problem), "{text}");
        assert!(text.contains("it must have from 1 to 4096 bytes"), "{text}");
    }
    assert!(decode_end_reader(&Bytes::from_static(b"\x12")).is_err());
}

#[test]
fn how_far_a_reader_came_is_told_in_order() {
    let split = |place| wire::SplitRead { place, records: 9 };
    let answer = |splits| {
        let response = wire::EndReaderResponse { iteration_id: 4, repetition: 2, splits };
        decode_ended(&response.encode_to_vec().into()).map_err(|status| status.message)
    };
    let told = answer(vec![split(3), split(8)]).unwrap();
    assert_eq!((told.iteration.get(), told.repetition), (4, 2));
    let splits: Vec<_> = told.splits.iter().map(|split| (split.place, split.records)).collect();
    assert_eq!(splits, [(3, 9), (8, 9)]);
    let text = answer(vec![split(2), split(1)]).unwrap_err();
    assert!(text.contains("EndReaderResponse.splits is place 2 before place 1"), "{text}");
    let text = answer((0..1025).map(split).collect()).unwrap_err();
    assert!(text.contains("1025 items"), "{text}");
}
