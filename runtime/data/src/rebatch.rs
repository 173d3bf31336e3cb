//! Batches of one size across splits.

use std::collections::VecDeque;

use arrow::compute::concat_batches;
use arrow::record_batch::RecordBatch;

use crate::dataset::Dataset;
use crate::error::DataError;
use crate::read::Batch;
use crate::size::value_bytes;

/// Successive records of one split.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Origin {
    /// The split's place in the iteration.
    pub place: u64,
    /// The place of the first of them in the split.
    pub first: u64,
    /// How many they are.
    pub count: u64,
}

/// A batch, and where its records come from.
#[derive(Clone, Debug, PartialEq)]
pub struct Rebatched {
    /// The records.
    pub records: RecordBatch,
    /// Where they come from, in their order.
    pub origins: Vec<Origin>,
}

/// Makes batches of one size of records as they come, split by split.
#[derive(Debug)]
pub struct Rebatcher {
    size: usize,
    drop_remainder: bool,
    /// Whether no batch has records of two passes.
    ends_with_passes: bool,
    pass: u64,
    /// The most bytes that the values of one batch may take.
    bytes_max: u64,
    waiting: VecDeque<(RecordBatch, Origin)>,
    rows: usize,
    /// Bytes of the values that wait.
    bytes: u64,
    ready: VecDeque<Rebatched>,
    left_out: Vec<Origin>,
}

impl Dataset {
    /// Makes batches as the pipeline says, each of values of at most `bytes_max` bytes; `None` if it
    /// says nothing of them.
    pub fn rebatcher(&self, bytes_max: u64) -> Option<Rebatcher> {
        let (size, drop_remainder) = self.batch()?;
        let ends_with_passes = self.steps().batches_end_with_passes();
        Some(Rebatcher::new(size, drop_remainder, ends_with_passes, bytes_max))
    }

    /// The pass to which a split belongs.
    pub fn pass_of(&self, split: i64) -> u64 {
        u64::try_from(split).unwrap_or(0).checked_div(self.splits()).unwrap_or(0)
    }
}

impl Rebatcher {
    /// Makes batches of `size` records; fewer of them at the end, and, if `ends_with_passes`, at
    /// the end of each pass, are a batch too unless `drop_remainder`. A batch whose values take more than
    /// `bytes_max` bytes is refused as soon as that is known.
    pub fn new(size: u64, drop_remainder: bool, ends_with_passes: bool, bytes_max: u64) -> Self {
        Self {
            size: usize::try_from(size).unwrap_or(usize::MAX).max(1),
            drop_remainder,
            ends_with_passes,
            pass: 0,
            bytes_max,
            waiting: VecDeque::new(),
            rows: 0,
            bytes: 0,
            ready: VecDeque::new(),
            left_out: Vec::new(),
        }
    }

    /// Takes the records that come next: they are of the split at this place, in this pass.
    ///
    /// # Errors
    /// When they have other columns than those before, or make a batch too large: then those that waited
    /// are let go of.
    pub fn push(&mut self, place: u64, pass: u64, batch: Batch) -> Result<(), DataError> {
        if pass != self.pass && self.ends_with_passes {
            self.end()?;
        }
        self.pass = pass;
        let (mut records, mut first) = (batch.records, batch.first);
        while records.num_rows() > 0 {
            let room = self.size.saturating_sub(self.rows);
            let rows = records.num_rows().min(room);
            let count = rows as u64;
            self.wait(records.slice(0, rows), Origin { place, first, count })?;
            first = first.saturating_add(count);
            records = records.slice(rows, records.num_rows().saturating_sub(rows));
            if self.rows == self.size {
                self.make()?;
            }
        }
        Ok(())
    }

    /// Keeps records until there are others, if the values of a batch may take so much.
    fn wait(&mut self, records: RecordBatch, origin: Origin) -> Result<(), DataError> {
        let found = self.bytes.saturating_add(value_bytes(&records));
        if found > self.bytes_max {
            self.waiting = VecDeque::new();
            (self.rows, self.bytes) = (0, 0);
            let what = format!("the bytes of a batch of {} records", self.size);
            let (bound, setting) = (self.bytes_max, "the size of batch");
            return Err(DataError::Bound { what, found, bound, setting });
        }
        self.rows = self.rows.saturating_add(records.num_rows());
        self.bytes = found;
        self.waiting.push_back((records, origin));
        Ok(())
    }

    /// The next batch, if there is one.
    pub fn pop(&mut self) -> Option<Rebatched> {
        self.ready.pop_front()
    }

    /// Says that no more records come. What waits is the last batch, or is left out.
    ///
    /// # Errors
    /// As [`Rebatcher::push`].
    pub fn end(&mut self) -> Result<(), DataError> {
        if self.drop_remainder {
            self.left_out.extend(self.waiting.drain(..).map(|(_, origin)| origin));
            (self.rows, self.bytes) = (0, 0);
            return Ok(());
        }
        if self.rows > 0 { self.make() } else { Ok(()) }
    }

    /// Records that were left out at an end, since this was last asked: they are read, too.
    pub fn left_out(&mut self) -> Vec<Origin> {
        std::mem::take(&mut self.left_out)
    }

    /// Records that wait for others.
    pub const fn waiting(&self) -> usize {
        self.rows
    }

    fn make(&mut self) -> Result<(), DataError> {
        let (parts, from): (Vec<RecordBatch>, Vec<Origin>) = self.waiting.drain(..).unzip();
        (self.rows, self.bytes) = (0, 0);
        let records = match parts.as_slice() {
            [] => return Ok(()),
            [only] => only.clone(),
            [first, ..] => concat_batches(first.schema_ref(), &parts)
                .map_err(|error| DataError::internal(error.to_string()))?,
        };
        let mut origins: Vec<Origin> = Vec::with_capacity(from.len());
        for next in from {
            match origins.last_mut() {
                Some(last) if last.is_before(&next) => {
                    last.count = last.count.saturating_add(next.count);
                }
                _ => origins.push(next),
            }
        }
        self.ready.push_back(Rebatched { records, origins });
        Ok(())
    }
}

impl Origin {
    /// Whether the others follow these at once.
    const fn is_before(&self, other: &Self) -> bool {
        self.place == other.place && self.first.saturating_add(self.count) == other.first
    }
}
