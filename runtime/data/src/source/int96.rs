//! Times of Parquet's old type INT96: a day, and nanoseconds behind its beginning.
//!
//! The days reach far beyond what 64 bits count in nanoseconds, and the decoder makes another time of one
//! that they do not count. So columns with such times are decoded once more, in seconds: 64 bits count all.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::buffer::NullBuffer;
use arrow::compute::cast;
use arrow::datatypes::{DataType, FieldRef, Schema, TimeUnit};
use arrow::record_batch::RecordBatch;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions};
use parquet::basic::Type;
use parquet::errors::ParquetError;

/// How the reader decodes the columns with such times once more, in seconds. None if there are none.
pub(super) fn in_seconds(
    metadata: &ArrowReaderMetadata,
) -> Result<Option<(ArrowReaderMetadata, ProjectionMask)>, ParquetError> {
    let parquet = metadata.metadata().file_metadata().schema_descr();
    let is_old = || parquet.columns().iter().map(|leaf| leaf.physical_type() == Type::INT96);
    let places: Vec<usize> = is_old().enumerate().filter_map(|(at, is)| is.then_some(at)).collect();
    if places.is_empty() {
        return Ok(None);
    }
    let (schema, mut leaves) = (metadata.schema(), is_old());
    let fields = schema.fields().iter().map(|field| with_seconds(field, &mut leaves));
    let schema = Schema::new_with_metadata(fields.collect::<Vec<_>>(), schema.metadata().clone());
    let options = ArrowReaderOptions::new().with_schema(Arc::new(schema));
    let roots = places.into_iter().map(|leaf| parquet.get_column_root_idx(leaf));
    let columns = ProjectionMask::roots(parquet, roots);
    let metadata = ArrowReaderMetadata::try_new(Arc::clone(metadata.metadata()), options)?;
    Ok(Some((metadata, columns)))
}

/// A field whose old times are in seconds. `is_old` says of each leaf from here on whether it has such times.
fn with_seconds(field: &FieldRef, is_old: &mut impl Iterator<Item = bool>) -> FieldRef {
    let kind = match field.data_type() {
        DataType::Struct(fields) => {
            DataType::Struct(fields.iter().map(|field| with_seconds(field, is_old)).collect())
        }
        DataType::List(item) => DataType::List(with_seconds(item, is_old)),
        DataType::LargeList(item) => DataType::LargeList(with_seconds(item, is_old)),
        DataType::ListView(item) => DataType::ListView(with_seconds(item, is_old)),
        DataType::LargeListView(item) => DataType::LargeListView(with_seconds(item, is_old)),
        DataType::FixedSizeList(item, size) => {
            DataType::FixedSizeList(with_seconds(item, is_old), *size)
        }
        DataType::Map(entries, is_sorted) => {
            DataType::Map(with_seconds(entries, is_old), *is_sorted)
        }
        kind => match (is_old.next(), kind) {
            (Some(true), DataType::Timestamp(_, zone)) => {
                DataType::Timestamp(TimeUnit::Second, zone.clone())
            }
            _ => kind.clone(),
        },
    };
    Arc::new(field.as_ref().clone().with_data_type(kind))
}

/// The first row with a time that its column does not hold, and what is wrong with it. `seconds` are the same
/// rows, decoded once more.
pub(super) fn first_lost(records: &RecordBatch, seconds: &RecordBatch) -> Option<(usize, String)> {
    let columns = seconds.schema_ref().fields().iter().zip(seconds.columns());
    columns.into_iter().find_map(|(field, seconds)| {
        let found = records.column_by_name(field.name())?;
        lost(found, seconds, None)?;
        let of_row = |row| Some((row, lost(&found.slice(row, 1), &seconds.slice(row, 1), None)?));
        let (row, what) = (0..found.len()).find_map(of_row)?;
        Some((row, format!("column {:?}: {what}", field.name())))
    })
}

