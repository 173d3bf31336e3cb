//! Values of a pipeline beside values of a column.

use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray, Float64Array, Int64Array, StringArray, new_null_array};
use arrow::compute::cast_with_options;
use arrow::datatypes::DataType;

use super::cast::{first_loss, strict};
use crate::error::DataError;
use crate::exact;
use crate::pipeline::{ColumnType, Value};

/// Floating-point numbers up to this one are the integers that their texts say.
const FLOAT64_INTEGER_MAX: f64 = 9_007_199_254_740_992.0;

/// The value as an array of one, of the type that values of its kind have.
pub(super) fn natural(value: &Value) -> ArrayRef {
    match value {
        Value::Flag(flag) => Arc::new(BooleanArray::from(vec![*flag])),
        Value::Integer(integer) => Arc::new(Int64Array::from(vec![*integer])),
        Value::Number(number) => Arc::new(Float64Array::from(vec![*number])),
        Value::Text(text) => Arc::new(StringArray::from(vec![text.as_str()])),
    }
}

/// The value as an array of one of a column's type, the same value there.
///
/// # Errors
/// When the type does not have it. A number with a fraction becomes the nearest one of a floating-point type.
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
    let lost = match value {
        Value::Text(text) => exact::loss(text, kind),
        Value::Number(number) => loss_of_number(*number, kind),
        Value::Flag(_) | Value::Integer(_) => None,
    };
    if let Some(lost) = lost {
        return Err(unfit(&format!(": {lost}")));
    }
    let own = natural(&whole(value, kind));
    let found = cast_with_options(&own, kind, &strict());
    let found = found.map_err(|error| unfit(&format!(": {error}")))?;
    match first_loss(&own, &found) {
        Ok(None) => Ok(found),
        Ok(Some((_, what))) => Err(DataError::column(column, what)),
        Err(error) => Err(unfit(&format!(": {error}"))),
    }
}

/// What would change if a column of this type had a number.
fn loss_of_number(number: f64, kind: &DataType) -> Option<&'static str> {
    match kind {
        DataType::Float64 => None,
        DataType::Float32 => exact::loss(&number.to_string(), kind),
        // Several texts of integers are this number.
        _ if number.fract() == 0.0 && number.abs() > FLOAT64_INTEGER_MAX => {
            Some("write all its digits, without a point or an exponent")
        }
        _ => None,
    }
}

/// The value, as an integer where it is one in a column of another type than the usual floating-point ones.
fn whole(value: &Value, kind: &DataType) -> Value {
    match value {
        Value::Number(number)
            if number.fract() == 0.0 && !matches!(kind, DataType::Float32 | DataType::Float64) =>
        {
            Value::Integer(*number as i64)
        }
        other => other.clone(),
    }
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
