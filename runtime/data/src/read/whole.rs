//! All that one worker reads of a dataset that is not divided into splits among workers.

use std::collections::VecDeque;
use std::fmt;

use arrow::record_batch::RecordBatch;

use super::split::Open;
use super::tail::Tail;
use super::{BATCH_RECORDS, Batch};
use crate::dataset::Dataset;
use crate::error::DataError;
use crate::limits::BATCH_BYTES_MAX;
use crate::manifest::Part;
use crate::pipeline::{Operation, ShardOf};
use crate::stores::Stores;

/// What a worker reads of a dataset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shard {
    /// All of it: each worker does. HINT comes to this too: no pipeline of Rondo's has a place for
    /// what the hint would put there; `shard` has its numbers.
    Off,
    /// The records of every `count`th file, from the `index`th on.
    File {
        /// The worker's number, from 0 on.
        index: u64,
        /// Workers.
        count: u64,
    },
    /// Every `count`th element, from the `index`th on.
    Data {
        /// The worker's number, from 0 on.
        index: u64,
        /// Workers.
        count: u64,
    },
    /// As `File` if there are as many files as workers, else as `Data`.
    FileOrData {
        /// The worker's number, from 0 on.
        index: u64,
        /// Workers.
        count: u64,
    },
}

impl Dataset {
    /// Reads all that a worker reads of the dataset: its passes one after the other, after all
    /// operations. With batches in the pipeline, what comes are those batches; one whose values take more
    /// than [`BATCH_BYTES_MAX`] is refused.
    pub fn read_all(&self, stores: &Stores, shard: Shard) -> WholeReader {
        self.read_all_within(stores, shard, BATCH_BYTES_MAX)
    }

    /// As [`Dataset::read_all`], with another bound on the values of a batch.
    pub fn read_all_within(
        &self,
        stores: &Stores,
        shard: Shard,
        batch_bytes_max: u64,
    ) -> WholeReader {
        let (dataset, stores) = (self.clone(), stores.clone());
        let state = match Reading::new(&dataset, shard, batch_bytes_max) {
            Ok(reading) => State::Open(Box::new(reading)),
            Err(error) => State::Failed(error),
        };
        WholeReader { dataset, stores, state }
    }

    /// What a worker reads, its policy made one of two: `None` for elements, else files.
    fn files_of(&self, shard: Shard) -> Result<Option<(u64, u64)>, DataError> {
        let files = self.files().count() as u64;
        let (index, count) = match shard {
            Shard::Off => return Ok(None),
            Shard::File { index, count }
            | Shard::Data { index, count }
            | Shard::FileOrData { index, count } => (index, count),
        };
        if index >= count {
            let what = format!("worker {index} of {count}: workers are counted from 0");
            return Err(DataError::Unfit { what });
        }
        match shard {
            Shard::File { .. } if files < count => {
                let what = format!(
                    "the dataset has {files} files for {count} workers, and the sharding policy is \
                     FILE: use DATA or DYNAMIC, or fewer workers"
                );
                Err(DataError::Unfit { what })
            }
            Shard::File { .. } => Ok(Some((index, count))),
            Shard::FileOrData { .. } if files >= count => Ok(Some((index, count))),
            _ => Ok(None),
        }
    }
}

/// Reads all that one worker reads of a dataset.
pub struct WholeReader {
    dataset: Dataset,
    stores: Stores,
    state: State,
}

enum State {
    Open(Box<Reading>),
    Failed(DataError),
    Over,
}

impl fmt::Debug for WholeReader {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "WholeReader({:?})", self.dataset)
    }
}

