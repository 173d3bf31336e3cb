//! The records of a split for a reader of Rondo's own.

use std::collections::VecDeque;
use std::mem::take;

use arrow::record_batch::RecordBatch;
use rondo_core::status::Status;
use rondo_data::{Batch, SplitReader, in_parts, to_ipc_pieces};
use rondo_proto::convert::SplitRecords;
use rondo_proto::pieces::Pieces;

use super::datasets::Records;
use crate::transport::BoxFuture;

/// Bytes of records in one message, about, if there are several of them: some are on their way while
/// others are read, and they find room in their stream's window.
const MESSAGE_BYTES: u64 = 1 << 20;

/// A split that is read for its records.
pub(super) struct SplitBatches {
    reader: SplitReader,
    /// Records that were read.
    ready: VecDeque<RecordBatch>,
    /// The place of the next record.
    next: u64,
    /// What was passed over since the last batch.
    skipped: Vec<String>,
    is_over: bool,
}

impl SplitBatches {
    /// The records of a split behind the first `skip`.
    pub(super) const fn new(reader: SplitReader, skip: u64) -> Self {
        Self { reader, ready: VecDeque::new(), next: skip, skipped: Vec::new(), is_over: false }
    }

    async fn batch(&mut self) -> Result<Option<SplitRecords>, Status> {
        while !self.is_over && self.ready.is_empty() {
            let read = self.reader.next().await.map_err(|error| error.status())?;
            let Some(Batch { first, records, skipped }) = read else {
                self.is_over = true;
                let (first, skipped) = (self.next, take(&mut self.skipped));
                let records = Pieces::default();
                return Ok(Some(SplitRecords { first, count: 0, records, last: true, skipped }));
            };
            self.skipped.extend(skipped);
            if records.num_rows() > 0 {
                self.next = first;
                self.ready.extend(in_parts(&records, MESSAGE_BYTES));
            }
        }
        let Some(part) = self.ready.pop_front() else {
            return Ok(None);
        };
        // The columns' values stay where they are: there is little to do.
        let records = to_ipc_pieces(&part).map_err(|error| error.status())?;
        let (first, count) = (self.next, part.num_rows() as u64);
        self.next = first.saturating_add(count);
        let (records, skipped) = (records.into_iter().collect(), take(&mut self.skipped));
        Ok(Some(SplitRecords { first, count, records, last: false, skipped }))
    }
}

impl Records for SplitBatches {
    fn next(&mut self) -> BoxFuture<'_, Result<Option<SplitRecords>, Status>> {
        Box::pin(self.batch())
    }
}
