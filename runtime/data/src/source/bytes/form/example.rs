//! `tensorflow.Example`: features by name, as columns of the types that the pipeline tells.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, BinaryArray, FixedSizeListArray, Float32Array, Int64Array, ListArray, StringArray,
};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::compute::take;
use arrow::datatypes::{DataType, Field, SchemaRef};
use arrow::record_batch::RecordBatch;
use bytes::Bytes;
use prost::Message;
use rondo_proto::tf;
use rondo_proto::tf::feature::Kind;

use crate::error::DataError;
use crate::operation::arrow_type;
use crate::pipeline::{Column, ColumnType};

/// Features are of three types, and bytes may be text.
pub(super) fn check(column: &Column) -> Result<(), DataError> {
    let is_known = matches!(
        column.kind,
        ColumnType::Int64 | ColumnType::Float32 | ColumnType::Binary | ColumnType::String
    );
    if !is_known {
        let what = "a feature of tensorflow.Example is int64, float32, binary or string; cast it \
                    with `map`";
        return Err(DataError::column(&column.name, what));
    }
    if column.list && !column.shape.is_empty() {
        return Err(DataError::column(
            &column.name,
            "a feature has a shape or is a list, not both",
        ));
    }
    Ok(())
}

pub(super) fn read(
    columns: &[Column],
    records: &[Bytes],
    schema: &SchemaRef,
) -> Result<RecordBatch, String> {
    let examples = records.iter().map(|record| {
        let example = tf::Example::decode(record.clone());
        let example = example.map_err(|error| format!("it is no tensorflow.Example: {error}"))?;
        Ok(example.features.unwrap_or_default())
    });
    let examples = examples.collect::<Result<Vec<tf::Features>, String>>()?;
    let column = |column: &Column| read_column(column, &examples);
    let columns = columns.iter().map(column).collect::<Result<Vec<_>, String>>()?;
    RecordBatch::try_new(schema.clone(), columns).map_err(|error| error.to_string())
}

/// The values of all records in one column, before they are put together.
enum Flat {
    Integers(Vec<i64>),
    Numbers(Vec<f32>),
    Bytes(Vec<Bytes>),
}

fn read_column(column: &Column, examples: &[tf::Features]) -> Result<ArrayRef, String> {
    let mut flat = match column.kind {
        ColumnType::Int64 => Flat::Integers(Vec::new()),
        ColumnType::Float32 => Flat::Numbers(Vec::new()),
        _ => Flat::Bytes(Vec::new()),
    };
    let wanted = column.shape.iter().try_fold(1_u64, |count, size| count.checked_mul(*size));
    let wanted = wanted.and_then(|count| usize::try_from(count).ok());
    let wanted = wanted.ok_or_else(|| format!("feature {:?} has a huge shape", column.name))?;
    let mut counts = Vec::with_capacity(examples.len());
    for example in examples {
        let kind = example.feature.get(&column.name).and_then(|feature| feature.kind.as_ref());
        let count = match kind {
            Some(kind) => Some(flat.extend(&column.name, kind)?),
            None => None,
        };
        if let Some(count) = count
            && !column.list
            && count != wanted
        {
            return Err(format!("feature {:?} has {count} values, not {wanted}", column.name));
        }
        counts.push(count);
    }
    let values = flat.array(column)?;
    if column.list {
        return lists(column, values, &counts);
    }
    fixed(column, values, &counts, wanted)
}

impl Flat {
    /// Takes a feature's values; how many they are.
    fn extend(&mut self, name: &str, kind: &Kind) -> Result<usize, String> {
        let (wanted, found) = match (&mut *self, kind) {
            (Self::Integers(all), Kind::Int64List(list)) => {
                all.extend(&list.value);
                return Ok(list.value.len());
            }
            (Self::Numbers(all), Kind::FloatList(list)) => {
                all.extend(&list.value);
                return Ok(list.value.len());
            }
            (Self::Bytes(all), Kind::BytesList(list)) => {
                all.extend(list.value.iter().cloned());
                return Ok(list.value.len());
            }
            (flat, kind) => (flat.name(), name_of(kind)),
        };
        Err(format!("feature {name:?} is a {found}, not a {wanted}"))
    }

    const fn name(&self) -> &'static str {
        match self {
            Self::Integers(_) => "int64_list",
            Self::Numbers(_) => "float_list",
            Self::Bytes(_) => "bytes_list",
        }
    }

    fn array(self, column: &Column) -> Result<ArrayRef, String> {
        Ok(match self {
            Self::Integers(all) => Arc::new(Int64Array::from(all)),
            Self::Numbers(all) => Arc::new(Float32Array::from(all)),
            Self::Bytes(all) if column.kind == ColumnType::Binary => {
                Arc::new(BinaryArray::from_iter_values(all))
            }
            Self::Bytes(all) => {
                let texts = all.iter().map(|bytes| std::str::from_utf8(bytes));
                let texts = texts.collect::<Result<Vec<&str>, _>>();
                let texts = texts
                    .map_err(|error| format!("feature {:?} is no UTF-8: {error}", column.name))?;
                Arc::new(StringArray::from_iter_values(texts))
            }
        })
    }
}

const fn name_of(kind: &Kind) -> &'static str {
    match kind {
        Kind::Int64List(_) => "int64_list",
        Kind::FloatList(_) => "float_list",
        Kind::BytesList(_) => "bytes_list",
    }
}

fn lists(column: &Column, values: ArrayRef, counts: &[Option<usize>]) -> Result<ArrayRef, String> {
    let nulls = NullBuffer::from_iter(counts.iter().map(Option::is_some));
    let offsets = OffsetBuffer::from_lengths(counts.iter().map(|count| count.unwrap_or(0)));
    let item = Arc::new(Field::new("item", arrow_type(column.kind), false));
    let list = ListArray::try_new(item, offsets, values, Some(nulls));
    list.map(|list| Arc::new(list) as ArrayRef).map_err(|error| error.to_string())
}

/// Values of which each record has as many, or none at all.
fn fixed(
    column: &Column,
    values: ArrayRef,
    counts: &[Option<usize>],
    wanted: usize,
) -> Result<ArrayRef, String> {
    let has_all = counts.iter().all(Option::is_some);
    let unfit = |error: arrow::error::ArrowError| error.to_string();
    let mut array = values;
    if !has_all && column.shape.is_empty() {
        let mut next = 0_u32;
        let place = |count: &Option<usize>| {
            count.map(|_| {
                let place = next;
                next = next.saturating_add(1);
                place
            })
        };
        let places: arrow::array::UInt32Array = counts.iter().map(place).collect();
        array = take(array.as_ref(), &places, None).map_err(unfit)?;
    } else if !has_all {
        let missing = counts.iter().position(Option::is_none).unwrap_or(0);
        let name = &column.name;
        return Err(format!("feature {name:?} is missing in record {missing}; it has a shape"));
    }
    let mut kind = arrow_type(column.kind);
    let mut inner = wanted;
    for size in column.shape.iter().rev() {
        let size = i32::try_from(*size).map_err(|error| error.to_string())?;
        let item = Arc::new(Field::new("item", kind, false));
        inner = inner.checked_div(usize::try_from(size).unwrap_or(0)).unwrap_or(0);
        let list = FixedSizeListArray::try_new(item, size, array, None).map_err(unfit)?;
        kind = list_type(&list);
        array = Arc::new(list);
    }
    Ok(array)
}

fn list_type(list: &FixedSizeListArray) -> DataType {
    use arrow::array::Array;
    list.data_type().clone()
}
