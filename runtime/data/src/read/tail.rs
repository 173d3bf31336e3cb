//! What is done to a whole stream of records, or of batches of them.

use arrow::array::UInt32Array;
use arrow::compute::take_record_batch;
use arrow::record_batch::RecordBatch;

use super::Batch;
use crate::error::DataError;
use crate::operation::apply;
use crate::pipeline::Operation;
use crate::rebatch::Rebatcher;

/// Operations one behind the other, as far as they have come.
pub(super) struct Tail {
    stages: Vec<Stage>,
}

/// An operation, as far as it has come. Behind a batch, batches are counted instead of records.
enum Stage {
    Take { left: u64, of_batches: bool },
    Skip { left: u64, of_batches: bool },
    Shard { index: u64, count: u64, next: u64, of_batches: bool },
    Batch(Rebatcher),
    Each(Operation),
}

impl Tail {
    /// These operations, at their beginning; `is_batched` if what comes are batches already. The values
    /// of a batch may take `bytes_max` bytes.
    pub(super) fn of(operations: &[Operation], is_batched: bool, bytes_max: u64) -> Self {
        let mut of_batches = is_batched;
        let mut stages = Vec::new();
        for operation in operations {
            stages.push(match operation {
                Operation::Take(left) => Stage::Take { left: *left, of_batches },
                Operation::Skip(left) => Stage::Skip { left: *left, of_batches },
                Operation::Shard(it) => {
                    Stage::Shard { index: it.index, count: it.count, next: 0, of_batches }
                }
                Operation::Batch(batch) => {
                    of_batches = true;
                    let (size, drop_remainder) = (batch.size, batch.drop_remainder);
                    Stage::Batch(Rebatcher::new(size, drop_remainder, false, bytes_max))
                }
                other => Stage::Each(other.clone()),
            });
        }
        Self { stages }
    }

    /// What comes out for records, or a batch, that come in.
    pub(super) fn push(&mut self, records: RecordBatch) -> Result<Vec<RecordBatch>, DataError> {
        through(&mut self.stages, vec![records])
    }

    /// What comes out at the end.
    pub(super) fn end(&mut self) -> Result<Vec<RecordBatch>, DataError> {
        let mut found = Vec::new();
        for at in 0..self.stages.len() {
            let Some((stage, behind)) = self.stages.get_mut(at..).and_then(<[_]>::split_first_mut)
            else {
                break;
            };
            if let Stage::Batch(rebatcher) = stage {
                rebatcher.end()?;
                let last = std::iter::from_fn(|| rebatcher.pop()).map(|batch| batch.records);
                let last = last.collect();
                found.extend(through(behind, last)?);
            }
        }
        Ok(found)
    }

    /// Whether nothing comes out any more, whatever comes in.
    pub(super) fn is_over(&self) -> bool {
        self.stages.iter().any(|stage| matches!(stage, Stage::Take { left: 0, .. }))
    }
}

fn through(stages: &mut [Stage], records: Vec<RecordBatch>) -> Result<Vec<RecordBatch>, DataError> {
    stages.iter_mut().try_fold(records, |records, stage| {
        let mut found = Vec::new();
        for batch in records {
            stage.push(batch, &mut found)?;
        }
        Ok(found)
    })
}

impl Stage {
    fn push(&mut self, records: RecordBatch, out: &mut Vec<RecordBatch>) -> Result<(), DataError> {
        let rows = records.num_rows() as u64;
        match self {
            Self::Each(operation) => out.push(apply(operation, records)?),
            Self::Batch(rebatcher) => {
                rebatcher.push(0, 0, Batch { first: 0, records, skipped: Vec::new() })?;
                out.extend(std::iter::from_fn(|| rebatcher.pop()).map(|batch| batch.records));
            }
            Self::Take { left, of_batches } => {
                let count = if *of_batches { 1 } else { rows }.min(*left);
                *left = left.saturating_sub(count);
                if count > 0 {
                    let rows = if *of_batches { rows } else { count };
                    out.push(records.slice(0, rows as usize));
                }
            }
            Self::Skip { left, of_batches } => {
                let count = if *of_batches { 1 } else { rows }.min(*left);
                *left = left.saturating_sub(count);
                let over = if *of_batches { count.saturating_mul(rows) } else { count };
                if over < rows {
                    out.push(records.slice(over as usize, rows.saturating_sub(over) as usize));
                }
            }
            Self::Shard { index, count, next, of_batches: true } => {
                if *next == *index {
                    out.push(records);
                }
                *next = next.saturating_add(1).checked_rem(*count).unwrap_or(0);
            }
            Self::Shard { index, count, next, of_batches: false } => {
                let is_ours = |row: &u64| {
                    next.saturating_add(*row).checked_rem(*count).is_some_and(|it| it == *index)
                };
                let ours = (0..rows).filter(is_ours).filter_map(|row| u32::try_from(row).ok());
                let ours = UInt32Array::from_iter_values(ours);
                *next = next.saturating_add(rows).checked_rem(*count).unwrap_or(0);
                let ours = take_record_batch(&records, &ours);
                out.push(ours.map_err(|error| DataError::internal(error.to_string()))?);
            }
        }
        Ok(())
    }
}
