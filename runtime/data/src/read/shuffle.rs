//! The records of a split in another order, drawn among so many of them each.

use arrow::compute::interleave_record_batch;
use arrow::record_batch::RecordBatch;

use crate::error::DataError;
use crate::random::Random;
use crate::size::held_bytes;

/// Batches that are kept until the records that are left of them are put into one.
const BATCHES_MAX: usize = 64;

/// A buffer from which records are drawn. It holds the batches of its records.
pub(super) struct Shuffler {
    random: Random,
    /// Records among which is drawn.
    buffer_records: usize,
    batches: Vec<RecordBatch>,
    /// Where the records are that have not been drawn: batch and row.
    buffer: Vec<(usize, usize)>,
    /// Where those are that have been drawn and are not given out.
    drawn: Vec<(usize, usize)>,
    memory_bytes: u64,
}

impl Shuffler {
    pub(super) fn new(random: Random, buffer_records: u64, memory_bytes: u64) -> Self {
        let buffer_records = usize::try_from(buffer_records).unwrap_or(usize::MAX).max(1);
        let (batches, buffer, drawn) = (Vec::new(), Vec::new(), Vec::new());
        Self { random, buffer_records, batches, buffer, drawn, memory_bytes }
    }

    /// Takes records in; gives those that are drawn for them.
    pub(super) fn push(&mut self, records: RecordBatch) -> Result<Option<RecordBatch>, DataError> {
        let (batch, rows) = (self.batches.len(), records.num_rows());
        if rows == 0 {
            return Ok(None);
        }
        self.batches.push(records);
        self.check_size()?;
        for row in 0..rows {
            if self.buffer.len() < self.buffer_records {
                self.buffer.push((batch, row));
                continue;
            }
            let place = self.random.below(self.buffer.len() as u64) as usize;
            if let Some(slot) = self.buffer.get_mut(place) {
                self.drawn.push(std::mem::replace(slot, (batch, row)));
            }
        }
        let drawn = self.gather()?;
        if self.batches.len() > BATCHES_MAX {
            self.compact()?;
        }
        Ok(drawn)
    }

    /// At the end, gives what is left, so many at a time; nothing when all was given.
    pub(super) fn drain(&mut self, rows: usize) -> Result<Option<RecordBatch>, DataError> {
        while self.drawn.len() < rows.max(1) && !self.buffer.is_empty() {
            let place = self.random.below(self.buffer.len() as u64) as usize;
            self.drawn.push(self.buffer.swap_remove(place));
        }
        self.gather()
    }

    fn gather(&mut self) -> Result<Option<RecordBatch>, DataError> {
        if self.drawn.is_empty() {
            return Ok(None);
        }
        let drawn = std::mem::take(&mut self.drawn);
        self.rows(&drawn).map(Some)
    }

    fn rows(&self, places: &[(usize, usize)]) -> Result<RecordBatch, DataError> {
        let batches: Vec<&RecordBatch> = self.batches.iter().collect();
        let rows = interleave_record_batch(&batches, places);
        rows.map_err(|error| DataError::internal(error.to_string()))
    }

    /// Puts the records of the buffer into one batch, so that the others can go.
    fn compact(&mut self) -> Result<(), DataError> {
        let kept = self.rows(&self.buffer)?;
        self.buffer = (0..kept.num_rows()).map(|row| (0, row)).collect();
        self.batches = vec![kept];
        Ok(())
    }

    fn check_size(&self) -> Result<(), DataError> {
        let (found, bound) = (held_bytes(&self.batches), self.memory_bytes);
        if found <= bound {
            return Ok(());
        }
        let what =
            format!("bytes of the records among which shuffle draws {}", self.buffer_records);
        Err(DataError::Bound { what, found, bound, setting: "memory_bytes" })
    }
}
