//! What a worker asks its dispatcher, as the dispatcher understands it, and the answers back.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use std::sync::Arc;

use bytes::Bytes;
use prost::Message;
use rondo_core::dispatcher::{
    self, Definition, ShardingPolicy, TransferServer, WorkerHeartbeatReply,
};
use rondo_core::ids::{DatasetId, Digest, IterationId, TaskId};
use rondo_core::status::{Code, Status};
use rondo_core::worker::{Part, Reply, Request, ShardBy, TaskDef};
use rondo_proto::convert::{
    Decoded, Encoded, Method, PROTOCOL_VERSION, SplitRecords, WorkerIdentity, decode_read_split,
    decode_reply_of_dispatcher, decode_request, encode_definition, encode_reply,
    encode_request_to_dispatcher, encode_split_records, encode_version,
};
use rondo_proto::{admin, tf};

fn identity() -> WorkerIdentity {
    WorkerIdentity {
        address: "host:1".into(),
        tags: vec!["gpu".into()],
        uid: -1,
        transfer_servers: vec![TransferServer {
            protocol: "rondo".into(),
            address: "host:2".into(),
            compatibility_info: Bytes::from_static(b"1"),
            fall_back_to_grpc_at_client_creation_time: true,
            fall_back_to_grpc_at_get_element_time: true,
        }],
    }
}

/// The request as the dispatcher reads it.
fn heard(request: &Request) -> Decoded {
    let (path, message) = encode_request_to_dispatcher(&identity(), request);
    decode_request(Method::from_path(path).unwrap(), &message).unwrap()
}

fn answered(request: &Request, reply: dispatcher::Reply) -> Result<Reply, Status> {
    let Encoded::Message(message) = encode_reply(reply) else { panic!("a message") };
    decode_reply_of_dispatcher(request, &message, &mut Vec::new())
}

#[test]
fn the_dispatcher_understands_every_request() {
    assert_eq!(heard(&Request::Version), Decoded::Version);
    let tasks = vec![TaskId::new(3), TaskId::new(9)];
    let heartbeat = dispatcher::WorkerHeartbeat {
        address: "host:1".into(),
        current_tasks: tasks.clone(),
        tags: vec!["gpu".into()],
        uid: -1,
        transfer_servers: identity().transfer_servers,
    };
    let dataset = DatasetId::new("numbers");
    let requests = [
        (
            Request::Heartbeat { tasks: tasks.clone() },
            dispatcher::Request::WorkerHeartbeat(heartbeat),
        ),
        (
            Request::Update { completed: tasks.clone() },
            dispatcher::Request::WorkerUpdate {
                worker_address: "host:1".into(),
                progress: tasks.iter().map(|task| (*task, true)).collect(),
            },
        ),
        (
            Request::Split { iteration: IterationId::new(7) },
            dispatcher::Request::GetSplit {
                iteration: IterationId::new(7),
                repetition: 0,
                source: 0,
                asker: None,
            },
        ),
        (
            Request::Compression { dataset: dataset.clone() },
            dispatcher::Request::DisableCompression { dataset: dataset.clone(), disable: false },
        ),
        (
            Request::Definition { dataset: dataset.clone() },
            dispatcher::Request::GetDefinition { dataset },
        ),
    ];
    for (request, wanted) in requests {
        assert_eq!(heard(&request), Decoded::Request(wanted));
    }
}

#[test]
fn every_answer_is_understood() {
    let version = encode_version(PROTOCOL_VERSION);
    let understood = decode_reply_of_dispatcher(&Request::Version, &version, &mut Vec::new());
    assert_eq!(understood, Ok(Reply::Version(PROTOCOL_VERSION)));
    let split = Request::Split { iteration: IterationId::new(7) };
    for value in [None, Some(0), Some(i64::MAX), Some(-1)] {
        let understood = answered(&split, dispatcher::Reply::Split(value));
        assert_eq!(understood, Ok(Reply::Split(value)));
    }
    let dataset = DatasetId::new("numbers");
    let compression = Request::Compression { dataset: dataset.clone() };
    for (decision, compressed) in [(None, false), (Some(true), false), (Some(false), true)] {
        let understood = answered(&compression, dispatcher::Reply::Compression(decision));
        assert_eq!(understood, Ok(Reply::Compression(compressed)));
    }
    let definition = Request::Definition { dataset };
    let bytes = encode_definition(Bytes::from_static(b"definition"));
    let understood = decode_reply_of_dispatcher(&definition, &bytes, &mut Vec::new());
    assert_eq!(understood, Ok(Reply::Definition("definition".into())));
    let update = Request::Update { completed: Vec::new() };
    assert_eq!(answered(&update, dispatcher::Reply::WorkerUpdated), Ok(Reply::Done));
}

