//! `rondo.v1.Records`: the records of a split, as a worker sends them.

use bytes::Bytes;
use prost::Message;
use prost::encoding::{WireType, encode_key, encode_varint};
use rondo_core::ids::TaskId;
use rondo_core::status::Status;

use crate::admin as wire;
use crate::convert::check::message;
use crate::pieces::Pieces;

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
    pub records: Pieces,
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

/// The number of the field `records`.
const RECORDS_FIELD: u32 = 3;

/// Encodes `ReadSplitResponse`. Large pieces of the records are not copied.
pub fn encode_split_records(records: SplitRecords) -> Pieces {
    let skipped = records.skipped.into_iter().map(|what| wire::Skipped { what }).collect();
    let SplitRecords { first, count, records, last, .. } = records;
    // Fields go out in the order of their numbers: two messages and what is between them are one.
    let before = wire::ReadSplitResponse { first, count, ..Default::default() };
    let behind = wire::ReadSplitResponse { last, skipped, ..Default::default() };
    let mut head = before.encode_to_vec();
    if !records.is_empty() {
        encode_key(RECORDS_FIELD, WireType::LengthDelimited, &mut head);
        encode_varint(records.len() as u64, &mut head);
    }
    let mut message = Pieces::with_capacity(head.len());
    message.push_slice(&head);
    message.append(records);
    message.push(behind.encode_to_vec().into());
    message
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_in_pieces_is_the_message_as_any_client_reads_it() {
        let long = Bytes::from(vec![7; 100_000]);
        let short = Bytes::from_static(b"short");
        let all = [
            vec![],
            vec![short.clone()],
            vec![long.clone()],
            vec![short.clone(), long.clone(), short.clone(), long, short],
        ];
        for pieces in all {
            for (last, skipped) in [(false, vec![]), (true, vec!["x".repeat(9000), String::new()])]
            {
                let bytes = Bytes::from(pieces.concat());
                let plain = wire::ReadSplitResponse {
                    first: 300,
                    count: u64::from(!bytes.is_empty()),
                    records: bytes,
                    last,
                    skipped: skipped
                        .iter()
                        .map(|what| wire::Skipped { what: what.clone() })
                        .collect(),
                };
                let encoded = encode_split_records(SplitRecords {
                    first: plain.first,
                    count: plain.count,
                    records: pieces.iter().cloned().collect(),
                    last,
                    skipped,
                });
                assert!(encoded.clone().join() == plain.encode_to_vec(), "{}", pieces.len());
                assert_eq!(wire::ReadSplitResponse::decode(encoded), Ok(plain));
            }
        }
    }
}