/// How far it has come.
struct Reading {
    /// Of each split, the parts that this worker reads.
    splits: Vec<(u64, Vec<Part>)>,
    /// What is done in each pass anew.
    pass_tail: Tail,
    /// What is done to all passes together.
    tail: Tail,
    /// Whether what comes out are batches.
    is_batched: bool,
    /// The most bytes that the values of a batch may take.
    batch_bytes_max: u64,
    pass: u64,
    /// The place of the next split in the pass.
    place: u64,
    open: Option<Open>,
    /// The place of the next record in the open split.
    record: u64,
    /// Whether the present pass has yielded anything.
    has_yielded: bool,
    ready: VecDeque<RecordBatch>,
    next: u64,
    skipped: Vec<String>,
    is_over: bool,
}

impl WholeReader {
    /// The next records, or the next batch; `None` at the end. After [`DataError::Unavailable`] the next
    /// call tries to go on where this one ended; after another error there is nothing but the same error.
    ///
    /// # Errors
    /// When something cannot be read, or the policy does not fit the dataset.
    pub async fn next(&mut self) -> Result<Option<Batch>, DataError> {
        let found = match &mut self.state {
            State::Over => return Ok(None),
            State::Failed(error) => return Err(error.clone()),
            State::Open(reading) => reading.next(&self.dataset, &self.stores).await,
        };
        match &found {
            Ok(Some(_)) => {}
            Ok(None) => self.state = State::Over,
            Err(error) if error.may_pass() => {}
            Err(error) => self.state = State::Failed(error.clone()),
        }
        found
    }
}

impl Reading {
    fn new(dataset: &Dataset, shard: Shard, batch_bytes_max: u64) -> Result<Self, DataError> {
        let files = dataset.files_of(shard)?;
        let is_ours = |part: &&Part| match files {
            None => true,
            Some((index, count)) => u64::from(part.file).checked_rem(count) == Some(index),
        };
        let splits = dataset.manifest().splits.iter();
        let splits = splits.map(|parts| parts.iter().filter(is_ours).copied().collect());
        let by_file = files.is_some();
        let (pass_tail, tail, is_batched) = tails(dataset, shard, by_file, batch_bytes_max);
        Ok(Self {
            splits: (0..).zip(splits).collect(),
            pass_tail,
            tail,
            is_batched,
            batch_bytes_max,
            pass: 0,
            place: 0,
            open: None,
            record: 0,
            has_yielded: false,
            ready: VecDeque::new(),
            next: 0,
            skipped: Vec::new(),
            is_over: false,
        })
    }

    async fn next(
        &mut self,
        dataset: &Dataset,
        stores: &Stores,
    ) -> Result<Option<Batch>, DataError> {
        loop {
            if let Some(records) = self.ready.pop_front() {
                return Ok(Some(self.batch(records)));
            }
            if self.is_over {
                let is_rest = !self.skipped.is_empty();
                return Ok(is_rest.then(|| self.batch(RecordBatch::new_empty(dataset.schema()))));
            }
            self.advance(dataset, stores).await?;
        }
    }

    fn batch(&mut self, records: RecordBatch) -> Batch {
        let first = self.next;
        self.next = self.next.saturating_add(records.num_rows() as u64);
        Batch { first, records, skipped: std::mem::take(&mut self.skipped) }
    }

    /// Goes on by some records, or to the next split or pass.
    async fn advance(&mut self, dataset: &Dataset, stores: &Stores) -> Result<(), DataError> {
        if let Some(open) = &mut self.open {
            match open.next().await {
                Ok(Some(batch)) => {
                    self.record = batch.first.saturating_add(batch.records.num_rows() as u64);
                    self.skipped.extend(batch.skipped);
                    let found = self.pass_tail.push(batch.records)?;
                    self.give(found)?;
                }
                Ok(None) => self.open = None,
                Err(error) => {
                    if error.may_pass() {
                        let place = self.place.saturating_sub(1);
                        self.open = self.opened(dataset, stores, place, self.record)?;
                    }
                    return Err(error);
                }
            }
        } else if self.pass_tail.is_over() || self.place >= dataset.splits() {
            self.end_pass(dataset)?;
        } else {
            self.begin_split(dataset, stores)?;
        }
        if self.pass_tail.is_over() {
            self.open = None;
        }
        if self.tail.is_over() && !self.is_over {
            self.end()?;
        }
        Ok(())
    }