/// Describes the first time that differs from the one in seconds. `parents` says which values there are.
fn lost(found: &ArrayRef, seconds: &ArrayRef, parents: Option<&NullBuffer>) -> Option<String> {
    let nulls = NullBuffer::union(parents, found.nulls());
    match (found.data_type(), seconds.data_type()) {
        (kind, other) if kind == other => None,
        (DataType::Timestamp(unit, _), DataType::Timestamp(TimeUnit::Second, _)) => {
            let place = first_other(found, seconds, *unit, nulls.as_ref())?;
            Some(format!(
                "the time {} of type INT96 does not fit the type {}; write the column as another \
                 type, such as TIMESTAMP_MICROS",
                text(seconds, place),
                found.data_type(),
            ))
        }
        _ => {
            let pairs = parts(found).into_iter().zip(parts(seconds));
            let parents = |of: &Inner| match of {
                Inner::Each(_) => nulls.clone(),
                Inner::Several(_, size) => nulls.as_ref().map(|nulls| nulls.expand(*size)),
                Inner::Present(_) => None,
            };
            pairs.into_iter().find_map(|(found, seconds)| {
                lost(found.values(), seconds.values(), parents(&found).as_ref())
            })
        }
    }
}

/// The place of the first time that is not within a second of the one in seconds.
fn first_other(
    found: &ArrayRef,
    seconds: &ArrayRef,
    unit: TimeUnit,
    nulls: Option<&NullBuffer>,
) -> Option<usize> {
    let of_second: i128 = match unit {
        TimeUnit::Second => 1,
        TimeUnit::Millisecond => 1_000,
        TimeUnit::Microsecond => 1_000_000,
        TimeUnit::Nanosecond => 1_000_000_000,
    };
    let (found, seconds) = (found.to_data(), seconds.to_data());
    let pairs = found.buffer::<i64>(0).iter().zip(seconds.buffer::<i64>(0)).take(found.len());
    let is_other = |(place, (found, seconds)): (usize, (&i64, &i64))| {
        let apart = i128::from(*found) - i128::from(*seconds) * of_second;
        let is_lost = apart.abs() >= of_second && nulls.is_none_or(|nulls| nulls.is_valid(place));
        is_lost.then_some(place)
    };
    pairs.enumerate().find_map(is_other)
}

fn text(seconds: &ArrayRef, place: usize) -> String {
    let options = FormatOptions::new().with_display_error(false);
    // As it is in the file, where it has no zone.
    let text = cast(seconds, &DataType::Timestamp(TimeUnit::Second, None)).and_then(|seconds| {
        ArrayFormatter::try_new(&seconds, &options)?.value(place).try_to_string()
    });
    text.unwrap_or_else(|_| "of a year that no calendar has".to_owned())
}

/// Values within others.
enum Inner {
    /// One for each.
    Each(ArrayRef),
    /// So many for each.
    Several(ArrayRef, usize),
    /// Only those that there are.
    Present(ArrayRef),
}

impl Inner {
    const fn values(&self) -> &ArrayRef {
        match self {
            Self::Each(values) | Self::Several(values, _) | Self::Present(values) => values,
        }
    }
}

fn parts(values: &ArrayRef) -> Vec<Inner> {
    let within = |all: &dyn Array, ends: Option<(usize, usize)>| {
        let (from, to) = ends.unwrap_or_default();
        vec![Inner::Present(all.slice(from, to.saturating_sub(from)))]
    };
    match values.data_type() {
        DataType::Struct(_) => {
            values.as_struct().columns().iter().cloned().map(Inner::Each).collect()
        }
        DataType::List(_) => {
            let list = values.as_list::<i32>();
            within(list.values(), ends(list.value_offsets()))
        }
        DataType::LargeList(_) => {
            let list = values.as_list::<i64>();
            within(list.values(), ends(list.value_offsets()))
        }
        DataType::ListView(item) | DataType::LargeListView(item) => {
            let lists = cast(values, &DataType::LargeList(Arc::clone(item)));
            lists.map(|lists| parts(&lists)).unwrap_or_default()
        }
        DataType::Map(..) => {
            let map = values.as_map();
            within(map.entries(), ends(map.value_offsets()))
        }
        DataType::FixedSizeList(_, size) => {
            let size = usize::try_from(*size).unwrap_or(0);
            vec![Inner::Several(values.as_fixed_size_list().values().clone(), size)]
        }
        _ => Vec::new(),
    }
}

