//! Batches of the wished size, from records as they come.

use arrow::compute::concat_batches;
use arrow::record_batch::RecordBatch;

use super::Batch;
use crate::error::DataError;
use crate::limits::SKIPPED_PLACES_MAX;
use crate::size::own_bytes;
use crate::source::is_much_of;

/// Gathers records until they make a batch. A batch has at least half the wished records, or bytes,
/// unless it is the last one or beside a record that is large: so few copies are made.
pub(super) struct Output {
    /// Records in a batch at most; at least 1.
    records_max: usize,
    /// Bytes in a batch, about.
    bytes: u64,
    /// Records yet to be passed over.
    skip: u64,
    /// The place of the next record that comes.
    next: u64,
    waiting: Vec<RecordBatch>,
    waiting_rows: usize,
    waiting_bytes: u64,
    skipped: Vec<String>,
    ready: std::collections::VecDeque<Batch>,
}

impl Output {
    pub(super) const fn new(records_max: usize, bytes: u64, next: u64, skip: u64) -> Self {
        Self {
            records_max,
            bytes,
            skip,
            next,
            waiting: Vec::new(),
            waiting_rows: 0,
            waiting_bytes: 0,
            skipped: Vec::new(),
            ready: std::collections::VecDeque::new(),
        }
    }

    /// Records that come next, and what was passed over before them.
    pub(super) fn push(
        &mut self,
        mut records: RecordBatch,
        skipped: Vec<String>,
    ) -> Result<(), DataError> {
        let room = SKIPPED_PLACES_MAX.saturating_sub(self.skipped.len());
        self.skipped.extend(skipped.into_iter().take(room));
        let over = usize::try_from(self.skip).unwrap_or(usize::MAX).min(records.num_rows());
        if over > 0 {
            self.skip = self.skip.saturating_sub(over as u64);
            self.next = self.next.saturating_add(over as u64);
            records = records.slice(over, records.num_rows().saturating_sub(over));
        }
        let is_alone = self.is_left_alone(&records);
        while records.num_rows() > 0 {
            let rows = records.num_rows().min(self.records_max);
            if is_alone || self.waiting_rows.saturating_add(rows) > self.records_max {
                self.finish()?;
            }
            self.wait(records.slice(0, rows));
            records = records.slice(rows, records.num_rows().saturating_sub(rows));
            let is_much = self.waiting_rows.saturating_mul(2) >= self.records_max;
            if is_alone || is_much || self.waiting_bytes.saturating_mul(2) >= self.bytes {
                self.finish()?;
            }
        }
        Ok(())
    }

    /// Whether records are a batch of their own: a single one so large that to copy it beside others
    /// costs more than a batch does.
    fn is_left_alone(&self, records: &RecordBatch) -> bool {
        records.num_rows() == 1 && is_much_of(own_bytes(records), self.bytes)
    }

    fn wait(&mut self, records: RecordBatch) {
        self.waiting_rows = self.waiting_rows.saturating_add(records.num_rows());
        self.waiting_bytes = self.waiting_bytes.saturating_add(own_bytes(&records));
        self.waiting.push(records);
    }

    /// Makes a batch of what waits, if anything does.
    pub(super) fn finish(&mut self) -> Result<(), DataError> {
        let waiting = std::mem::take(&mut self.waiting);
        let Some(first) = waiting.first() else {
            return Ok(());
        };
        let records = if waiting.len() == 1 {
            first.clone()
        } else {
            let joined = concat_batches(first.schema_ref(), &waiting);
            joined.map_err(|error| DataError::internal(error.to_string()))?
        };
        (self.waiting_rows, self.waiting_bytes) = (0, 0);
        let (first, skipped) = (self.next, std::mem::take(&mut self.skipped));
        self.next = self.next.saturating_add(records.num_rows() as u64);
        self.ready.push_back(Batch { first, records, skipped });
        Ok(())
    }

    /// A batch that is ready.
    pub(super) fn pop(&mut self) -> Option<Batch> {
        self.ready.pop_front()
    }

    /// At the end, after the last batch: what was passed over behind it, as a batch without
    /// records.
    pub(super) fn last(&mut self, schema: &arrow::datatypes::SchemaRef) -> Option<Batch> {
        if self.skipped.is_empty() {
            return None;
        }
        let records = RecordBatch::new_empty(schema.clone());
        Some(Batch { first: self.next, records, skipped: std::mem::take(&mut self.skipped) })
    }
}