fn def(sharding: ShardingPolicy, inline: Option<Bytes>) -> dispatcher::TaskDef {
    dispatcher::TaskDef {
        task: TaskId::new(3),
        iteration: IterationId::new(7),
        dataset: DatasetId::new("numbers"),
        definition: Definition { digest: Digest::new([7; 32]), size_bytes: 10, inline },
        worker_address: Arc::from("host:1"),
        sharding,
        consumers: Some(4),
        split_providers: 1,
        workers: if sharding.is_static() { 5 } else { 0 },
        worker_index: if sharding.is_static() { 2 } else { 0 },
        use_cross_trainer_cache: true,
    }
}

#[test]
fn tasks_are_told_whole() {
    let shard = |by| Part::Shard { by, index: 2, of: 5 };
    let policies = [
        (ShardingPolicy::Off, Part::Whole),
        (ShardingPolicy::Hint, Part::Whole),
        (ShardingPolicy::Dynamic, Part::Splits),
        (ShardingPolicy::File, shard(ShardBy::File)),
        (ShardingPolicy::Data, shard(ShardBy::Data)),
        (ShardingPolicy::FileOrData, shard(ShardBy::FileOrData)),
    ];
    for (policy, part) in policies {
        for inline in [None, Some(Bytes::from_static(b"definition"))] {
            let reply = dispatcher::Reply::WorkerHeartbeat(WorkerHeartbeatReply {
                new_tasks: vec![def(policy, inline.clone())],
                tasks_to_delete: vec![TaskId::new(1)],
            });
            let wanted = TaskDef {
                task: TaskId::new(3),
                iteration: IterationId::new(7),
                dataset: DatasetId::new("numbers"),
                definition: inline,
                worker_address: "host:1".into(),
                part,
                consumers: Some(4),
                uses_cache: true,
            };
            let wanted = Reply::Tasks { new: vec![wanted], deleted: vec![TaskId::new(1)] };
            assert_eq!(answered(&Request::Heartbeat { tasks: vec![] }, reply), Ok(wanted));
        }
    }
}

#[test]
fn a_task_that_cannot_be_understood_keeps_no_other_back() {
    let task = |consumers| tf::data::TaskDef {
        dataset: Some(tf::data::task_def::Dataset::DatasetDef(Bytes::new())),
        worker_address: "host:1".into(),
        num_consumers: consumers,
        ..Default::default()
    };
    let answer = tf::data::WorkerHeartbeatResponse {
        new_tasks: vec![task(Some(-3)), task(None)],
        tasks_to_delete: vec![],
    };
    let mut refused = Vec::new();
    let heartbeat = Request::Heartbeat { tasks: vec![] };
    let answer = answer.encode_to_vec().into();
    let understood = decode_reply_of_dispatcher(&heartbeat, &answer, &mut refused).unwrap();
    let Reply::Tasks { new, .. } = understood else { panic!("{understood:?}") };
    assert_eq!(new.len(), 1);
    assert!(refused[0].message.contains("num_consumers is -3"), "{refused:?}");
}

#[test]
fn broken_answers_are_errors() {
    let dataset = || DatasetId::new("numbers");
    let requests = [
        Request::Split { iteration: IterationId::new(7) },
        Request::Compression { dataset: dataset() },
        Request::Definition { dataset: dataset() },
    ];
    for request in requests {
        for bytes in [Bytes::new(), Bytes::from_static(b"\xff\xff")] {
            let broken = decode_reply_of_dispatcher(&request, &bytes, &mut Vec::new());
            assert_eq!(broken.unwrap_err().code, Code::Internal, "{request:?}");
        }
    }
}

#[test]
fn records_of_a_split_are_asked_for_and_told() {
    let request =
        admin::ReadSplitRequest { task_id: 3, split: -1, skip: u64::MAX, batch_records: 9 };
    let read = decode_read_split(&request.encode_to_vec().into()).unwrap();
    let read = (read.task, read.split, read.skip, read.batch_records);
    assert_eq!(read, (TaskId::new(3), -1, u64::MAX, 9));
    let torn = decode_read_split(&Bytes::from_static(b"\xff")).unwrap_err();
    assert_eq!(torn.code, Code::InvalidArgument);
    let told = encode_split_records(SplitRecords {
        first: 4,
        count: 2,
        records: Bytes::from_static(b"arrow").into(),
        last: true,
        skipped: vec!["a.csv at byte 7".into()],
    });
    let told = admin::ReadSplitResponse::decode(told).unwrap();
    assert_eq!((told.first, told.count, &told.records[..], told.last), (4, 2, &b"arrow"[..], true));
    assert_eq!(told.skipped[0].what, "a.csv at byte 7");
}