    fn begin_split(&mut self, dataset: &Dataset, stores: &Stores) -> Result<(), DataError> {
        self.open = self.opened(dataset, stores, self.place, 0)?;
        (self.place, self.record) = (self.place.saturating_add(1), 0);
        Ok(())
    }

    /// The split at this place of the pass, from this record on; `None` if this worker reads nothing of it.
    fn opened(
        &self,
        dataset: &Dataset,
        stores: &Stores,
        place: u64,
        record: u64,
    ) -> Result<Option<Open>, DataError> {
        let split = dataset.split_at(self.pass, place);
        let split = split.and_then(|split| usize::try_from(split).ok());
        let split = split.and_then(|split| self.splits.get(split));
        let (number, parts) = split.ok_or_else(|| DataError::definition("a split is missing"))?;
        let which = (self.pass, *number);
        let open = || Open::of(dataset, stores, which, parts, record, BATCH_RECORDS);
        Ok((!parts.is_empty()).then(open))
    }

    fn end_pass(&mut self, dataset: &Dataset) -> Result<(), DataError> {
        let found = self.pass_tail.end()?;
        self.give(found)?;
        let (pass, passes) = (self.pass.saturating_add(1), dataset.passes());
        if passes > 0 && pass >= passes {
            return self.end();
        }
        if !self.has_yielded {
            let what = format!("pass {} has no records, and neither would others", self.pass);
            return Err(DataError::Unfit { what });
        }
        (self.pass, self.place, self.has_yielded) = (pass, 0, false);
        let before = before_repeat(&dataset.steps().tail);
        self.pass_tail = Tail::of(before, false, self.batch_bytes_max);
        Ok(())
    }

    /// Nothing comes any more but what waits for more.
    fn end(&mut self) -> Result<(), DataError> {
        let found = self.tail.end()?;
        self.give_out(found);
        self.is_over = true;
        Ok(())
    }

    /// What a pass yields goes through the operations on all passes.
    fn give(&mut self, records: Vec<RecordBatch>) -> Result<(), DataError> {
        for batch in records {
            self.has_yielded |= batch.num_rows() > 0;
            let found = self.tail.push(batch)?;
            self.give_out(found);
        }
        Ok(())
    }

    fn give_out(&mut self, records: Vec<RecordBatch>) {
        debug_assert!(!self.is_batched || records.iter().all(|batch| batch.num_rows() > 0));
        self.ready.extend(records.into_iter().filter(|batch| batch.num_rows() > 0));
    }
}

/// What is done in each pass anew, and what to all of them together; whether batches come out.
fn tails(
    dataset: &Dataset,
    shard: Shard,
    is_by_file: bool,
    batch_bytes_max: u64,
) -> (Tail, Tail, bool) {
    let tail = &dataset.steps().tail;
    let before = before_repeat(tail);
    let mut behind: Vec<Operation> = tail.iter().skip(before.len()).cloned().collect();
    behind.retain(|operation| !matches!(operation, Operation::Repeat(_)));
    match shard {
        Shard::Data { index, count } | Shard::FileOrData { index, count } if !is_by_file => {
            behind.push(Operation::Shard(ShardOf { index, count }));
        }
        _ => {}
    }
    let is_batch = |operation: &Operation| matches!(operation, Operation::Batch(_));
    let is_batched = before.iter().any(is_batch);
    let comes_batched = tail.iter().any(is_batch);
    let tail =
        |operations: &[Operation], is_batched| Tail::of(operations, is_batched, batch_bytes_max);
    (tail(before, false), tail(&behind, is_batched), comes_batched)
}

fn before_repeat(tail: &[Operation]) -> &[Operation] {
    let is_repeat = |operation: &Operation| matches!(operation, Operation::Repeat(_));
    let end = tail.iter().position(is_repeat).unwrap_or(tail.len());
    tail.get(..end).unwrap_or_default()
}
