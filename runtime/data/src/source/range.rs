//! Integers.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array};
use arrow::datatypes::{DataType, Field, Schema};
use arrow::record_batch::RecordBatch;

use super::{Chunk, Piece, Reading, Scanned};
use crate::error::DataError;
use crate::limits::SPLITS_MAX;
use crate::manifest::Part;
use crate::pipeline::{Pipeline, RangeSource};

/// The integers of a range, in pieces.
pub(crate) fn scan(pipeline: &Pipeline, range: &RangeSource) -> Result<Scanned, DataError> {
    let records = length(range)?;
    let of_split = pipeline.records_per_split().min(pipeline.bytes_per_split().div_ceil(8));
    let wanted = records.div_ceil(of_split);
    if wanted > SPLITS_MAX {
        let what = format!("a range of {records} integers has {wanted} splits of {of_split}");
        return Err(DataError::Bound {
            what,
            found: wanted,
            bound: SPLITS_MAX,
            setting: "SPLITS_MAX; see split_records",
        });
    }
    let piece = |index: u64| {
        let first = index.saturating_mul(of_split);
        let count = records.saturating_sub(first).min(of_split);
        let part = Part {
            file: 0,
            first,
            records: count,
            offset: first,
            length: count,
            skip: 0,
            take: count,
        };
        Piece { part, bytes: count.saturating_mul(8) }
    };
    let schema = Arc::new(Schema::new(vec![Field::new("value", DataType::Int64, false)]));
    Ok(Scanned { schema, records, pieces: (0..wanted).map(piece).collect() })
}

/// How many integers there are.
fn length(range: &RangeSource) -> Result<u64, DataError> {
    let RangeSource { start, end, step } = *range;
    if step == 0 {
        return Err(DataError::pipeline("a range has a step of 0; it needs another one"));
    }
    let span = if step > 0 {
        i128::from(end).saturating_sub(start.into())
    } else {
        i128::from(start).saturating_sub(end.into())
    };
    let span = u64::try_from(span.max(0)).unwrap_or(u64::MAX);
    Ok(span.div_ceil(step.unsigned_abs()))
}

/// Reads integers.
pub(crate) struct RangeReader {
    range: RangeSource,
    reading: Reading,
    part: Part,
}

impl RangeReader {
    pub(crate) const fn new(range: RangeSource, reading: Reading, part: Part) -> Self {
        Self { range, reading, part }
    }

    pub(crate) fn next(&mut self) -> Result<Option<Chunk>, DataError> {
        let count = self.part.take.min(self.reading.chunk_records as u64);
        if count == 0 {
            return Ok(None);
        }
        let (from, stride) = (self.part.first.saturating_add(self.part.skip), self.reading.stride);
        let (start, step) = (i128::from(self.range.start), i128::from(self.range.step));
        let value = |index: u64| {
            let place = i128::from(from).saturating_add(i128::from(index) * i128::from(stride));
            i64::try_from(start.saturating_add(place.saturating_mul(step)))
        };
        let values = (0..count).map(value).collect::<Result<Vec<i64>, _>>();
        let values = values.map_err(|_| DataError::definition("a part is outside its range"))?;
        self.part.skip = self.part.skip.saturating_add(count.saturating_mul(stride));
        self.part.take = self.part.take.saturating_sub(count);
        let column: ArrayRef = Arc::new(Int64Array::from(values));
        let records = RecordBatch::try_new(self.reading.schema.clone(), vec![column]);
        let records = records.map_err(|error| DataError::definition(error.to_string()))?;
        Ok(Some(Chunk { records, skipped: Vec::new() }))
    }
}
