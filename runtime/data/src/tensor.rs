//! Records as elements of tensors.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::buffer::Buffer;
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, Fields, Schema};
use arrow::record_batch::RecordBatch;
use bytes::Bytes;
use rondo_core::element::{
    Dtype, Element, PartialShape, Shape, Spec, Tensor, TensorError, TensorSpec,
};

use crate::error::DataError;

/// The structure of elements with these columns; batches have a dimension more, of known size if
/// smaller ones are left out.
pub(crate) fn spec_of(schema: &Schema, batch: Option<(u64, bool)>) -> Result<Spec, DataError> {
    let outer = batch.map(|(size, drop_remainder)| drop_remainder.then_some(size));
    dict(schema.fields(), &Vec::from_iter(outer))
}

fn dict(fields: &Fields, outer: &[Option<u64>]) -> Result<Spec, DataError> {
    let member = |field: &Arc<Field>| {
        let member = leaf_spec(field.name(), field.data_type(), outer.to_vec())?;
        Ok((field.name().clone(), member))
    };
    fields.iter().map(member).collect::<Result<BTreeMap<_, _>, DataError>>().map(Spec::Dict)
}

fn leaf_spec(
    column: &str,
    kind: &DataType,
    mut sizes: Vec<Option<u64>>,
) -> Result<Spec, DataError> {
    match kind {
        DataType::Struct(fields) => dict(fields, &sizes),
        DataType::FixedSizeList(item, size) => {
            sizes.push(Some(u64::try_from(*size).unwrap_or(0)));
            leaf_spec(column, item.data_type(), sizes)
        }
        DataType::List(item) | DataType::LargeList(item) => {
            sizes.push(None);
            leaf_spec(column, item.data_type(), sizes)
        }
        kind => {
            let dtype = dtype(column, kind)?;
            let tensor = TensorSpec { dtype, shape: PartialShape::Sizes(sizes) };
            Ok(Spec::Tensor { tensor, name: String::new() })
        }
    }
}

/// The type of tensors of a column of this type.
fn dtype(column: &str, kind: &DataType) -> Result<Dtype, DataError> {
    Ok(match kind {
        DataType::Boolean => Dtype::Bool,
        DataType::Int8 => Dtype::Int8,
        DataType::Int16 => Dtype::Int16,
        DataType::Int32 | DataType::Date32 | DataType::Time32(_) => Dtype::Int32,
        DataType::Int64
        | DataType::Date64
        | DataType::Time64(_)
        | DataType::Timestamp(_, _)
        | DataType::Duration(_) => Dtype::Int64,
        DataType::UInt8 => Dtype::Uint8,
        DataType::UInt16 => Dtype::Uint16,
        DataType::UInt32 => Dtype::Uint32,
        DataType::UInt64 => Dtype::Uint64,
        DataType::Float16 => Dtype::Half,
        DataType::Float32 => Dtype::Float,
        DataType::Float64 => Dtype::Double,
        DataType::Utf8
        | DataType::LargeUtf8
        | DataType::Utf8View
        | DataType::Binary
        | DataType::LargeBinary
        | DataType::BinaryView
        | DataType::FixedSizeBinary(_) => Dtype::String,
        other => {
            let what =
                format!("no tensor has values of its type {other}; cast it, or leave it out");
            return Err(DataError::column(column, what));
        }
    })
}

/// Records as elements with the structure of their columns: each is one, or, batched, all are one.
///
/// # Errors
/// When a value is null, lists that should make a tensor have different lengths, or a column has
/// no tensors.
pub fn elements(records: &RecordBatch, is_batched: bool) -> Result<Vec<Element>, DataError> {
    let mut leaves = Vec::new();
    collect(records.schema_ref().fields(), records.columns(), &mut leaves)?;
    if is_batched {
        let whole =
            |(name, array): &(String, ArrayRef)| tensor(name, array, 0, vec![array.len() as u64]);
        let components = leaves.iter().map(whole).collect::<Result<_, _>>()?;
        return Ok(vec![Element { components }]);
    }
    let columns = leaves.iter().map(|(name, array)| rows(name, array));
    let mut columns = columns.collect::<Result<Vec<_>, _>>()?;
    let mut elements = Vec::with_capacity(records.num_rows());
    for _ in 0..records.num_rows() {
        let components: Vec<Tensor> = columns.iter_mut().filter_map(Iterator::next).collect();
        elements.push(Element { components });
    }
    Ok(elements)
}

