//! Each field that can be wrong, and how it is refused.

use bytes::Bytes;
use prost::Message;
use rondo_core::exchange::message::{Request, Tensor, ToMember, ToServer, ToWorker};
use rondo_core::exchange::{Key, RequestNumber, ScalarType, Stamps, TensorInfo};
use rondo_core::limits::{HEARTBEAT_ITEMS_MAX, NAME_BYTES_MAX};
use rondo_core::status::{Code, Status};

use super::*;
use crate::admin as wire;
use crate::admin::exchange_frame::Kind;
use crate::admin::exchange_traces::Result as Told;

const LIMITS: FrameLimits =
    FrameLimits { header_bytes_max: 1 << 20, body_bytes_max: 1 << 20, tensors_max: 4 };

/// What each side makes of it; one at most takes it.
fn refusals(kind: Kind) -> [Option<Status>; 4] {
    let header = Bytes::from(wire::ExchangeFrame { kind: Some(kind) }.encode_to_vec());
    let head = FrameHead { header_bytes: header.len() as u32, body_bytes: 0 };
    [
        decode_to_server(head, &header, Body::Elsewhere, &LIMITS).err(),
        decode_to_worker(head, &header, Body::Elsewhere, &LIMITS).err(),
        decode_to_scheduler(head, &header).err(),
        decode_to_member(head, &header).err(),
    ]
}

/// Everybody refuses it; whoever it is for names these.
#[track_caller]
fn assert_refused(kind: Kind, names: &[&str]) {
    let refusals = refusals(kind);
    let all = refusals.iter().map(|status| status.as_ref().expect("it is taken"));
    let about: Vec<&Status> =
        all.filter(|status| !status.message.contains("nobody says")).collect();
    assert!(!about.is_empty(), "nobody looked at it");
    for status in about {
        assert_eq!(status.code, Code::InvalidArgument);
        for name in names {
            assert!(status.message.contains(name), "{name:?} is not in {:?}", status.message);
        }
    }
}

#[track_caller]
fn assert_taken(kind: Kind) {
    assert!(refusals(kind.clone()).iter().any(Option::is_none), "{:?}", refusals(kind));
}

fn tensor() -> wire::ExchangeTensor {
    wire::ExchangeTensor { key: 7, dtype: 6, shape: vec![2, 3], bytes: 24 }
}

fn request(tensor: wire::ExchangeTensor) -> Kind {
    Kind::Request(wire::ExchangeRequest { number: 1, pulls: vec![tensor], ..Default::default() })
}

fn hello() -> wire::ExchangeHello {
    wire::ExchangeHello { protocol: EXCHANGE_PROTOCOL, ..Default::default() }
}

const SIZES: wire::ExchangeSizes = wire::ExchangeSizes { workers: 2, servers: 1, group: 1 };

fn member(role: u32, rank: u32) -> wire::ExchangeMember {
    wire::ExchangeMember { role, rank, state: 1, ..Default::default() }
}

fn membership(members: &[(u32, u32)]) -> wire::ExchangeMembership {
    let members = members.iter().map(|(role, rank)| member(*role, *rank)).collect();
    wire::ExchangeMembership { version: 1, sizes: Some(SIZES), members }
}

fn register() -> wire::ExchangeRegister {
    wire::ExchangeRegister {
        protocol: EXCHANGE_PROTOCOL,
        role: 4,
        sizes: Some(SIZES),
        ..Default::default()
    }
}

fn assigned() -> wire::ExchangeAssigned {
    let membership = Some(membership(&[(4, 1)]));
    wire::ExchangeAssigned { node: 11, rank: 1, membership, passed: Vec::new() }
}

fn barrier(mask: u32, scope: i32) -> wire::ExchangeBarrier {
    wire::ExchangeBarrier { number: 1, mask, scope }
}

#[test]
fn tensors_that_are_none() {
    let with = |change: fn(&mut wire::ExchangeTensor)| {
        let mut tensor = tensor();
        change(&mut tensor);
        request(tensor)
    };
    assert_taken(request(tensor()));
    assert_refused(with(|it| it.dtype = 99), &["ExchangeRequest.tensor", "key 7", "99"]);
    assert_refused(with(|it| it.dtype = -1), &["-1"]);
    assert_refused(with(|it| it.shape = vec![1; 9]), &["key 7", "9 dimensions", "8"]);
    assert_refused(with(|it| it.shape = vec![2, -3]), &["key 7", "[2, -3]", "negative"]);
    assert_refused(with(|it| it.shape = vec![i64::MAX; 3]), &["key 7", "64 bits"]);
    let names = ["ExchangeRequest.tensor.bytes is 23", "float32[2, 3]", "24", "key 7"];
    assert_refused(with(|it| it.bytes = 23), &names);
}

