//! Values of a pipeline beside values of a column.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, BooleanArray, Float64Array, Int64Array, StringArray, new_null_array,
};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::DataType;
use arrow::util::display::FormatOptions;

use crate::error::DataError;
use crate::pipeline::{ColumnType, Value};

/// Casts that refuse what does not fit, instead of making null of it.
pub(super) fn strict() -> CastOptions<'static> {
    CastOptions { safe: false, format_options: FormatOptions::default() }
}

/// The value as an array of one, of the type that values of its kind have.
pub(super) fn natural(value: &Value) -> ArrayRef {
    match value {
        Value::Flag(flag) => Arc::new(BooleanArray::from(vec![*flag])),
        Value::Integer(integer) => Arc::new(Int64Array::from(vec![*integer])),
        Value::Number(number) => Arc::new(Float64Array::from(vec![*number])),
        Value::Text(text) => Arc::new(StringArray::from(vec![text.as_str()])),
    }
}

/// The value as an array of one of a column's type.
pub(super) fn of_type(column: &str, value: &Value, kind: &DataType) -> Result<ArrayRef, DataError> {
    let unfit = |why: &str| {
        let what = format!("{value} is no value of its type {kind}{why}");
        DataError::column(column, what)
    };
    let is_like = match value {
        Value::Flag(_) => matches!(kind, DataType::Boolean),
        Value::Integer(_) => kind.is_numeric(),
        Value::Number(number) => kind.is_floating() || (kind.is_numeric() && number.fract() == 0.0),
        Value::Text(_) => !(kind.is_numeric() || kind.is_nested() || *kind == DataType::Boolean),
    };
    if !is_like {
        return Err(unfit(""));
    }
    let cast = cast_with_options(&natural(value), kind, &strict());
    cast.map_err(|error| unfit(&format!(": {error}")))
}

/// So many times the value of an array of one.
pub(super) fn repeated(one: &ArrayRef, times: usize) -> Result<ArrayRef, DataError> {
    if times == 0 {
        return Ok(new_null_array(one.data_type(), 0));
    }
    let places = arrow::array::UInt32Array::from(vec![0_u32; times]);
    let many = arrow::compute::take(one.as_ref(), &places, None);
    many.map_err(|error| DataError::internal(error.to_string()))
}

/// Arrow's name for a type.
pub(crate) fn arrow_type(kind: ColumnType) -> DataType {
    match kind {
        ColumnType::Bool => DataType::Boolean,
        ColumnType::Int8 => DataType::Int8,
        ColumnType::Int16 => DataType::Int16,
        ColumnType::Int32 => DataType::Int32,
        ColumnType::Int64 => DataType::Int64,
        ColumnType::Uint8 => DataType::UInt8,
        ColumnType::Uint16 => DataType::UInt16,
        ColumnType::Uint32 => DataType::UInt32,
        ColumnType::Uint64 => DataType::UInt64,
        ColumnType::Float32 => DataType::Float32,
        ColumnType::Float64 => DataType::Float64,
        ColumnType::String => DataType::Utf8,
        ColumnType::Binary => DataType::Binary,
        ColumnType::Date => DataType::Date32,
        ColumnType::Timestamp => DataType::Timestamp(arrow::datatypes::TimeUnit::Microsecond, None),
    }
}

/// Where the first row is that a cast cannot make anything of, and what it says.
pub(super) fn first_unfit(values: &dyn Array, to: &DataType) -> Option<(usize, String)> {
    (0..values.len()).find_map(|row| {
        let one = values.slice(row, 1);
        let error = cast_with_options(&one, to, &strict()).err()?;
        Some((row, error.to_string()))
    })
}
