//! In which places the operations of a pipeline are carried out.
//!
//! Behind a source come, in this order: what chooses among its records (done when the dataset is
//! planned), what is done within a split (by whoever reads it), and the tail, which needs the whole
//! stream of records. A tail of batches and passes alone leaves a dataset that can be split.

use crate::error::DataError;
use crate::pipeline::{BatchOf, Interleave, Operation, Pipeline, Repeat, Shuffle};

/// The operations of a pipeline by the place where they are carried out.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Steps {
    /// `take`, `skip` and `shard` of the source's records.
    pub(crate) choice: Vec<Operation>,
    /// Whether the members of a split alternate.
    pub(crate) interleave: Option<Interleave>,
    /// What is done to each record, before they are shuffled.
    pub(crate) before: Vec<Operation>,
    pub(crate) shuffle: Option<Shuffle>,
    /// What is done to each record, after they were shuffled.
    pub(crate) after: Vec<Operation>,
    /// What is done to the whole stream, from its first operation that is no record's own on.
    pub(crate) tail: Vec<Operation>,
    /// Batches that are made ahead, if the pipeline says so.
    pub(crate) prefetch: Option<u64>,
}

/// How many passes there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Passes {
    Endless,
    Count(u64),
}

impl Steps {
    /// Where the operations of a pipeline belong.
    pub(crate) fn of(pipeline: &Pipeline) -> Result<Self, DataError> {
        let mut steps = Self::default();
        for operation in &pipeline.operations {
            check(operation)?;
            steps.place(operation)?;
        }
        Ok(steps)
    }

    fn place(&mut self, operation: &Operation) -> Result<(), DataError> {
        match operation {
            Operation::Prefetch(batches) => self.prefetch = Some(*batches),
            Operation::Interleave(interleave) => self.place_interleave(*interleave)?,
            Operation::Shuffle(shuffle) => self.place_shuffle(*shuffle)?,
            Operation::Take(_) | Operation::Skip(_) | Operation::Shard(_) => {
                let list =
                    if self.is_source_as_it_is() { &mut self.choice } else { &mut self.tail };
                list.push(operation.clone());
            }
            Operation::Batch(_) if self.batch().is_some() => {
                return Err(misplaced("a second batch", "batches are not batched again"));
            }
            Operation::Repeat(_) if !self.may_repeat() => {
                let why = "take, skip, shard and batch stand behind all of the passes or before";
                return Err(misplaced("a second repeat", why));
            }
            Operation::Batch(_) | Operation::Repeat(_) => self.tail.push(operation.clone()),
            Operation::Select(_)
            | Operation::Filter(_)
            | Operation::Map(_)
            | Operation::FillNull(_) => self.place_record(operation)?,
        }
        Ok(())
    }

    fn place_interleave(&mut self, interleave: Interleave) -> Result<(), DataError> {
        if self.interleave.is_some() || !self.is_source_as_it_is() {
            let where_to = "it stands before shuffle, filter, batch and repeat, and once";
            return Err(misplaced("interleave", where_to));
        }
        self.interleave = Some(interleave);
        Ok(())
    }

    fn place_shuffle(&mut self, shuffle: Shuffle) -> Result<(), DataError> {
        if self.shuffle.is_some() || !self.tail.is_empty() {
            let where_to = "it stands before batch, repeat and what takes of filtered or shuffled \
                            records, and once";
            return Err(misplaced("shuffle", where_to));
        }
        self.shuffle = Some(shuffle);
        Ok(())
    }

    fn place_record(&mut self, operation: &Operation) -> Result<(), DataError> {
        if self.batch().is_some() {
            return Err(misplaced(operation.name(), "it works on records: put it before batch"));
        }
        let list = if self.unsplittable().is_some() {
            &mut self.tail
        } else if self.shuffle.is_some() {
            &mut self.after
        } else {
            &mut self.before
        };
        list.push(operation.clone());
        Ok(())
    }

    /// Whether records are still those of the source, one for one and in its order.
    fn is_source_as_it_is(&self) -> bool {
        self.interleave.is_none()
            && self.shuffle.is_none()
            && self.tail.is_empty()
            && self.keeps_every_record()
    }

    /// Whether another repeat only means more passes.
    fn may_repeat(&self) -> bool {
        let last = self.tail.iter().rposition(|it| matches!(it, Operation::Repeat(_)));
        last.is_none_or(|last| last.saturating_add(1) == self.tail.len())
    }

    /// Whether what is done within a split leaves as many records as there were.
    pub(crate) fn keeps_every_record(&self) -> bool {
        let mut all = self.before.iter().chain(&self.after);
        !all.any(|operation| matches!(operation, Operation::Filter(_)))
    }

    /// The batch there is, if any.
    pub(crate) fn batch(&self) -> Option<BatchOf> {
        self.tail.iter().find_map(|operation| match operation {
            Operation::Batch(batch) => Some(*batch),
            _ => None,
        })
    }

    /// How many passes there are.
    pub(crate) fn passes(&self) -> Passes {
        self.tail.iter().fold(Passes::Count(1), |passes, operation| match (passes, operation) {
            (_, Operation::Repeat(Repeat::Endless)) => Passes::Endless,
            (Passes::Count(so_far), Operation::Repeat(Repeat::Count(count))) => {
                Passes::Count(so_far.saturating_mul(*count))
            }
            (passes, _) => passes,
        })
    }

    /// Whether batches end where passes end: `batch` stands before `repeat`.
    pub(crate) fn batches_end_with_passes(&self) -> bool {
        let batch = self.tail.iter().position(|it| matches!(it, Operation::Batch(_)));
        let repeat = self.tail.iter().rposition(|it| matches!(it, Operation::Repeat(_)));
        batch.zip(repeat).is_some_and(|(batch, repeat)| batch < repeat)
    }

    /// Why the dataset cannot be divided into splits, if it cannot.
    pub(crate) fn unsplittable(&self) -> Option<String> {
        let whole = |it: &&Operation| !matches!(it, Operation::Batch(_) | Operation::Repeat(_));
        let operation = self.tail.iter().find(whole)?;
        Some(format!(
            "`{}` needs the whole stream of records: it stands behind an operation after which \
             nobody knows how many records a split has, or which come first; put it directly \
             behind the source, or use another sharding policy than DYNAMIC",
            operation.name()
        ))
    }
}

fn misplaced(what: &str, why: &str) -> DataError {
    DataError::pipeline(format!("{what} cannot stand there: {why}"))
}

/// Whether the numbers of an operation make sense.
fn check(operation: &Operation) -> Result<(), DataError> {
    let (what, wanted) = match operation {
        Operation::Shuffle(shuffle) if shuffle.buffer == 0 => ("a buffer of 0", "1 or more"),
        Operation::Batch(batch) if batch.size == 0 => ("a size of 0", "1 or more"),
        Operation::Repeat(Repeat::Count(0)) => ("a count of 0", "1 or more, or `endless`"),
        Operation::Shard(shard) if shard.index >= shard.count => {
            ("an index that is not below its count", "one from 0 to count - 1")
        }
        Operation::Interleave(it) if it.cycle == 0 => ("a cycle of 0", "1 or more files"),
        Operation::Interleave(it) if it.block == 0 => ("a block of 0", "1 or more records"),
        Operation::Select(columns) if columns.is_empty() => ("no columns", "1 or more"),
        _ => return Ok(()),
    };
    Err(DataError::pipeline(format!("{} has {what}; it needs {wanted}", operation.name())))
}