#[test]
fn requests_that_are_none() {
    let with = |change: fn(&mut wire::ExchangeRequest)| {
        let mut request = wire::ExchangeRequest { number: 1, ..Default::default() };
        change(&mut request);
        Kind::Request(request)
    };
    assert_taken(with(|_| {}));
    assert_refused(with(|it| it.number = 0), &["ExchangeRequest.number", "from 1"]);
    assert_refused(with(|it| it.stamps = vec![1; 7]), &["stamps", "7 items", "8"]);
    let names = ["ExchangeRequest.pulls", "3 items", "at most 2"];
    assert_refused(
        with(|it| {
            it.pushes = vec![tensor(); 2];
            it.pulls = vec![tensor(); 3];
        }),
        &names,
    );
    let too_many = HEARTBEAT_ITEMS_MAX + 1;
    assert_refused(
        with(|it| it.acknowledged = vec![1; HEARTBEAT_ITEMS_MAX + 1]),
        &["ExchangeRequest.acknowledged", &too_many.to_string()],
    );
}

#[test]
fn processes_that_are_none() {
    let hello_with = |change: fn(&mut wire::ExchangeHello)| {
        let mut hello = hello();
        change(&mut hello);
        Kind::Hello(hello)
    };
    assert_taken(hello_with(|_| {}));
    assert_refused(hello_with(|it| it.protocol = 2), &["ExchangeHello.protocol is 2", "speaks 1"]);
    assert_refused(hello_with(|it| it.open = vec![2, 2]), &["ExchangeHello.open", "ascending"]);
    let with = |change: fn(&mut wire::ExchangeRegister)| {
        let mut register = register();
        change(&mut register);
        Kind::Register(register)
    };
    assert_taken(with(|_| {}));
    assert_refused(with(|it| it.protocol = 0), &["ExchangeRegister.protocol is 0"]);
    assert_refused(with(|it| it.role = 1), &["ExchangeRegister.role is 1", "2 (server)"]);
    assert_refused(with(|it| it.sizes = None), &["ExchangeRegister.sizes is missing"]);
    let names = ["ExchangeRegister.host", "5000 bytes", &NAME_BYTES_MAX.to_string()];
    assert_refused(with(|it| it.host = "x".repeat(5000)), &names);
    assert_refused(
        with(|it| it.addresses = vec![String::new(); 1025]),
        &["ExchangeRegister.addresses", "1025"],
    );
    assert_refused(
        with(|it| it.waiting = vec![barrier(7, 1); 15]),
        &["ExchangeRegister.waiting", "15 items", "14"],
    );
    assert_refused(
        with(|it| it.passed = vec![wire::ExchangePassed { mask: 8, scope: 1, count: 0 }]),
        &["ExchangeRegister.passed.mask is 8"],
    );
}

#[test]
fn memberships_that_are_none() {
    assert_taken(Kind::Membership(membership(&[(2, 0), (4, 0), (4, 1)])));
    for members in [&[(4, 0), (2, 0)][..], &[(4, 0), (4, 0)], &[(4, 2)], &[(2, 1)]] {
        let known = Some(membership(members));
        assert_refused(Kind::Membership(membership(members)), &["members", "each rank once"]);
        let register = Kind::Register(wire::ExchangeRegister { known, ..register() });
        assert_refused(register, &["ExchangeMembership.members"]);
    }
    let mut wrong = membership(&[(4, 0)]);
    wrong.members[0].state = 4;
    assert_refused(Kind::Membership(wrong), &["ExchangeMember.state is 4", "3 (lost)"]);
    assert_refused(Kind::Membership(membership(&[(1, 0)])), &["ExchangeMember.role is 1"]);
    let unsized_ = wire::ExchangeMembership { sizes: None, ..membership(&[]) };
    assert_refused(Kind::Membership(unsized_), &["ExchangeMembership.sizes is missing"]);
}

#[test]
fn words_of_the_scheduler_that_are_none() {
    assert_taken(Kind::Assigned(assigned()));
    for node in [0, 1, 8, 9, 12, 13] {
        let wrong = wire::ExchangeAssigned { node, ..assigned() };
        assert_refused(Kind::Assigned(wrong), &["ExchangeAssigned.node is", "twice the rank"]);
    }
    let alone = wire::ExchangeAssigned { membership: None, ..assigned() };
    assert_refused(Kind::Assigned(alone), &["ExchangeAssigned.membership is missing"]);
    let done = wire::ExchangeBarrierDone { number: 1, result: None };
    assert_refused(Kind::BarrierDone(done), &["ExchangeBarrierDone.result is missing"]);
    assert_refused(Kind::Barrier(barrier(0, 1)), &["ExchangeBarrier.mask is 0", "1 to 7"]);
    assert_refused(Kind::Barrier(barrier(7, 3)), &["ExchangeBarrier.scope is 3"]);
    let status = wire::ExchangeStatus { code: 0, message: String::new() };
    assert_refused(Kind::Rejected(status), &["ExchangeFrame.rejected is 0", "1 to 16"]);
    let refused = wire::ExchangeRefused { number: 1, status: None };
    assert_refused(Kind::Refused(refused), &["ExchangeRefused.status is missing"]);
    let welcome = wire::ExchangeWelcome::default();
    assert_refused(Kind::Welcome(welcome), &["ExchangeWelcome.credits is missing"]);
}

