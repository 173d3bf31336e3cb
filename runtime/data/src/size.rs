//! How much memory records take.

use std::collections::BTreeMap;

use arrow::array::{Array, ArrayData, ArrayRef, AsArray};
use arrow::datatypes::DataType;
use arrow::record_batch::RecordBatch;

/// Bytes of the values that belong to these records, about, whatever shares memory with them.
pub(crate) fn own_bytes(records: &RecordBatch) -> u64 {
    let size = |column: &ArrayRef| {
        let own = column.to_data().get_slice_memory_size();
        own.unwrap_or_else(|_| column.get_array_memory_size()) as u64
    };
    records.columns().iter().map(size).fold(0, u64::saturating_add)
}

/// Bytes that the values of these records take at least in an element that they are part of. A string
/// counts as one byte if it is empty.
pub(crate) fn value_bytes(records: &RecordBatch) -> u64 {
    all_values(records.columns())
}

fn all_values(columns: &[ArrayRef]) -> u64 {
    columns.iter().map(values).fold(0, u64::saturating_add)
}

fn values(column: &ArrayRef) -> u64 {
    let count = column.len() as u64;
    match column.data_type() {
        DataType::Boolean => count,
        DataType::Utf8 => extent(column.as_string::<i32>().value_offsets()).1.max(count),
        DataType::LargeUtf8 => extent(column.as_string::<i64>().value_offsets()).1.max(count),
        DataType::Binary => extent(column.as_binary::<i32>().value_offsets()).1.max(count),
        DataType::LargeBinary => extent(column.as_binary::<i64>().value_offsets()).1.max(count),
        DataType::Utf8View => viewed(column.as_string_view().views()).max(count),
        DataType::BinaryView => viewed(column.as_binary_view().views()).max(count),
        DataType::FixedSizeBinary(size) => {
            count.saturating_mul(u64::try_from(*size).unwrap_or(0).max(1))
        }
        DataType::Struct(_) => all_values(column.as_struct().columns()),
        DataType::List(_) => {
            let list = column.as_list::<i32>();
            within(list.values(), extent(list.value_offsets()))
        }
        DataType::LargeList(_) => {
            let list = column.as_list::<i64>();
            within(list.values(), extent(list.value_offsets()))
        }
        DataType::FixedSizeList(_, size) => {
            let each = u64::try_from(*size).unwrap_or(0);
            within(column.as_fixed_size_list().values(), (0, count.saturating_mul(each)))
        }
        // No element has the others: then it is the memory that counts.
        kind => match kind.primitive_width() {
            Some(width) => count.saturating_mul(width as u64),
            None => column.to_data().get_slice_memory_size().unwrap_or(0) as u64,
        },
    }
}

/// Where values with these offsets begin, and how many they are.
fn extent<O: Copy + TryInto<u64>>(offsets: &[O]) -> (u64, u64) {
    let number =
        |offset: Option<&O>| -> u64 { offset.and_then(|it| (*it).try_into().ok()).unwrap_or(0) };
    let first = number(offsets.first());
    (first, number(offsets.last()).saturating_sub(first))
}

/// The lengths of strings, each in the lower half of the lower half of its view.
fn viewed(views: &[u128]) -> u64 {
    let length = |view: &u128| u64::from(*view as u32);
    views.iter().map(length).fold(0, u64::saturating_add)
}

fn within(all: &ArrayRef, (first, count): (u64, u64)) -> u64 {
    let (first, count) = (usize::try_from(first), usize::try_from(count));
    values(&all.slice(first.unwrap_or(0), count.unwrap_or(0)))
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

    use arrow::array::{
        BooleanArray, FixedSizeListArray, Int64Array, LargeStringArray, ListArray, StringArray,
        StringViewArray,
    };
    use arrow::buffer::OffsetBuffer;
    use arrow::datatypes::Field;

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
    fn values_count_as_many_bytes_as_an_element_has_of_them_at_least() {
        let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(0..1000));
        let flags: ArrayRef = Arc::new(BooleanArray::from(vec![true; 1000]));
        let texts: ArrayRef = Arc::new(LargeStringArray::from(vec!["four"; 1000]));
        let views: ArrayRef = Arc::new(StringViewArray::from(vec!["more than twelve"; 1000]));
        let nothing: ArrayRef = Arc::new(StringArray::from(vec![""; 1000]));
        let item = Arc::new(Field::new_list_field(DataType::Int64, false));
        let (ends, values) = (OffsetBuffer::from_lengths([3; 300]), numbers.slice(0, 900));
        let lists: ArrayRef = Arc::new(ListArray::new(Arc::clone(&item), ends, values, None));
        let pairs: ArrayRef =
            Arc::new(FixedSizeListArray::new(item, 2, numbers.slice(0, 600), None));
        for (column, each) in [
            (numbers, 8),
            (flags, 1),
            (texts, 4),
            (views, 16),
            (nothing, 1),
            (lists, 24),
            (pairs, 16),
        ] {
            let (rows, kind) = (column.len() as u64, column.data_type().clone());
            let all = RecordBatch::try_from_iter([("column", column)]).unwrap();
            assert_eq!(value_bytes(&all), rows * each, "{kind}");
            assert_eq!(value_bytes(&all.slice(200, 10)), 10 * each, "{kind}");
            assert_eq!(value_bytes(&all.slice(200, 0)), 0, "{kind}");
        }
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
