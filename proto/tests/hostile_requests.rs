//! Every wrong field is refused by name, with its value; nothing panics.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use bytes::Bytes;
use proptest::collection::vec;
use proptest::prelude::*;
use prost::Message;
use rondo_core::coordination::Dialect;
use rondo_core::dispatcher::Request;
use rondo_core::limits::{
    COMPATIBILITY_INFO_BYTES_MAX, HEARTBEAT_ITEMS_MAX, NAME_BYTES_MAX, REQUEST_BYTES_MAX,
};
use rondo_core::status::{Code, Status};
use rondo_proto::convert::{
    CoordinationMethod, Decoded, Method, decode_coordination, decode_request,
};
use rondo_proto::tf::data as wire;

fn decode(method: Method, message: &impl Message) -> Result<Decoded, Status> {
    decode_request(method, &message.encode_to_vec().into())
}

/// The refusal's text, after checking its code.
fn refusal(method: Method, message: &impl Message, code: Code) -> String {
    let status = decode(method, message).unwrap_err();
    assert_eq!(status.code, code, "{status}");
    status.message
}

fn invalid(method: Method, message: &impl Message) -> String {
    refusal(method, message, Code::InvalidArgument)
}

fn request(method: Method, message: &impl Message) -> Request {
    match decode(method, message).unwrap() {
        Decoded::Request(request) => request,
        other => panic!("not a request: {other:?}"),
    }
}

fn job() -> wire::GetOrCreateJobRequest {
    wire::GetOrCreateJobRequest { dataset_id: "1000".into(), ..Default::default() }
}

#[test]
fn an_unknown_sharding_policy_is_internal_as_in_tensorflow() {
    let mode = Some(wire::ProcessingModeDef { sharding_policy: 6 });
    let bad = wire::GetOrCreateJobRequest { processing_mode_def: mode, ..job() };
    let text = refusal(Method::GetOrCreateJob, &bad, Code::Internal);
    assert!(text.starts_with("ProcessingMode "), "{text}");
    assert!(text.contains("6 does not specify a valid sharding policy"), "{text}");
}

#[test]
fn consumers_are_counted_from_one() {
    for number in [0, -1, i64::MIN, 65_537] {
        let bad = wire::GetOrCreateJobRequest { num_consumers: Some(number), ..job() };
        let text = invalid(Method::GetOrCreateJob, &bad);
        let expected = format!("GetOrCreateJobRequest.num_consumers is {number}; ");
        assert!(text.starts_with(&expected), "{text}");
    }
}

#[test]
fn an_unknown_target_is_refused() {
    let bad = wire::GetOrCreateJobRequest { target_workers: -7, ..job() };
    let text = invalid(Method::GetOrCreateJob, &bad);
    assert!(text.starts_with("GetOrCreateJobRequest.target_workers is -7; it must be"), "{text}");
}

#[test]
fn presence_makes_a_job_named() {
    let named = wire::GetOrCreateJobRequest { job_name: Some(String::new()), ..job() };
    for (message, name) in [(named, Some(String::new())), (job(), None)] {
        let Request::GetOrCreateJob(found) = request(Method::GetOrCreateJob, &message) else {
            panic!("another request");
        };
        assert_eq!(found.name, name);
    }
}

