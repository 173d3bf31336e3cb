//! The records of a split for a reader of Rondo's own.

use std::mem::take;

use bytes::Bytes;
use rondo_core::status::Status;
use rondo_data::{SplitReader, to_ipc};
use rondo_proto::convert::SplitRecords;

use super::datasets::Records;
use super::pipelines::apart;
use crate::transport::BoxFuture;

/// A split that is read for its records.
pub(super) struct SplitBatches {
    reader: SplitReader,
    split: i64,
    /// The place of the next record.
    next: u64,
    /// What was passed over since the last batch.
    skipped: Vec<String>,
    is_over: bool,
}

impl SplitBatches {
    /// The records of a split behind the first `skip`.
    pub(super) const fn new(reader: SplitReader, split: i64, skip: u64) -> Self {
        Self { reader, split, next: skip, skipped: Vec::new(), is_over: false }
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
                let records = Bytes::new();
                return Ok(Some(SplitRecords { first, count: 0, records, last: true, skipped }));
            };
            self.skipped.extend(batch.skipped);
            let count = batch.records.num_rows() as u64;
            if count == 0 {
                continue;
            }
            self.next = batch.first.saturating_add(count);
            let what = format!("records of split {}", self.split);
            let encoded = apart(what, move || to_ipc(&batch.records)).await?;
            let records = encoded.map_err(|error| error.status())?;
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
