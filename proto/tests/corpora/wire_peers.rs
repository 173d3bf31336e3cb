//! Any bytes as what peers answer and send: workers, dispatchers, readers, agents, relays, other workers'
//! rendezvous, and bulk connections. They are taken, alike each time, or refused in words.

use std::fmt::Debug;
use std::sync::Arc;

use bytes::Bytes;
use rondo_core::ids::{ClientId, DatasetId, IterationId, JobId, TaskId, TaskIndex};
use rondo_core::status::Status;
use rondo_core::time::Duration;
use rondo_core::{agent, reader, worker};
use rondo_proto::convert::{
    RendezvousMethod, WorkerMethod, decode_agent_reply, decode_bulk_call, decode_bulk_end,
    decode_bulk_head, decode_bulk_lent, decode_bulk_near, decode_cluster_def,
    decode_definition_answer, decode_details, decode_devices, decode_element_answer,
    decode_fetch_chunk, decode_fetch_chunk_in_pieces, decode_forward, decode_forwarded,
    decode_hello, decode_metadata_answer, decode_read_split, decode_reader_answer,
    decode_received_tensor, decode_records, decode_register, decode_registered,
    decode_rendezvous_request, decode_reply_of_dispatcher, decode_reset_namespace,
    decode_worker_devices, decode_worker_refusal, decode_worker_request, decode_worker_tasks,
    encode_bulk_head, encode_bulk_lent, encode_bulk_near,
};
use rondo_proto::dataset::decode_definition;
use rondo_proto::element::{decode_spec, decode_tensor};

/// Longest text of a refusal, in bytes.
const TEXT_BYTES_MAX: usize = 4096;
/// Longest tensor or element that is taken, in bytes.
const BYTES_MAX: u64 = 1 << 20;
/// A field that no message has, as a later release may write it.
const UNKNOWN_FIELD: [u8; 4] = [0xf8, 0xff, 0x07, 0x2a];

/// What a decoder makes of bytes, as text: for each request that they may answer, or each method.
type Told = Vec<Result<String, Status>>;

fn text<T: Debug>(result: Result<T, Status>) -> Told {
    vec![result.map(|told| format!("{told:?}"))]
}

/// Decoders of messages, to which an unknown field means nothing.
const MESSAGES: [fn(&Bytes) -> Told; 23] = [
    |bytes| text(decode_devices(bytes)),
    |bytes| text(decode_cluster_def(bytes)),
    |bytes| text(decode_worker_tasks("w:1", bytes)),
    |bytes| text(decode_read_split(bytes)),
    |bytes| text(decode_hello(bytes)),
    |bytes| text(decode_forward(bytes)),
    |bytes| text(decode_forwarded(bytes)),
    |bytes| text(decode_registered(bytes)),
    |bytes| text(decode_metadata_answer(bytes)),
    |bytes| text(decode_definition_answer(bytes)),
    |bytes| text(decode_register(bytes)),
    |bytes| text(decode_reset_namespace(bytes)),
    |bytes| text(decode_bulk_call(bytes.clone())),
    |bytes| text(decode_worker_devices(bytes)),
    |bytes| text(decode_received_tensor(bytes, BYTES_MAX)),
    |bytes| text(decode_element_answer(bytes, BYTES_MAX)),
    |bytes| text(decode_tensor(bytes, BYTES_MAX)),
    |bytes| text(decode_spec(bytes)),
    |bytes| text(chunk(bytes)),
    |bytes| many(WorkerMethod::ALL, |method| text(decode_worker_request(method, bytes))),
    |bytes| {
        let methods = RendezvousMethod::ALL.iter().copied();
        many(methods, |method| text(decode_rendezvous_request(method, bytes, BYTES_MAX)))
    },
    |bytes| many(of_readers(), |request| text(decode_reader_answer(&request, bytes))),
    |bytes| many(of_agents(), |request| text(decode_agent_reply(&request, bytes))),
];

/// Decoders of what has a form of its own.
const OTHERS: [fn(&Bytes) -> Told; 8] = [
    |bytes| many(of_workers(), |request| of_dispatcher(&request, bytes)),
    |bytes| text(Ok(decode_details(bytes))),
    // Its refusals are the peer's.
    |bytes| text(Ok(decode_bulk_end(bytes.clone()))),
    |bytes| text(decode_definition(bytes)),
    |bytes| text(decode_records(bytes, BYTES_MAX).map(drop)),
    |bytes| text(near(bytes)),
    |bytes| text(bulk(bytes)),
    |bytes| {
        let message = String::from_utf8_lossy(bytes).into_owned();
        let status = Status::new(rondo_core::status::Code::Internal, message);
        text(Ok(decode_worker_refusal(status)))
    },
];

