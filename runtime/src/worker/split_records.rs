//! The records of a split for a reader of Rondo's own.

use std::mem::take;

use rondo_core::status::Status;
use rondo_data::{SplitReader, to_ipc_pieces};
use rondo_proto::convert::SplitRecords;
use rondo_proto::pieces::Pieces;

use super::datasets::Records;
use crate::transport::BoxFuture;

/// A split that is read for its records.
pub(super) struct SplitBatches {
    reader: SplitReader,
    /// The place of the next record.
    next: u64,
    /// What was passed over since the last batch.
    skipped: Vec<String>,
    is_over: bool,
}

impl SplitBatches {
    /// The records of a split behind the first `skip`.
    pub(super) const fn new(reader: SplitReader, skip: u64) -> Self {
        Self { reader, next: skip, skipped: Vec::new(), is_over: false }
    }

    async fn batch(&mut self) -> Result<Option<SplitRecords>, Status> {
        if self.is_over {
            return Ok(None);
        }
        loop {
            let read = self.reader.next().await.map_err(|error| error.status())?;
            let Some(batch) = read else {
                self.is_over = true;
                let (first, skipped) = (self.next, take(&mut self.skipped));
                let records = Pieces::default();
                return Ok(Some(SplitRecords { first, count: 0, records, last: true, skipped }));
            };
            self.skipped.extend(batch.skipped);
            let count = batch.records.num_rows() as u64;
            if count == 0 {
                continue;
            }
            self.next = batch.first.saturating_add(count);
            // The columns' values stay where they are: there is little to do.
            let records = to_ipc_pieces(&batch.records).map_err(|error| error.status())?;
            let records = records.into_iter().collect();
            let (first, skipped) = (batch.first, take(&mut self.skipped));
            return Ok(Some(SplitRecords { first, count, records, last: false, skipped }));
        }
    }
}

impl Records for SplitBatches {
    fn next(&mut self) -> BoxFuture<'_, Result<Option<SplitRecords>, Status>> {
        Box::pin(self.batch())
    }
}
