//! Any bytes as a request: refused in words that name the message, or taken with every field that
//! the message has.

use bytes::Bytes;
use prost::Message;
use rondo_core::dispatcher::{PositionReport, Reply, Request};
use rondo_core::limits::{HEARTBEAT_ITEMS_MAX, NAME_BYTES_MAX, SPLITS_PER_CLIENT_MAX};
use rondo_core::status::{Code, Status};
use rondo_proto::admin;
use rondo_proto::convert::{
    DELETE_DATASET_PATH, DELETE_JOB_PATH, DELETE_POSITION_PATH, Decoded, Encoded,
    LIST_POSITIONS_PATH, Method, REMOVE_WORKER_PATH, RESTORE_POSITION_PATH, SAVE_POSITION_PATH,
    decode_deletion_request, decode_end_reader, decode_ended, decode_held, decode_hold,
    decode_position_request, decode_request, decode_version_answer, decode_version_request,
    dispatcher_status, encode_end_reader, encode_hold, encode_position_reply, encode_reply,
    encode_version_reply, report,
};

use crate::wire_fields::{administered, received, taken};

/// Longest text of a refusal, in bytes.
const TEXT_BYTES_MAX: usize = 1024;
const POSITION_PATHS: [&str; 4] =
    [SAVE_POSITION_PATH, RESTORE_POSITION_PATH, LIST_POSITIONS_PATH, DELETE_POSITION_PATH];
/// The first byte of what is a message about splits that readers hold.
const HOLD_SPLITS: usize = 255;
/// The first byte of what is a message about readers that end.
const END_READER: usize = 254;
/// The first byte of what is a message about something to delete; the second one says what.
const DELETE: usize = 253;
const DELETION_PATHS: [&str; 3] = [DELETE_JOB_PATH, DELETE_DATASET_PATH, REMOVE_WORKER_PATH];
/// The first byte of what is a message about the version of a dataset that a reader is to read.
const VERSION: usize = 252;
/// A field that no message has, as a later release may write it.
const UNKNOWN_FIELD: [u8; 4] = [0xf8, 0xff, 0x07, 0x2a];

/// Checks one input: its first byte says what the rest is a message to. True when it is taken.
pub(crate) fn check(bytes: &[u8]) -> bool {
    let Some((to, rest)) = bytes.split_first() else {
        return false;
    };
    let (to, rest) = (usize::from(*to), Bytes::copy_from_slice(rest));
    if to == HOLD_SPLITS {
        return check_hold(&rest) | check_held(&rest);
    }
    if to == END_READER {
        return check_end(&rest) | check_ended(&rest);
    }
    if to == DELETE {
        return check_deletion(&rest);
    }
    if to == VERSION {
        return check_version(&rest) | check_version_told(&rest);
    }
    let methods = Method::ALL.len();
    match to % (methods + POSITION_PATHS.len() + 2) {
        to if to < methods => check_method(Method::ALL[to], &rest),
        to if to < methods + POSITION_PATHS.len() => {
            check_position(POSITION_PATHS[to - methods], &rest)
        }
        to if to == methods + POSITION_PATHS.len() => check_report(&rest),
        _ => check_positions(&rest),
    }
}

fn check_method(method: Method, bytes: &Bytes) -> bool {
    let decoded = decode_request(method, bytes);
    assert_eq!(decode_request(method, bytes), decoded, "decoded in two ways");
    let later = [bytes, &UNKNOWN_FIELD[..]].concat().into();
    match decoded {
        Err(status) => {
            check_refusal(&status, method.name());
            let possible = match method {
                Method::Snapshot | Method::GetSnapshotSplit | Method::GetSnapshotStreams => {
                    status.code == Code::Unimplemented
                }
                Method::GetOrCreateJob => {
                    matches!(status.code, Code::InvalidArgument | Code::Internal)
                }
                _ => status.code == Code::InvalidArgument,
            };
            assert!(possible, "{method:?}: {status}");
            false
        }
        Ok(decoded) => {
            assert_eq!(taken(&decoded), received(method, bytes), "{decoded:?}");
            check_bounds(&decoded);
            assert_eq!(decode_request(method, &later), Ok(decoded), "an unknown field counts");
            true
        }
    }
}