/// Checks one input: its first byte says who reads the rest. True when that is taken.
pub(crate) fn check(bytes: &[u8]) -> bool {
    let Some((who, rest)) = bytes.split_first() else {
        return false;
    };
    let rest = Bytes::copy_from_slice(rest);
    let who = usize::from(*who) % (MESSAGES.len() + OTHERS.len());
    let Some(read) = MESSAGES.get(who) else {
        return check_twice(OTHERS[who - MESSAGES.len()], &rest);
    };
    let later: Bytes = [&rest, &UNKNOWN_FIELD[..]].concat().into();
    for (told, later) in read(&rest).into_iter().zip(read(&later)) {
        assert!(told.is_err() || told == later, "decoder {who}: an unknown field counts");
    }
    check_twice(*read, &rest)
}

/// Whether any of it is taken.
fn check_twice(read: fn(&Bytes) -> Told, bytes: &Bytes) -> bool {
    let told = read(bytes);
    assert_eq!(read(bytes), told, "decoded in two ways");
    for status in told.iter().filter_map(|told| told.as_ref().err()) {
        let length = status.message.len();
        assert!((1..=TEXT_BYTES_MAX).contains(&length), "{length} bytes: {status}");
    }
    told.iter().any(Result::is_ok)
}

fn many<T>(of: impl IntoIterator<Item = T>, read: impl FnMut(T) -> Told) -> Told {
    of.into_iter().flat_map(read).collect()
}

fn of_dispatcher(request: &worker::Request, bytes: &Bytes) -> Told {
    let mut refused = Vec::new();
    let told = decode_reply_of_dispatcher(request, bytes, &mut refused);
    text(told.map(|told| (told, refused)))
}

/// In pieces it is the same. What is cut off is taken in pieces only, as far as it is there.
fn chunk(bytes: &Bytes) -> Result<impl Debug, Status> {
    let whole = decode_fetch_chunk(bytes);
    let halves = [bytes.slice(..bytes.len() / 2), bytes.slice(bytes.len() / 2..)];
    let pieces = decode_fetch_chunk_in_pieces(halves.into_iter().collect());
    match (&whole, pieces) {
        (Ok(whole), pieces) => {
            let pieces = pieces.unwrap();
            let found = (pieces.total_bytes, pieces.offset, pieces.data.join());
            assert_eq!(found, (whole.total_bytes, whole.offset, whole.data.clone()));
        }
        (Err(_), Ok(pieces)) => assert!(pieces.data.len() < bytes.len()),
        (Err(_), Err(_)) => {}
    }
    whole
}

fn near(bytes: &Bytes) -> Result<impl Debug, Status> {
    let near = decode_bulk_near(bytes.clone())?;
    assert_eq!(encode_bulk_near(near), bytes);
    Ok(near)
}

/// What stands in front of a frame, and where a message lies: written as it was read.
fn bulk(bytes: &Bytes) -> Result<impl Debug, Status> {
    if let Some(lent) = bytes.first_chunk() {
        assert_eq!(encode_bulk_lent(decode_bulk_lent(*lent)), *lent);
    }
    let short = || Status::new(rondo_core::status::Code::Internal, "too short");
    let head = *bytes.first_chunk().ok_or_else(short)?;
    let (frame, length) = decode_bulk_head(head)?;
    assert_eq!(encode_bulk_head(frame, length), head);
    Ok((format!("{frame:?}"), length))
}

fn of_workers() -> [worker::Request; 6] {
    use worker::Request as R;
    let dataset = || DatasetId::new("d");
    [
        R::Version,
        R::Heartbeat { tasks: Vec::new() },
        R::Update { completed: Vec::new() },
        R::Split { iteration: IterationId::new(1) },
        R::Compression { dataset: dataset() },
        R::Definition { dataset: dataset() },
    ]
}

fn of_readers() -> [reader::Request; 6] {
    use reader::Request as R;
    let client = ClientId::new(1);
    [
        R::CreateJob,
        R::CreateIteration { job: JobId::new(1), repetition: 0 },
        R::Heartbeat { client, current_round: None, blocked_round: None },
        R::HoldSplits { client, hold: 1, progress: Vec::new(), group: None },
        R::RemoveTask { task: TaskId::new(1), consumer: 0, round: 0 },
        R::Release { client },
    ]
}

fn of_agents() -> [agent::Request; 11] {
    use agent::Request as R;
    let (id, key) = (Arc::from("b"), || "k".to_owned());
    [
        R::Register,
        R::WaitForAllTasks { devices: Bytes::new() },
        R::Barrier { id, counter: 0, timeout: Duration::ZERO, tasks: Vec::new() },
        R::TaskStatus { job: "j".into(), task: TaskIndex::new(0) },
        R::WatchJob { version: -1 },
        R::AliveTasks { tasks: Vec::new() },
        R::Get { key: key() },
        R::Directory { key: key() },
        R::Put {
            key: key(),
            value: Bytes::new(),
            condition: agent::PutCondition::Always,
            leased: false,
        },
        R::Watch { key: "k".into(), from: None },
        R::Reset,
    ]
}