/// Where the items of all lists begin and end.
fn ends<T: Copy + TryInto<usize>>(offsets: &[T]) -> Option<(usize, usize)> {
    Some(((*offsets.first()?).try_into().ok()?, (*offsets.last()?).try_into().ok()?))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]
mod tests {
    use arrow::array::{
        Int64Array, LargeListViewArray, ListViewArray, StructArray, TimestampNanosecondArray,
        TimestampSecondArray,
    };
    use arrow::datatypes::{Field, Fields};

    use super::*;

    #[test]
    fn a_time_is_told_as_it_is_in_the_file_whatever_the_columns_zone() {
        for zone in [None, Some("UTC"), Some("Europe/Berlin"), Some("+02:00")] {
            let seconds = TimestampSecondArray::from(vec![253_402_214_400]);
            let seconds: ArrayRef = Arc::new(seconds.with_timezone_opt(zone));
            assert_eq!(text(&seconds, 0), "9999-12-31T00:00:00", "{zone:?}");
        }
    }

    #[test]
    fn each_leaf_within_a_list_counts() {
        let number = |name| Field::new(name, DataType::Int64, false);
        let pair = DataType::Struct(Fields::from(vec![number("a"), number("b")]));
        let item = Arc::new(Field::new("item", pair, true));
        let nanoseconds = DataType::Timestamp(TimeUnit::Nanosecond, None);
        for list in [
            DataType::List(Arc::clone(&item)),
            DataType::LargeList(Arc::clone(&item)),
            DataType::ListView(Arc::clone(&item)),
            DataType::LargeListView(Arc::clone(&item)),
            DataType::FixedSizeList(Arc::clone(&item), 2),
        ] {
            let mut is_old = [false, false, true].into_iter();
            let list: FieldRef = Arc::new(Field::new("list", list, true));
            let time: FieldRef = Arc::new(Field::new("time", nanoseconds.clone(), true));
            assert_eq!(with_seconds(&list, &mut is_old), list);
            let seconds = DataType::Timestamp(TimeUnit::Second, None);
            assert_eq!(with_seconds(&time, &mut is_old).data_type(), &seconds);
        }
    }

    #[test]
    fn times_in_views_of_lists_are_looked_at() {
        let nanoseconds: ArrayRef =
            Arc::new(TimestampNanosecondArray::from(vec![0, 1_000_000_000]));
        let seconds: ArrayRef = Arc::new(TimestampSecondArray::from(vec![0, 2]));
        let view = |values: &ArrayRef| -> ArrayRef {
            let item = Arc::new(Field::new("item", values.data_type().clone(), false));
            let (offsets, sizes) = (vec![0].into(), vec![2].into());
            Arc::new(ListViewArray::new(item, offsets, sizes, Arc::clone(values), None))
        };
        let large = |values: &ArrayRef| -> ArrayRef {
            let item = Arc::new(Field::new("item", values.data_type().clone(), false));
            let (offsets, sizes) = (vec![0].into(), vec![2].into());
            Arc::new(LargeListViewArray::new(item, offsets, sizes, Arc::clone(values), None))
        };
        assert!(lost(&view(&nanoseconds), &view(&seconds), None).is_some());
        assert!(lost(&large(&nanoseconds), &large(&seconds), None).is_some());
        let within = |values: &ArrayRef| -> ArrayRef {
            let numbers: ArrayRef = Arc::new(Int64Array::from(vec![1, 2]));
            let field =
                |name, of: &ArrayRef| Arc::new(Field::new(name, of.data_type().clone(), false));
            let fields =
                [(field("n", &numbers), numbers), (field("t", values), Arc::clone(values))];
            Arc::new(StructArray::from(fields.to_vec()))
        };
        assert!(lost(&view(&within(&nanoseconds)), &view(&within(&seconds)), None).is_some());
    }
}