#[test]
fn names_have_a_longest() {
    let fits = wire::GetOrCreateJobRequest { job_name: Some("n".repeat(NAME_BYTES_MAX)), ..job() };
    decode(Method::GetOrCreateJob, &fits).unwrap();
    let long = "é".repeat(NAME_BYTES_MAX / 2 + 1);
    let cases = [
        (Method::GetOrCreateJob, "GetOrCreateJobRequest.job_name"),
        (Method::GetOrCreateJob, "GetOrCreateJobRequest.dataset_id"),
    ];
    let messages = [
        wire::GetOrCreateJobRequest { job_name: Some(long.clone()), ..job() },
        wire::GetOrCreateJobRequest { dataset_id: long.clone(), ..job() },
    ];
    for ((method, field), message) in cases.into_iter().zip(messages) {
        let text = invalid(method, &message);
        assert!(text.starts_with(&format!("{field} is 4098 bytes long (\"éé")), "{text}");
        assert!(text.contains("at most 4096 bytes"), "{text}");
        assert!(text.len() < 400, "the refusal repeats the whole name");
    }
    let dataset_id = long;
    let message = wire::GetDatasetDefRequest { dataset_id };
    for method in
        [Method::GetDatasetDef, Method::GetDataServiceMetadata, Method::DisableCompressionAtRuntime]
    {
        let text = invalid(method, &message);
        assert!(text.contains("Request.dataset_id is 4098 bytes long"), "{text}");
    }
}

fn heartbeat() -> wire::WorkerHeartbeatRequest {
    wire::WorkerHeartbeatRequest { worker_address: "host:1".into(), ..Default::default() }
}

#[test]
fn a_worker_says_who_it_is() {
    let nameless = wire::WorkerHeartbeatRequest::default();
    let text = invalid(Method::WorkerHeartbeat, &nameless);
    assert!(text.starts_with("WorkerHeartbeatRequest.worker_address is empty; "), "{text}");
    let text = invalid(Method::WorkerUpdate, &wire::WorkerUpdateRequest::default());
    assert!(text.starts_with("WorkerUpdateRequest.worker_address is empty; "), "{text}");
}

#[test]
fn lists_have_a_longest() {
    let many = HEARTBEAT_ITEMS_MAX + 1;
    let cases = [
        (
            "current_tasks",
            wire::WorkerHeartbeatRequest { current_tasks: vec![1; many], ..heartbeat() },
        ),
        (
            "worker_tags",
            wire::WorkerHeartbeatRequest { worker_tags: vec![String::new(); many], ..heartbeat() },
        ),
        (
            "transfer_servers",
            wire::WorkerHeartbeatRequest {
                transfer_servers: vec![wire::DataTransferServerInfo::default(); many],
                ..heartbeat()
            },
        ),
    ];
    for (field, message) in cases {
        let text = invalid(Method::WorkerHeartbeat, &message);
        let expected = format!("WorkerHeartbeatRequest.{field} is a list of 65537 items; ");
        assert!(text.starts_with(&expected), "{text}");
    }
    let updates = vec![wire::TaskProgress::default(); many];
    let update = wire::WorkerUpdateRequest { worker_address: "host:1".into(), updates };
    let text = invalid(Method::WorkerUpdate, &update);
    assert!(text.starts_with("WorkerUpdateRequest.updates is a list of 65537 items"), "{text}");
}

#[test]
fn requests_have_a_longest() {
    for method in Method::ALL {
        let bytes = Bytes::from(vec![0; REQUEST_BYTES_MAX + 1]);
        let status = decode_request(method, &bytes).unwrap_err();
        let expected = match method {
            Method::GetOrRegisterDataset => Code::InvalidArgument,
            Method::Snapshot => Code::Unimplemented,
            _ => Code::ResourceExhausted,
        };
        assert_eq!(status.code, expected, "{status}");
        let text = format!("{}Request is 4194305 bytes long; ", method.name());
        let names_size = status.message.starts_with(&text);
        assert_eq!(names_size, expected == Code::ResourceExhausted, "{status}");
    }
}

#[test]
fn a_large_graph_is_registered() {
    let dataset = Some(Bytes::from(vec![0; 2 * REQUEST_BYTES_MAX]));
    let message = wire::GetOrRegisterDatasetRequest { dataset, ..Default::default() };
    decode(Method::GetOrRegisterDataset, &message).unwrap();
}