#[test]
fn traces_that_are_none() {
    let passage = |number| wire::ExchangePassage { number, leg: 1, ..Default::default() };
    let page_with = |change: fn(&mut wire::ExchangePage)| {
        let passages = vec![passage(2), passage(5)];
        let mut page = wire::ExchangePage { last: 5, passages, ..Default::default() };
        change(&mut page);
        page
    };
    let known = |page| Kind::Known(wire::ExchangeKnown { number: 1, page });
    let traces =
        |result| Kind::Traces(wire::ExchangeTraces { number: 1, asked: 2, back: 3, result });
    let both = |change: fn(&mut wire::ExchangePage)| {
        let page = page_with(change);
        [known(Some(page.clone())), traces(Some(Told::Page(page)))]
    };
    both(|_| {}).into_iter().for_each(assert_taken);
    let refused = |change: fn(&mut wire::ExchangePage), names: &[&str]| {
        both(change).into_iter().for_each(|kind| assert_refused(kind, names));
    };
    refused(|it| it.last = 4, &["ExchangePage.passages", "ascend", "last (4)"]);
    refused(|it| it.passages.reverse(), &["ExchangePage.passages", "ascend"]);
    refused(|it| it.passages[0].leg = 3, &["ExchangePassage.leg is 3", "2 (pulls)"]);
    refused(|it| it.passages[0].stamps = vec![1; 9], &["stamps", "9 items", "8"]);
    let too_far = |it: &mut wire::ExchangePage| {
        (it.passages[0].handler, it.passages[0].handlers) = (u64::MAX, 1);
    };
    refused(too_far, &["ExchangePassage.handler", "64 bits"]);
    let names = ["ExchangePage.passages", "1025 items", "at most 1024"];
    refused(|it| it.passages = vec![wire::ExchangePassage::default(); 1025], &names);
    assert_refused(known(None), &["ExchangeKnown.page is missing"]);
    assert_refused(traces(None), &["ExchangeTraces.result is missing"]);
    let status = wire::ExchangeStatus { code: 99, ..Default::default() };
    assert_refused(traces(Some(Told::Refused(status))), &["ExchangeTraces.result is 99"]);
    let ask = |role| wire::ExchangeAskTraces { number: 1, role, rank: 0, after: 0 };
    assert_taken(Kind::AskTraces(ask(4)));
    assert_refused(Kind::AskTraces(ask(1)), &["ExchangeAskTraces.role is 1", "4 (worker)"]);
    let observe = |protocol| Kind::Observe(wire::ExchangeObserve { protocol });
    assert_taken(observe(1));
    assert_refused(observe(2), &["ExchangeObserve.protocol is 2", "speaks 1"]);
}

#[test]
fn a_message_of_a_later_version_is_refused() {
    let header = Bytes::from_static(&[0xa2, 0x06, 0]);
    let head = FrameHead { header_bytes: 3, body_bytes: 0 };
    let status = decode_to_scheduler(head, &header).unwrap_err();
    assert!(status.message.contains("ExchangeFrame.kind is missing"), "{status}");
}

#[test]
fn frames_that_are_too_long_are_refused_before_they_are_read() {
    let limits = FrameLimits { header_bytes_max: 10, body_bytes_max: 20, tensors_max: 1 };
    for (header_bytes, body_bytes, names) in [
        (11, 20, ["header", "11", "10"]),
        (10, 21, ["body", "21", "20"]),
        (u32::MAX, u64::MAX, ["header", "4294967295", "10"]),
    ] {
        let head = FrameHead { header_bytes, body_bytes };
        let status = FrameHead::decode(&head.encode(), &limits).unwrap_err();
        assert_eq!(status.code, Code::ResourceExhausted);
        assert!(names.iter().all(|name| status.message.contains(name)), "{status}");
    }
    // Somebody else's protocol.
    let status = FrameHead::decode(b"GET / HTTP/1", &FrameLimits::default()).unwrap_err();
    assert_eq!(status.code, Code::ResourceExhausted);
}