/// The columns that are tensors, in the order of an element's components.
fn collect(
    fields: &Fields,
    columns: &[ArrayRef],
    found: &mut Vec<(String, ArrayRef)>,
) -> Result<(), DataError> {
    let mut sorted: Vec<_> = fields.iter().zip(columns).collect();
    sorted.sort_by(|(one, _), (other, _)| one.name().cmp(other.name()));
    for (field, column) in sorted {
        match column.data_type() {
            DataType::Struct(members) => {
                no_nulls(field.name(), column, 0)?;
                collect(members, column.as_struct().columns(), found)?;
            }
            _ => found.push((field.name().clone(), column.clone())),
        }
    }
    Ok(())
}

fn no_nulls(column: &str, array: &dyn Array, first: usize) -> Result<(), DataError> {
    if array.null_count() == 0 {
        return Ok(());
    }
    let row = (0..array.len()).find(|row| array.is_null(*row)).unwrap_or(0);
    let what = "it is null, and no tensor has null: use fill_null, or filter it out".to_owned();
    Err(DataError::Value { column: column.to_owned(), row: row.saturating_add(first), what })
}

type Rows = std::vec::IntoIter<Tensor>;

/// A tensor for each row.
fn rows(column: &str, array: &ArrayRef) -> Result<Rows, DataError> {
    let one = |row: usize| tensor(column, &array.slice(row, 1), row, Vec::new());
    let is_wide = matches!(array.data_type(), DataType::List(_) | DataType::LargeList(_));
    if is_wide || array.is_empty() {
        return (0..array.len()).map(one).collect::<Result<Vec<_>, _>>().map(Vec::into_iter);
    }
    let whole = tensor(column, array, 0, vec![array.len() as u64])?;
    let inner = whole.shape().sizes().iter().skip(1).map(|size| *size as i64);
    let shape = Shape::of(inner).map_err(|it| DataError::column(column, it.to_string()))?;
    cut(column, &whole, &shape, array.len()).map(Vec::into_iter)
}

/// The tensors of this shape, one after the other, that a tensor of them all consists of.
fn cut(
    column: &str,
    whole: &Tensor,
    shape: &Shape,
    count: usize,
) -> Result<Vec<Tensor>, DataError> {
    use rondo_core::element::Values;
    let unfit = |error: TensorError| DataError::column(column, error.to_string());
    let values = usize::try_from(shape.elements()).unwrap_or(usize::MAX);
    match whole.values() {
        Values::Strings { bytes, ends } => {
            let mut from = 0_u32;
            let piece = |row: usize| {
                let ends = ends.get(row * values..(row + 1) * values).unwrap_or_default();
                let to = ends.last().copied().unwrap_or(from);
                let ends: Arc<[u32]> = ends.iter().map(|end| end.saturating_sub(from)).collect();
                let bytes = bytes.slice(from as usize..to as usize);
                from = to;
                Tensor::strings(shape.clone(), bytes, ends).map_err(unfit)
            };
            (0..count).map(piece).collect()
        }
        Values::Fixed(bytes) => {
            let size = bytes.len() / count.max(1);
            let piece = |row: usize| {
                let bytes = bytes.slice(row * size..(row + 1) * size);
                Tensor::fixed(whole.dtype(), shape.clone(), bytes).map_err(unfit)
            };
            (0..count).map(piece).collect()
        }
        Values::Encoded(_) => Err(DataError::internal("a column of variants")),
    }
}

/// The tensor of these values, with these outer sizes; the first of them is that of this row.
fn tensor(
    column: &str,
    array: &ArrayRef,
    row: usize,
    mut sizes: Vec<u64>,
) -> Result<Tensor, DataError> {
    no_nulls(column, array.as_ref(), row)?;
    match array.data_type() {
        DataType::FixedSizeList(_, size) => {
            let size = usize::try_from(*size).unwrap_or(0);
            let list = array.as_fixed_size_list();
            let first = list.value_offset(0).max(0) as usize;
            let values = list.values().slice(first, array.len().saturating_mul(size));
            sizes.push(size as u64);
            tensor(column, &values, row, sizes)
        }
        DataType::List(_) => {
            let list = array.as_list::<i32>();
            let ends: Vec<i64> = list.value_offsets().iter().map(|end| i64::from(*end)).collect();
            lists(column, list.values(), &ends, row, sizes)
        }
        DataType::LargeList(_) => {
            let list = array.as_list::<i64>();
            lists(column, list.values(), list.value_offsets(), row, sizes)
        }
        kind => {
            let dtype = dtype(column, kind)?;
            let sizes = sizes.into_iter().map(|size| i64::try_from(size).unwrap_or(i64::MAX));
            let shape = Shape::of(sizes).map_err(|it| DataError::column(column, it.to_string()))?;
            flat(column, array, dtype, shape)
        }
    }
}