/// Its versions have longer ids, which must be names too.
#[test]
fn the_id_of_a_dataset_that_is_replaced_leaves_room_for_those_of_versions() {
    let replacing = |bytes: usize| wire::GetOrRegisterDatasetRequest {
        dataset: Some(Bytes::new()),
        dataset_id: Some("n".repeat(bytes)),
        replaces: true,
        ..Default::default()
    };
    let most = NAME_BYTES_MAX - "@0123456789abcdef".len();
    decode(Method::GetOrRegisterDataset, &replacing(most)).unwrap();
    let text = invalid(Method::GetOrRegisterDataset, &replacing(most + 1));
    assert!(text.contains("dataset_id is 4080 bytes; one that is replaced has 4079"), "{text}");
}

#[test]
fn transfer_servers_are_checked_one_by_one() {
    let server = |server| wire::WorkerHeartbeatRequest {
        transfer_servers: vec![wire::DataTransferServerInfo::default(), server],
        ..heartbeat()
    };
    let info = wire::DataTransferServerInfo {
        compatibility_info: vec![0; COMPATIBILITY_INFO_BYTES_MAX + 1].into(),
        ..Default::default()
    };
    let text = invalid(Method::WorkerHeartbeat, &server(info));
    assert!(text.starts_with("DataTransferServerInfo.compatibility_info is 65537"), "{text}");
    let address = wire::DataTransferServerInfo { address: "a".repeat(5000), ..Default::default() };
    let text = invalid(Method::WorkerHeartbeat, &server(address));
    assert!(text.starts_with("DataTransferServerInfo.address is 5000 bytes long"), "{text}");
}

#[test]
fn what_a_worker_leaves_does_not_keep_its_whole_request() {
    let info = wire::DataTransferServerInfo {
        compatibility_info: vec![7; 100].into(),
        ..Default::default()
    };
    let message = wire::WorkerHeartbeatRequest { transfer_servers: vec![info], ..heartbeat() };
    let bytes = Bytes::from(message.encode_to_vec());
    let decoded = decode_request(Method::WorkerHeartbeat, &bytes).unwrap();
    assert!(matches!(&decoded, Decoded::Request(Request::WorkerHeartbeat(heartbeat))
        if heartbeat.transfer_servers[0].compatibility_info == vec![7; 100]));
    assert!(bytes.is_unique(), "something decoded is a part of the request");
    drop(decoded);
}

#[test]
fn a_target_processing_time_is_whole_and_saturates() {
    let cases = [
        (1.75, 1),
        (-3.0, 0),
        (f64::NAN, 0),
        (f64::INFINITY, u64::MAX),
        (f64::NEG_INFINITY, 0),
        (1e300, u64::MAX),
    ];
    for (target_processing_time_nsec, expected) in cases {
        let message =
            wire::ClientHeartbeatRequest { target_processing_time_nsec, ..Default::default() };
        let Request::ClientHeartbeat(found) = request(Method::ClientHeartbeat, &message) else {
            panic!("another request");
        };
        assert_eq!(found.target_processing_time_ns, expected, "{target_processing_time_nsec}");
    }
}

#[test]
fn rounds_tell_absent_from_zero() {
    let message = wire::ClientHeartbeatRequest {
        iteration_client_id: -1,
        current_round: Some(0),
        ..Default::default()
    };
    let Request::ClientHeartbeat(found) = request(Method::ClientHeartbeat, &message) else {
        panic!("another request");
    };
    assert_eq!((found.current_round, found.blocked_round), (Some(0), None));
    assert_eq!(found.client.get(), -1);
}

