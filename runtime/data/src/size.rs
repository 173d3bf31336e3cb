//! How much memory records take.

use std::collections::BTreeMap;

use arrow::array::{Array, ArrayData};
use arrow::record_batch::RecordBatch;

/// Bytes of the values that belong to these records, about, whatever shares memory with them.
pub(crate) fn own_bytes(records: &RecordBatch) -> u64 {
    let size = |column: &arrow::array::ArrayRef| {
        let own = column.to_data().get_slice_memory_size();
        own.unwrap_or_else(|_| column.get_array_memory_size()) as u64
    };
    records.columns().iter().map(size).fold(0, u64::saturating_add)
}

/// Records in parts of so many bytes each, about, and at least one record: parts of the same memory.
pub fn in_parts(records: &RecordBatch, bytes: u64) -> Vec<RecordBatch> {
    let (rows, whole) = (records.num_rows(), own_bytes(records));
    let parts = usize::try_from(whole.checked_div(bytes).unwrap_or(1)).unwrap_or(usize::MAX);
    let each = rows.div_ceil(parts.clamp(1, rows.max(1)));
    let part = |from: usize| records.slice(from, each.min(rows.saturating_sub(from)));
    (0..rows).step_by(each.max(1)).map(part).collect()
}

/// Bytes of memory that stays in use because of these records: what several of them share counts
/// once.
pub(crate) fn held_bytes(all: &[RecordBatch]) -> u64 {
    let mut buffers = BTreeMap::new();
    for column in all.iter().flat_map(RecordBatch::columns) {
        note(&column.to_data(), &mut buffers);
    }
    buffers.values().fold(0, |sum, size| sum.saturating_add(*size))
}

fn note(data: &ArrayData, buffers: &mut BTreeMap<usize, u64>) {
    let nulls = data.nulls().map(|nulls| nulls.buffer());
    for buffer in data.buffers().iter().chain(nulls) {
        buffers.insert(buffer.data_ptr().as_ptr() as usize, buffer.capacity() as u64);
    }
    data.child_data().iter().for_each(|child| note(child, buffers));
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{ArrayRef, Int64Array};

    use super::*;

    #[test]
    fn parts_of_the_same_records_hold_them_once() {
        let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(0..1000));
        let whole = RecordBatch::try_from_iter([("numbers", numbers)]).unwrap();
        let parts: Vec<RecordBatch> = (0..10).map(|part| whole.slice(part * 100, 100)).collect();
        assert_eq!((own_bytes(&whole), own_bytes(&parts[3])), (8000, 800));
        let held = held_bytes(&parts);
        assert!((8000..9000).contains(&held), "{held}");
        assert_eq!(held_bytes(&parts[..1]), held, "one part holds all of it");
    }

    #[test]
    fn parts_are_about_as_large_as_asked_for_and_are_all_there_is() {
        let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(0..1000));
        let whole = RecordBatch::try_from_iter([("numbers", numbers)]).unwrap();
        for (bytes, count) in [(0, 1), (1, 1000), (800, 10), (4001, 1), (3999, 2), (9000, 1)] {
            let parts = in_parts(&whole, bytes);
            assert_eq!(parts.len(), count, "{bytes}");
            let joined = arrow::compute::concat_batches(whole.schema_ref(), &parts).unwrap();
            assert_eq!(joined, whole, "{bytes}");
        }
        assert!(in_parts(&whole.slice(0, 0), 800).is_empty());
    }
}