fn check_refusal(status: &Status, method: &str) {
    let text = &status.message;
    assert!(text.len() <= TEXT_BYTES_MAX, "{} bytes: {text}", text.len());
    // A field of a submessage is named with that one.
    let named = [method, "DataServiceMetadata", "DataTransferServerInfo", "StructuredValue"];
    let named = named.iter().any(|name| text.contains(name));
    assert!(named || text.contains("ProcessingMode"), "{method}: {text}");
}

fn check_bounds(decoded: &Decoded) {
    let names: Vec<&str> = match decoded {
        Decoded::Register(registration) => {
            registration.wished.iter().map(|id| id.as_str()).collect()
        }
        Decoded::Request(Request::GetOrCreateJob(job)) => {
            assert!(job.consumers.is_none_or(|consumers| consumers > 0));
            job.name.iter().map(String::as_str).chain([job.dataset.as_str()]).collect()
        }
        Decoded::Request(Request::WorkerHeartbeat(heartbeat)) => {
            assert!(!heartbeat.address.is_empty());
            let lists = [
                heartbeat.current_tasks.len(),
                heartbeat.tags.len(),
                heartbeat.transfer_servers.len(),
            ];
            assert!(lists.into_iter().all(|items| items <= HEARTBEAT_ITEMS_MAX));
            heartbeat.tags.iter().map(String::as_str).chain([&*heartbeat.address]).collect()
        }
        Decoded::Request(Request::WorkerUpdate { worker_address, progress }) => {
            assert!(progress.len() <= HEARTBEAT_ITEMS_MAX);
            vec![worker_address]
        }
        _ => Vec::new(),
    };
    assert!(names.into_iter().all(|name| name.len() <= NAME_BYTES_MAX));
}

fn check_deletion(bytes: &Bytes) -> bool {
    let Some(which) = bytes.first() else {
        return false;
    };
    let path = DELETION_PATHS[usize::from(*which) % DELETION_PATHS.len()];
    let bytes = bytes.slice(1..);
    match decode_deletion_request(path, &bytes) {
        Err(status) => {
            let (_, method) = path.rsplit_once('/').unwrap();
            check_refusal(&status, method);
            assert_eq!(status.code, Code::InvalidArgument, "{status}");
            false
        }
        Ok(None) => panic!("{path} is no path of a deletion"),
        Ok(Some(request)) => {
            assert_eq!(administered(&request), bytes_again(path, &bytes), "{request:?}");
            true
        }
    }
}

fn check_version(bytes: &Bytes) -> bool {
    match decode_version_request(bytes) {
        Err(status) => {
            check_refusal(&status, "GetVersionToReadRequest");
            assert_eq!(status.code, Code::InvalidArgument, "{status}");
            false
        }
        Ok(request) => {
            let again = admin::GetVersionToReadRequest::decode(bytes.clone()).unwrap();
            assert_eq!(administered(&request), again.encode_to_vec(), "{request:?}");
            true
        }
    }
}

fn check_version_told(bytes: &Bytes) -> bool {
    let Ok(version) = decode_version_answer(bytes) else {
        return false;
    };
    let again = encode_version_reply(&Reply::Dataset(version.clone())).unwrap();
    assert_eq!(decode_version_answer(&again), Ok(version));
    true
}

fn check_position(path: &str, bytes: &Bytes) -> bool {
    let decoded = decode_position_request(path, bytes);
    assert_eq!(decode_position_request(path, bytes), decoded, "decoded in two ways");
    match decoded {
        Err(status) => {
            let (_, method) = path.rsplit_once('/').unwrap();
            check_refusal(&status, method);
            assert_eq!(status.code, Code::InvalidArgument, "{status}");
            false
        }
        Ok(None) => panic!("{path} is no path of a position"),
        Ok(Some(request)) => {
            assert_eq!(administered(&request), bytes_again(path, bytes), "{request:?}");
            true
        }
    }
}