/// As `docs/exchange.md` says.
#[test]
fn a_header_has_16_mib_at_most_and_what_a_scheduler_hears_has_no_body() {
    const MAX: u32 = 16 << 20;
    let read = |header_bytes, body_bytes| {
        let head = FrameHead { header_bytes, body_bytes };
        FrameHead::decode(&head.encode(), &FrameLimits::of_scheduler()).map(|it| it == head)
    };
    assert_eq!(read(MAX, 0), Ok(true));
    for (header_bytes, body_bytes, name) in [(MAX + 1, 0, "16777217"), (MAX, 1, "body has 1 ")] {
        let status = read(header_bytes, body_bytes).unwrap_err();
        assert_eq!(status.code, Code::ResourceExhausted);
        assert!(status.message.contains(name), "{status}");
    }
}

#[test]
fn what_is_too_long_is_not_written() {
    let info = TensorInfo::new(ScalarType::Byte, &[1 << 21]).unwrap();
    let push = Tensor { key: Key::new(1), info, payload: () };
    let message = ToServer::Request(Request {
        number: RequestNumber::new(1),
        acknowledged: Vec::new(),
        pushes: vec![push],
        pulls: Vec::new(),
        stamps: Stamps::default(),
    });
    let mut out = Vec::new();
    let status = encode_to_server(&message, Body::Follows, &LIMITS, &mut out).unwrap_err();
    assert_eq!((status.code, out.len()), (Code::ResourceExhausted, 0));
    assert!(status.message.contains("2097152"), "{status}");
    assert!(encode_to_server(&message, Body::Elsewhere, &LIMITS, &mut out).is_ok());
}

#[test]
fn a_text_that_is_too_long_is_cut_where_a_character_ends() {
    let text = format!("{}{}", "x".repeat(NAME_BYTES_MAX - 1), "ßß");
    let message = ToMember::Rejected(Status::new(Code::Internal, text));
    let mut out = Vec::new();
    let head = encode_to_member(&message, &FrameLimits::of_scheduler(), &mut out).unwrap();
    let header = Bytes::from(out.split_off(FRAME_HEAD_BYTES));
    let ToMember::Rejected(status) = decode_to_member(head, &header).unwrap() else {
        panic!("something else is read");
    };
    assert_eq!(status.message.len(), NAME_BYTES_MAX - 1);
}

/// The layout of a frame does not change: old and new releases must refuse each other in words.
#[test]
fn a_frame_byte_for_byte() {
    let message: ToWorker<()> = ToWorker::Released { number: RequestNumber::new(300) };
    let mut out = Vec::new();
    encode_to_worker(&message, Body::Follows, &LIMITS, &mut out).unwrap();
    assert_eq!(out, [5, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x42, 3, 0x08, 0xac, 0x02]);
}

/// Two bytes each on the wire, and many times that in memory.
#[test]
fn a_header_of_many_empty_parts_is_refused_before_it_is_decoded() {
    let many = 1 << 20;
    let mut members = membership(&[]);
    members.members = vec![wire::ExchangeMember::default(); many];
    let mut one = membership(&[(4, 0)]);
    one.members[0].addresses = vec![String::new(); many];
    let tensors = vec![wire::ExchangeTensor::default(); many];
    let passages = vec![wire::ExchangePassage::default(); many];
    let page = wire::ExchangePage { passages, ..Default::default() };
    let known = Some(members.clone());
    for kind in [
        Kind::Membership(members),
        Kind::Membership(one),
        Kind::Register(wire::ExchangeRegister { known: known.clone(), ..register() }),
        Kind::Assigned(wire::ExchangeAssigned { membership: known, ..assigned() }),
        Kind::Request(wire::ExchangeRequest { pulls: tensors.clone(), ..Default::default() }),
        Kind::Answer(wire::ExchangeAnswer { tensors, ..Default::default() }),
        Kind::Known(wire::ExchangeKnown { number: 1, page: Some(page.clone()) }),
        Kind::Traces(wire::ExchangeTraces { result: Some(Told::Page(page)), ..Default::default() }),
    ] {
        for status in refusals(kind) {
            let status = status.expect("it is taken");
            assert_eq!(status.code, Code::ResourceExhausted);
            assert!(status.message.contains("524288"), "{status}");
        }
    }
}

/// A membership of as many processes as there may be is none of these.
#[test]
fn a_membership_of_all_that_there_may_be_passes() {
    let count = 1 << 16;
    let sizes = wire::ExchangeSizes { workers: count, servers: 1, group: 1 };
    let members = (0..count).map(|rank| wire::ExchangeMember {
        addresses: vec!["tcp://10.0.0.1:40000".into(), "unix:///run/socket".into()],
        host: "a host that is like any other".into(),
        ..member(4, rank)
    });
    let members = members.collect();
    assert_taken(Kind::Membership(wire::ExchangeMembership {
        version: 1,
        sizes: Some(sizes),
        members,
    }));
}