fn lists(
    column: &str,
    values: &ArrayRef,
    ends: &[i64],
    row: usize,
    mut sizes: Vec<u64>,
) -> Result<Tensor, DataError> {
    let lengths = ends.windows(2).map(|it| match it {
        [from, to] => to.saturating_sub(*from),
        _ => 0,
    });
    let lengths: Vec<i64> = lengths.collect();
    let length = lengths.first().copied().unwrap_or(0);
    if let Some(other) = lengths.iter().position(|it| *it != length) {
        let found = lengths.get(other).copied().unwrap_or(0);
        let what = format!(
            "a list of {found} values beside one of {length}: they make no tensor; do not batch \
             them, or give them one length"
        );
        let row = row.saturating_add(other);
        return Err(DataError::Value { column: column.to_owned(), row, what });
    }
    let first = usize::try_from(ends.first().copied().unwrap_or(0)).unwrap_or(0);
    let last = usize::try_from(ends.last().copied().unwrap_or(0)).unwrap_or(0);
    let values = values.slice(first, last.saturating_sub(first));
    sizes.push(length.unsigned_abs());
    tensor(column, &values, row, sizes)
}

/// The tensor of values that have no parts.
fn flat(column: &str, array: &ArrayRef, dtype: Dtype, shape: Shape) -> Result<Tensor, DataError> {
    let unfit = |error: TensorError| DataError::column(column, error.to_string());
    match array.data_type() {
        DataType::Boolean => {
            let bytes: Vec<u8> = array.as_boolean().values().iter().map(u8::from).collect();
            Tensor::fixed(dtype, shape, bytes.into()).map_err(unfit)
        }
        DataType::Utf8 => {
            let strings = array.as_string::<i32>();
            pieces(column, strings.values(), strings.value_offsets(), shape)
        }
        DataType::Binary => {
            let binary = array.as_binary::<i32>();
            pieces(column, binary.values(), binary.value_offsets(), shape)
        }
        _ if dtype == Dtype::String => {
            let binary = cast(array, &DataType::LargeBinary);
            let binary = binary.map_err(|it| DataError::column(column, it.to_string()))?;
            let binary = binary.as_binary::<i64>();
            pieces(column, binary.values(), binary.value_offsets(), shape)
        }
        _ => {
            let data = array.to_data();
            let width = usize::try_from(dtype.width().unwrap_or(0)).unwrap_or(0);
            let (from, length) = (data.offset() * width, data.len() * width);
            let buffer = data.buffers().first();
            let buffer = buffer.ok_or_else(|| DataError::internal("a column without values"))?;
            let bytes = shared(&buffer.slice_with_length(from, length));
            Tensor::fixed(dtype, shape, bytes).map_err(unfit)
        }
    }
}

/// A tensor of strings from where they end in a buffer.
fn pieces<O: Copy + TryInto<u64>>(
    column: &str,
    values: &Buffer,
    ends: &[O],
    shape: Shape,
) -> Result<Tensor, DataError> {
    let number = |end: &O| (*end).try_into().unwrap_or(0);
    let first = ends.first().map_or(0, number);
    let last = ends.last().map_or(0, number);
    let bytes = shared(values).slice(first as usize..last as usize);
    let ends = ends.iter().skip(1).map(|end| u32::try_from(number(end).saturating_sub(first)));
    let ends = ends.collect::<Result<Arc<[u32]>, _>>().map_err(|_| DataError::Bound {
        what: format!("bytes of the strings of column {column:?} in one tensor"),
        found: last.saturating_sub(first),
        bound: u32::MAX.into(),
        setting: "what a tensor of strings holds",
    })?;
    let tensor = Tensor::strings(shape, bytes, ends);
    tensor.map_err(|error| DataError::column(column, error.to_string()))
}

/// The bytes of a buffer, which stay where they are.
fn shared(buffer: &Buffer) -> Bytes {
    struct Owner(Buffer);
    impl AsRef<[u8]> for Owner {
        fn as_ref(&self) -> &[u8] {
            self.0.as_slice()
        }
    }
    if buffer.is_empty() { Bytes::new() } else { Bytes::from_owner(Owner(buffer.clone())) }
}
