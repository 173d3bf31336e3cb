//! What was read, record by record, against what there is to read.

use std::collections::BTreeMap;

use arrow::array::RecordBatch;
use arrow::error::ArrowError;
use arrow::row::{RowConverter, SortField};

/// A sum over records that does not depend on their order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Checksum {
    /// How many they are.
    pub(super) records: u64,
    sum: u128,
}

impl Checksum {
    /// Adds each record of a batch: a hash of all its values.
    ///
    /// # Errors
    /// When a column's type cannot be turned into bytes.
    pub(super) fn add(&mut self, batch: &RecordBatch) -> Result<(), ArrowError> {
        let schema = batch.schema();
        let fields = schema.fields().iter().map(|field| SortField::new(field.data_type().clone()));
        let rows = RowConverter::new(fields.collect())?.convert_columns(batch.columns())?;
        for row in &rows {
            let hash = blake3::hash(row.as_ref());
            let half = hash.as_bytes().iter().take(16);
            let number = half.fold(0_u128, |sum, byte| (sum << 8) | u128::from(*byte));
            self.sum = self.sum.wrapping_add(number);
            self.records = self.records.saturating_add(1);
        }
        Ok(())
    }

    /// The sum of so many times the same records.
    pub(super) const fn times(self, passes: u64) -> Self {
        let sum = self.sum.wrapping_mul(passes as u128);
        Self { records: self.records.saturating_mul(passes), sum }
    }

    /// In hexadecimal.
    pub(super) fn text(self) -> String {
        format!("{:032x}", self.sum)
    }
}

/// Which records came how often, by their identity, and what they were.
#[derive(Clone, Debug, Default)]
pub(super) struct Ledger {
    /// Of each split, by its place: how often each record came.
    splits: BTreeMap<u64, Vec<u32>>,
    /// Over everything that came.
    pub(super) checksum: Checksum,
}

impl Ledger {
    /// Notes that these records of a split came.
    pub(super) fn note(&mut self, place: u64, first: u64, count: u64) {
        let index = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
        let (from, to) = (index(first), index(first.saturating_add(count)));
        let came = self.splits.entry(place).or_default();
        if came.len() < to {
            came.resize(to, 0);
        }
        let records = came.get_mut(from..to).into_iter().flatten();
        records.for_each(|times| *times = times.saturating_add(1));
    }

    /// How many records came more than once.
    pub(super) fn twice(&self) -> usize {
        self.counts().filter(|times| *times > 1).count()
    }

    /// How many records did not come though a later one of their split did.
    pub(super) fn gaps(&self) -> usize {
        self.counts().filter(|times| *times == 0).count()
    }

    /// How many different records came.
    pub(super) fn different(&self) -> usize {
        self.counts().filter(|times| *times > 0).count()
    }

    fn counts(&self) -> impl Iterator<Item = u32> + '_ {
        self.splits.values().flatten().copied()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{Int64Array, StringArray};

    use super::*;

    fn batch(numbers: &[i64]) -> RecordBatch {
        let texts: Vec<String> = numbers.iter().map(|number| format!("n{number}")).collect();
        let columns: [(_, Arc<dyn arrow::array::Array>); 2] = [
            ("number", Arc::new(Int64Array::from(numbers.to_vec()))),
            ("text", Arc::new(StringArray::from(texts))),
        ];
        RecordBatch::try_from_iter(columns).unwrap()
    }

    fn sum(batches: &[&[i64]]) -> Checksum {
        let mut sum = Checksum::default();
        batches.iter().for_each(|numbers| sum.add(&batch(numbers)).unwrap());
        sum
    }

    #[test]
    fn a_checksum_knows_records_and_not_their_order() {
        assert_eq!(sum(&[&[1, 2, 3]]), sum(&[&[3], &[1, 2]]));
        assert_eq!(sum(&[&[1, 2, 1, 2]]), sum(&[&[1, 2]]).times(2));
        assert_ne!(sum(&[&[1, 2, 3]]), sum(&[&[1, 2, 4]]));
        assert_ne!(sum(&[&[1, 2, 2]]).text(), sum(&[&[1, 1, 2]]).text());
    }

    #[test]
    fn a_ledger_tells_what_came_twice_and_what_not_at_all() {
        let mut ledger = Ledger::default();
        ledger.note(4, 0, 10);
        ledger.note(5, 3, 2);
        ledger.note(4, 8, 3);
        assert_eq!((ledger.twice(), ledger.gaps(), ledger.different()), (2, 3, 13));
    }
}