#[test]
fn a_registration_has_a_dataset_and_a_known_compression() {
    let text = invalid(Method::GetOrRegisterDataset, &wire::GetOrRegisterDatasetRequest::default());
    assert!(text.starts_with("GetOrRegisterDatasetRequest.dataset is missing"), "{text}");
    let registration = |metadata: &[u8]| wire::GetOrRegisterDatasetRequest {
        dataset: Some(Bytes::new()),
        metadata: Some(Bytes::copy_from_slice(metadata)),
        dataset_id: Some(String::new()),
        replaces: false,
    };
    let text = invalid(Method::GetOrRegisterDataset, &registration(&[0x10, 0x04]));
    assert!(text.starts_with("DataServiceMetadata.compression is 4; it must be"), "{text}");
    let text = invalid(Method::GetOrRegisterDataset, &registration(&[0xff]));
    assert!(text.contains("the 1 bytes received are no DataServiceMetadata"), "{text}");
    let Decoded::Register(found) =
        decode(Method::GetOrRegisterDataset, &registration(&[])).unwrap()
    else {
        panic!("another request");
    };
    assert_eq!(found.wished, None, "an empty id is no wish");
}

#[test]
fn snapshots_are_refused_as_unimplemented() {
    for method in [Method::Snapshot, Method::GetSnapshotSplit, Method::GetSnapshotStreams] {
        let status = decode_request(method, &Bytes::new()).unwrap_err();
        assert_eq!(status.code, Code::Unimplemented);
        assert!(status.message.starts_with(method.name()), "{status}");
    }
}

#[test]
fn malformed_bytes_are_refused_for_every_method() {
    // A length that reaches past the end.
    let cut = Bytes::from_static(&[0x0a, 0x7f]);
    for method in Method::ALL {
        let status = decode_request(method, &cut).unwrap_err();
        if status.code != Code::Unimplemented {
            assert_eq!(status.code, Code::InvalidArgument, "{status}");
            let name = format!("are no {}Request: ", method.name());
            assert!(status.message.contains(&name), "{status}");
        }
    }
}

#[test]
fn a_name_must_be_utf8() {
    let status = decode_request(Method::GetDatasetDef, &Bytes::from_static(&[0x0a, 0x01, 0xff]))
        .unwrap_err();
    assert_eq!(status.code, Code::InvalidArgument, "{status}");
}

fn method() -> impl Strategy<Value = Method> {
    prop::sample::select(Method::ALL.to_vec())
}

proptest! {
    #[test]
    fn any_bytes_are_a_request_or_a_refusal(method in method(), bytes in vec(any::<u8>(), 0..100)) {
        if let Err(status) = decode_request(method, &bytes.into()) {
            prop_assert!(!status.message.is_empty());
        }
    }

    /// Unknown fields must be tolerated.
    #[test]
    fn fields_of_other_releases_are_ignored(number in 100_u32..1000, value in any::<u32>()) {
        let message = wire::GetSplitRequest { iteration_id: 5, repetition: 6, split_provider_index: 7 };
        let mut bytes = message.encode_to_vec();
        prost::encoding::uint32::encode(number, &value, &mut bytes);
        let later = decode_request(Method::GetSplit, &bytes.into());
        prop_assert_eq!(later, decode(Method::GetSplit, &message));
    }
}

/// Two bytes can stand for a value. A request that takes too many steps to decode is refused, wherever the
/// last step falls.
#[test]
fn requests_of_too_many_fields_are_refused() {
    let insert = (Dialect::T, CoordinationMethod::InsertKeyValue);
    let empty = Bytes::from([0x0a, 0].repeat(8 << 20));
    let status = decode_coordination(insert, &empty).unwrap_err();
    assert_eq!(status.code, Code::ResourceExhausted, "{status}");
    assert!(status.message.contains("more than 4096 steps"), "{status}");
    // The revision, again and again, and a number that goes on where the steps end.
    let put = (Dialect::Rondo, CoordinationMethod::PutKey);
    for fields in 2040..2056 {
        let bytes = [[0x28, 1].repeat(fields), vec![0x28], vec![0x80; 10]].concat();
        decode_coordination(put, &bytes.into()).unwrap_err();
    }
    let few = Bytes::from([0x78, 1].repeat(1000));
    decode_coordination(put, &few).unwrap();
}
