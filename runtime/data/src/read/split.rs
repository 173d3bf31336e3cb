//! The records of one split, from any of them on.

use std::fmt;

use super::members::Members;
use super::output::Output;
use super::shuffle::Shuffler;
use super::{BATCH_RECORDS, Batch};
use crate::dataset::Dataset;
use crate::error::DataError;
use crate::manifest::Part;
use crate::operation::apply;
use crate::random::Random;
use crate::source::{Chunk, Reading};
use crate::stores::Stores;

impl Dataset {
    /// Reads a split: split `k` is the `k` modulo [`Dataset::splits`]th of pass `k` divided by
    /// that. Of its records the first `skip` are passed over; what is read is what would be read
    /// behind them otherwise. Batches have at most `batch_records` records; 0 leaves that open.
    ///
    /// Nothing is done before [`SplitReader::next`] is called; errors come from there too.
    pub fn read_split(
        &self,
        stores: &Stores,
        split: i64,
        skip: u64,
        batch_records: usize,
    ) -> SplitReader {
        let batch_records = if batch_records == 0 { BATCH_RECORDS } else { batch_records };
        let (dataset, stores) = (self.clone(), stores.clone());
        let state = State::begin(&dataset, &stores, split, skip, batch_records);
        SplitReader { dataset, stores, split, batch_records, next: skip, state }
    }
}

/// Reads the records of one split.
pub struct SplitReader {
    dataset: Dataset,
    stores: Stores,
    split: i64,
    batch_records: usize,
    /// The place of the next record.
    next: u64,
    state: State,
}

enum State {
    Open(Box<Open>),
    Failed(DataError),
    Over,
}

impl State {
    fn begin(
        dataset: &Dataset,
        stores: &Stores,
        split: i64,
        skip: u64,
        batch_records: usize,
    ) -> Self {
        match Open::begin(dataset, stores, split, skip, batch_records) {
            Ok(open) => Self::Open(Box::new(open)),
            Err(error) => Self::Failed(error),
        }
    }
}

impl fmt::Debug for SplitReader {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "SplitReader(split {} of {:?})", self.split, self.dataset)
    }
}

impl SplitReader {
    /// The next records; `None` at the end of the split. After [`DataError::Unavailable`] the next call
    /// tries to go on behind the last record; after another error there is nothing but the same error.
    ///
    /// # Errors
    /// When there is no such split, or what it consists of cannot be read.
    pub async fn next(&mut self) -> Result<Option<Batch>, DataError> {
        let found = match &mut self.state {
            State::Over => return Ok(None),
            State::Failed(error) => return Err(error.clone()),
            State::Open(open) => open.next().await,
        };
        match &found {
            Ok(Some(batch)) => {
                self.next = batch.first.saturating_add(batch.records.num_rows() as u64);
            }
            Ok(None) => self.state = State::Over,
            Err(error) if error.may_pass() => {
                let (dataset, stores) = (&self.dataset, &self.stores);
                let (split, next) = (self.split, self.next);
                self.state = State::begin(dataset, stores, split, next, self.batch_records);
            }
            Err(error) => self.state = State::Failed(error.clone()),
        }
        found
    }
}

/// A split that is read.
pub(super) struct Open {
    dataset: Dataset,
    members: Members,
    shuffler: Option<Shuffler>,
    output: Output,
    chunk_records: usize,
    /// What was passed over since records last came out of the shuffle.
    skipped: Vec<String>,
    is_over: bool,
}

impl Open {
    pub(super) fn begin(
        dataset: &Dataset,
        stores: &Stores,
        split: i64,
        skip: u64,
        batch_records: usize,
    ) -> Result<Self, DataError> {
        let (pass, which, parts) = parts(dataset, split)?;
        Ok(Self::of(dataset, stores, (pass, which), parts, skip, batch_records))
    }

