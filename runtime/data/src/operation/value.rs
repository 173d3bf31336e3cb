//! Constants of a pipeline, as values of a column's type.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, BooleanArray, Float16Array, Float64Array, Int64Array, StringArray, UInt64Array,
    new_null_array,
};
use arrow::compute::cast_with_options;
use arrow::datatypes::{ArrowPrimitiveType, DataType, Float16Type};
use arrow::error::ArrowError;

use super::cast::{first_loss, strict};
use crate::error::DataError;
use crate::exact;
use crate::pipeline::{ColumnType, Value};

/// Up to this number, the parser rounds no integer with a point or an exponent.
const FLOAT64_INTEGER_MAX: f64 = 9_007_199_254_740_992.0;

/// The value as an array of one, in the type that its own kind has.
pub(super) fn natural(value: &Value) -> ArrayRef {
    match value {
        Value::Flag(flag) => Arc::new(BooleanArray::from(vec![*flag])),
        Value::Integer(integer) => Arc::new(Int64Array::from(vec![*integer])),
        Value::Unsigned(integer) => Arc::new(UInt64Array::from(vec![*integer])),
        Value::Number(number) => Arc::new(Float64Array::from(vec![*number])),
        Value::Text(text) => Arc::new(StringArray::from(vec![text.as_str()])),
    }
}

/// The value as an array of one, in the type of a column.
///
/// # Errors
/// When the type does not have the value. A number with a point or an exponent becomes the nearest one of a
/// floating-point type.
pub(super) fn of_type(column: &str, value: &Value, kind: &DataType) -> Result<ArrayRef, DataError> {
    let unfit = |why: &str| {
        let what = format!("{value} is no value of its type {kind}{why}");
        DataError::column(column, what)
    };
    let is_like = match value {
        Value::Flag(_) => matches!(kind, DataType::Boolean),
        Value::Integer(_) | Value::Unsigned(_) => kind.is_numeric(),
        Value::Number(number) => kind.is_floating() || (kind.is_numeric() && number.fract() == 0.0),
        Value::Text(_) => !(kind.is_numeric() || kind.is_nested() || *kind == DataType::Boolean),
    };
    if !is_like {
        return Err(unfit(""));
    }
    let lost = match value {
        Value::Text(text) => exact::loss(text, kind),
        Value::Number(number) => loss_of_number(*number, kind),
        Value::Flag(_) | Value::Integer(_) | Value::Unsigned(_) => None,
    };
    if let Some(lost) = lost {
        return Err(unfit(&format!(": {lost}")));
    }
    let failed = |error: ArrowError| unfit(&format!(": {error}"));
    let own = natural(&whole(value, kind));
    let found = match (value, kind) {
        (Value::Number(number), DataType::Float16) => half(*number),
        _ => cast_with_options(&own, kind, &strict()).map_err(failed)?,
    };
    if matches!((value, kind), (Value::Number(_), DataType::Float32 | DataType::Float64)) {
        // A whole number may be the shortest text of another one, as it may in a file.
        return Ok(found);
    }
    match first_loss(&own, &found).map_err(failed)? {
        None => Ok(found),
        Some((_, what)) => Err(DataError::column(column, what)),
    }
}

/// The nearest number of 16 bits. Arrow's own cast rounds twice, first to 32 bits. An odd last bit keeps the
/// number of 32 bits out of the middle between two of 16 bits, where the second rounding would go astray.
fn half(number: f64) -> ArrayRef {
    let single = number as f32;
    let bits = match f64::from(single) {
        same if same == number => single.to_bits(),
        above if above.abs() > number.abs() => single.to_bits().saturating_sub(1) | 1,
        _ => single.to_bits() | 1,
    };
    let nearest = <Float16Type as ArrowPrimitiveType>::Native::from_f32(f32::from_bits(bits));
    Arc::new(Float16Array::from(vec![nearest]))
}

/// The reason why a column of this type does not keep a number with a point or an exponent.
fn loss_of_number(number: f64, kind: &DataType) -> Option<&'static str> {
    match kind {
        DataType::Float16 | DataType::Float64 => None,
        DataType::Float32 if f64::from(number as f32) == number => None,
        DataType::Float32 => exact::loss(&number.to_string(), kind),
        // The text may have meant another integer, which the parser rounded to this one.
        _ if number.fract() == 0.0 && number.abs() > FLOAT64_INTEGER_MAX => {
            Some("write all its digits, without a point or an exponent")
        }
        _ => None,
    }
}

/// The value; as an integer if it is a whole number and the column is not of floating-point numbers.
fn whole(value: &Value, kind: &DataType) -> Value {
    match value {
        Value::Number(number) if number.fract() == 0.0 && !kind.is_floating() => {
            Value::Integer(*number as i64)
        }
        other => other.clone(),
    }
}

/// An array that repeats the value of an array of one.
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
