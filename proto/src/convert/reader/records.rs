//! What a reader asks of workers, and what those answer.

use bytes::Bytes;
use prost::Message;
use rondo_core::limits::ELEMENT_BYTES_MAX;
use rondo_core::reader::{FetchElement, ReadSplit, Records};
use rondo_core::status::{Code, Status};

use super::malformed::{bounded, malformed, taken};
use crate::admin;
use crate::convert::{ConsumerRound, GetElement, WorkerRequest, encode_worker_request};
use crate::pieces::Pieces;

/// The path of `rondo.v1.Records/ReadSplit`, which is answered with a stream.
pub const READ_SPLIT_PATH: &str = "/rondo.v1.Records/ReadSplit";

/// Places named in one message that could not be read.
const SKIPPED_MAX: usize = 4096;
const NAME: &str = "ReadSplitResponse";

/// The message of a request for records of a split.
pub fn encode_read_split(read: &ReadSplit) -> Bytes {
    let request = admin::ReadSplitRequest {
        task_id: read.task.get(),
        split: read.split,
        skip: read.skip,
        batch_records: read.batch_records,
    };
    request.encode_to_vec().into()
}

/// The path and the message of a request for an element, by a consumer of no trainer of its own.
pub fn encode_fetch(fetch: &FetchElement) -> (&'static str, Bytes) {
    encode_worker_request(&WorkerRequest::GetElement(GetElement {
        task: fetch.task,
        round: fetch.round.map(|(consumer, round)| ConsumerRound { consumer, round }),
        skipped_previous_round: fetch.skipped_previous_round,
        allow_skip: fetch.allow_skip,
        trainer: String::new(),
    }))
}

/// Decodes a message of a stream of records. The records are copied, once, unless they lie in one
/// piece of `message`: then they are a slice of it.
///
/// # Errors
/// INTERNAL for bytes that are no such message, and for records without bytes or without end;
/// RESOURCE_EXHAUSTED for a message of more than `bytes_max` bytes.
pub fn decode_records(message: impl Into<Pieces>, bytes_max: u64) -> Result<Records, Status> {
    let message = message.into();
    let (size, max) = (message.len() as u64, bytes_max.min(ELEMENT_BYTES_MAX));
    if size > max {
        let text = format!("{NAME} is {size} bytes long; at most {max} are allowed");
        return Err(Status::new(Code::ResourceExhausted, text));
    }
    let told: admin::ReadSplitResponse = taken(NAME, message)?;
    let (first, count) = (told.first, told.count);
    if first.checked_add(count).is_none() {
        return Err(malformed(NAME, format_args!("{count} records from {first} on")));
    }
    if (count == 0) != told.records.is_empty() {
        let found = told.records.len();
        return Err(malformed(NAME, format_args!("{count} records take {found} bytes")));
    }
    let skipped = bounded(NAME, "skipped", told.skipped, SKIPPED_MAX)?;
    Ok(Records {
        first,
        count,
        records: told.records,
        is_last: told.last,
        skipped: skipped.into_iter().map(|skipped| skipped.what).collect(),
    })
}
