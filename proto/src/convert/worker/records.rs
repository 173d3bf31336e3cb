//! `rondo.v1.Records`: the records of a split, as a worker sends them.

use bytes::Bytes;
use prost::Message;
use rondo_core::ids::TaskId;
use rondo_core::status::Status;

use crate::admin as wire;
use crate::convert::check::message;

/// The service.
pub const SERVICE_RECORDS: &str = "rondo.v1.Records";

/// A reader's request for the records of a split.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadSplit {
    /// A task of the worker that is asked.
    pub task: TaskId,
    /// The value of the split.
    pub split: i64,
    /// Records to pass over.
    pub skip: u64,
    /// Records in one answer at most; 0 leaves that to the worker.
    pub batch_records: u32,
}

/// Some successive records of a split.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SplitRecords {
    /// The place of the first in the split.
    pub first: u64,
    /// How many they are.
    pub count: u64,
    /// The records, an Arrow IPC stream; empty when there are none.
    pub records: Bytes,
    /// Whether the split ends behind them.
    pub last: bool,
    /// Places that could not be read and were passed over, in words.
    pub skipped: Vec<String>,
}

/// Decodes `ReadSplitRequest`.
///
/// # Errors
/// INVALID_ARGUMENT for malformed bytes.
pub fn decode_read_split(bytes: &Bytes) -> Result<ReadSplit, Status> {
    let request: wire::ReadSplitRequest = message("ReadSplitRequest", bytes)?;
    Ok(ReadSplit {
        task: TaskId::new(request.task_id),
        split: request.split,
        skip: request.skip,
        batch_records: request.batch_records,
    })
}

/// Encodes `ReadSplitResponse`.
pub fn encode_split_records(records: SplitRecords) -> Bytes {
    let skipped = records.skipped.into_iter().map(|what| wire::Skipped { what }).collect();
    let SplitRecords { first, count, records, last, .. } = records;
    wire::ReadSplitResponse { first, count, records, last, skipped }.encode_to_vec().into()
}