/// The message as it is written once it has been read.
fn bytes_again(path: &str, bytes: &Bytes) -> Vec<u8> {
    fn again<M: Message + Default>(bytes: &Bytes) -> Vec<u8> {
        M::decode(bytes.clone()).unwrap().encode_to_vec()
    }
    match path {
        SAVE_POSITION_PATH => again::<admin::SavePositionRequest>(bytes),
        RESTORE_POSITION_PATH => again::<admin::RestorePositionRequest>(bytes),
        LIST_POSITIONS_PATH => again::<admin::ListPositionsRequest>(bytes),
        DELETE_JOB_PATH => again::<admin::DeleteJobRequest>(bytes),
        DELETE_DATASET_PATH => again::<admin::DeleteDatasetRequest>(bytes),
        REMOVE_WORKER_PATH => again::<admin::RemoveWorkerRequest>(bytes),
        _ => again::<admin::DeletePositionRequest>(bytes),
    }
}

fn check_hold(bytes: &Bytes) -> bool {
    match decode_hold(bytes) {
        Err(status) => {
            check_refusal(&status, "HoldSplitsRequest");
            assert_eq!(status.code, Code::InvalidArgument, "{status}");
            false
        }
        Ok(request) => {
            assert!(request.hold <= SPLITS_PER_CLIENT_MAX);
            assert!(request.progress.len() <= SPLITS_PER_CLIENT_MAX);
            assert!(request.group.index < request.group.size);
            assert_eq!(decode_hold(&encode_hold(&request)), Ok(request));
            true
        }
    }
}

fn check_held(bytes: &Bytes) -> bool {
    let Ok(held) = decode_held(bytes) else {
        return false;
    };
    assert!(held.splits.is_sorted_by_key(|split| split.place), "{held:?}");
    let Encoded::Message(again) = encode_reply(Reply::SplitsHeld(held.clone())) else {
        panic!("{held:?} is no message");
    };
    assert_eq!(decode_held(&again), Ok(held));
    true
}

fn check_end(bytes: &Bytes) -> bool {
    match decode_end_reader(bytes) {
        Err(status) => {
            check_refusal(&status, "EndReaderRequest");
            assert_eq!(status.code, Code::InvalidArgument, "{status}");
            false
        }
        Ok((client, job)) => {
            assert!((1..=NAME_BYTES_MAX).contains(&job.len()));
            assert_eq!(decode_end_reader(&encode_end_reader(client, &job)), Ok((client, job)));
            true
        }
    }
}

fn check_ended(bytes: &Bytes) -> bool {
    let Ok(reader) = decode_ended(bytes) else {
        return false;
    };
    assert!(reader.splits.is_sorted_by_key(|split| split.place), "{reader:?}");
    assert!(reader.splits.len() <= SPLITS_PER_CLIENT_MAX);
    let Encoded::Message(again) = encode_reply(Reply::ReaderEnded(reader.clone())) else {
        panic!("{reader:?} is no message");
    };
    assert_eq!(decode_ended(&again), Ok(reader));
    true
}

fn check_report(bytes: &Bytes) -> bool {
    let Ok(status) = admin::DispatcherStatus::decode(bytes.clone()) else {
        return false;
    };
    assert_eq!(dispatcher_status(report(status.clone())), status);
    true
}

fn check_positions(bytes: &Bytes) -> bool {
    let Ok(response) = admin::ListPositionsResponse::decode(bytes.clone()) else {
        return false;
    };
    let reports = response.positions.iter().cloned().map(PositionReport::from).collect();
    let encoded = encode_position_reply(LIST_POSITIONS_PATH, Reply::Positions(reports));
    assert_eq!(encoded, Some(response.encode_to_vec().into()));
    true
}
