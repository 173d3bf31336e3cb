//! Reading by split as bytes: requests as the dispatcher reads them, answers as a reader does, and
//! what workers answer.

use bytes::Bytes;
use prost::Message;
use rondo_core::dispatcher::{Compression, DatasetMetadata, RegisterDataset, Reply, Request};
use rondo_core::ids::DatasetId;
use rondo_core::reader::{self, Answer};
use rondo_core::status::{Code, Status};
use rondo_proto::convert::{self, Decoded, END_READER_PATH, Encoded, HOLD_SPLITS_PATH, Method};
use rondo_proto::{admin, dataset, graph};

use super::dataset::digest_of;
use crate::swarm::ReadingShape;
use crate::workload::actor::{ReadAnswer, WantedRecords};

/// The dataset that is read by split.
pub(super) const READ_BY_SPLIT: &str = "read-by-split";

/// What a worker answers: some records from a place on, which may lie before the wanted one.
pub(super) fn answer(shape: &ReadingShape, wanted: WantedRecords) -> ReadAnswer {
    let split = wanted.split.cast_unsigned();
    let total = shape.records_of(split);
    // In every other split some records come again.
    let again = if split.is_multiple_of(2) { 0 } else { split % 3 };
    let first = wanted.skip.saturating_sub(again).min(total);
    let end = wanted.skip.saturating_add(shape.batch).min(total);
    ReadAnswer::Records { first, count: end.saturating_sub(first), last: end >= total }
}

/// A worker's message, as its bytes say it.
pub(super) fn message(first: u64, count: u64, last: bool) -> Result<Answer, Status> {
    let records = Bytes::from(vec![b'r'; usize::try_from(count).unwrap_or(0)]);
    let message = admin::ReadSplitResponse { first, count, records, last, skipped: Vec::new() };
    convert::decode_records(message.encode_to_vec(), u64::MAX).map(Answer::Records)
}

/// A request as the dispatcher reads it from its bytes.
pub(super) fn received(path: &str, message: &Bytes) -> Option<Request> {
    if path == HOLD_SPLITS_PATH {
        return convert::decode_hold(message).ok().map(Request::HoldSplits);
    }
    if path == END_READER_PATH {
        let (client, job) = convert::decode_end_reader(message).ok()?;
        return Some(Request::EndReader { client, job });
    }
    match convert::decode_request(Method::from_path(path)?, message).ok()? {
        Decoded::Request(request) => Some(request),
        Decoded::Version | Decoded::Register(_) => None,
    }
}

/// An answer as the reader reads it from its bytes.
pub(super) fn told(request: &reader::Request, reply: Reply) -> Result<Answer, Status> {
    match convert::encode_reply(reply) {
        Encoded::Message(bytes) => convert::decode_reader_answer(request, &bytes),
        _ => Err(Status::new(Code::Internal, "an answer to something else")),
    }
}

/// The registration of the dataset, planned from its bytes.
pub(super) fn registration(shape: &ReadingShape) -> Option<RegisterDataset> {
    let (splits, passes) = (shape.splits, shape.passes);
    let told = admin::Dataset { version: 1, splits, passes, ..admin::Dataset::default() };
    let prepared = graph::prepare(&dataset::encode_definition(&told)).ok()?;
    let digest = digest_of(&prepared.cleaned);
    Some(RegisterDataset {
        wished: Some(DatasetId::new(READ_BY_SPLIT)),
        definition: convert::definition_of(digest, &prepared.cleaned),
        own: true,
        replaces: false,
        plan: prepared.plan,
        metadata: DatasetMetadata {
            encoded: Bytes::from_static(b"records"),
            structure: digest,
            compression: Compression::Off,
            cardinality: -2,
        },
    })
}