    /// Reads these parts of a split.
    pub(super) fn of(
        dataset: &Dataset,
        stores: &Stores,
        (pass, split): (u64, u64),
        parts: &[Part],
        skip: u64,
        batch_records: usize,
    ) -> Self {
        let steps = dataset.steps();
        let skip_corrupt = dataset.pipeline().skip_corrupt;
        let is_each_kept = steps.keeps_every_record() && !skip_corrupt;
        let is_in_order = steps.shuffle.is_none() && steps.interleave.is_none();
        // Where each record of the files is one that comes out, those passed over need not be read.
        let in_files = if is_each_kept && is_in_order { skip } else { 0 };
        let reading = Reading {
            schema: dataset.manifest().schema.clone(),
            stride: dataset.manifest().stride,
            skip_corrupt,
            chunk_records: batch_records,
            // A shuffle keeps some of many chunks, each of which would keep all that was fetched.
            is_shared: steps.shuffle.is_none(),
            footers: dataset.footers(),
        };
        let limits = stores.limits();
        let shuffler = steps.shuffle.map(|it| {
            Shuffler::new(Random::of(&[it.seed, pass, split]), it.buffer, limits.memory_bytes)
        });
        let skip = skip.saturating_sub(in_files);
        Self {
            dataset: dataset.clone(),
            members: Members::new(dataset, stores, reading, parts, in_files),
            shuffler,
            output: Output::new(batch_records, limits.chunk_bytes, in_files, skip),
            chunk_records: batch_records,
            skipped: Vec::new(),
            is_over: false,
        }
    }

    pub(super) async fn next(&mut self) -> Result<Option<Batch>, DataError> {
        loop {
            if let Some(batch) = self.output.pop() {
                return Ok(Some(batch));
            }
            if self.is_over {
                return Ok(self.output.last(&self.dataset.schema()));
            }
            match self.members.next().await? {
                Some(chunk) => self.take(chunk)?,
                None => self.drain()?,
            }
        }
    }

    /// What comes out for records of the files.
    fn take(&mut self, chunk: Chunk) -> Result<(), DataError> {
        let dataset = self.dataset.clone();
        let Chunk { mut records, skipped } = chunk;
        self.skipped.extend(skipped);
        for operation in &dataset.steps().before {
            records = apply(operation, records)?;
        }
        match &mut self.shuffler {
            Some(shuffler) => match shuffler.push(records)? {
                Some(records) => self.give(records),
                None => Ok(()),
            },
            None => self.give(records),
        }
    }

    fn give(&mut self, mut records: arrow::record_batch::RecordBatch) -> Result<(), DataError> {
        let dataset = self.dataset.clone();
        for operation in &dataset.steps().after {
            records = apply(operation, records)?;
        }
        self.output.push(records, std::mem::take(&mut self.skipped))
    }

    /// The files are read: what the shuffle still holds comes out.
    fn drain(&mut self) -> Result<(), DataError> {
        let drained = match &mut self.shuffler {
            Some(shuffler) => shuffler.drain(self.chunk_records)?,
            None => None,
        };
        if let Some(records) = drained {
            return self.give(records);
        }
        let none = arrow::record_batch::RecordBatch::new_empty(self.dataset.schema());
        self.output.push(none, std::mem::take(&mut self.skipped))?;
        self.output.finish()?;
        self.is_over = true;
        Ok(())
    }
}

/// The pass of a split, which one it is, and its parts.
fn parts(dataset: &Dataset, split: i64) -> Result<(u64, u64, &[Part]), DataError> {
    if let Some(what) = dataset.unsplittable() {
        return Err(DataError::Unfit { what });
    }
    let none = || DataError::NoSplit {
        split,
        splits: dataset.splits(),
        passes: match dataset.passes() {
            0 => "endless passes".to_owned(),
            passes => format!("{passes} passes"),
        },
    };
    let number = u64::try_from(split).map_err(|_| none())?;
    let splits = dataset.splits();
    let pass = number.checked_div(splits).ok_or_else(none)?;
    if dataset.passes() > 0 && pass >= dataset.passes() {
        return Err(none());
    }
    let place = number.checked_rem(splits).ok_or_else(none)?;
    let which = dataset.split_at(pass, place).ok_or_else(none)?;
    let index = usize::try_from(which).map_err(|_| none())?;
    let parts = dataset.manifest().splits.get(index).ok_or_else(none)?;
    Ok((pass, which, parts))
}
