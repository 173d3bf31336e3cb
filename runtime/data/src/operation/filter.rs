//! Records of which something is true.

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Scalar};
use arrow::buffer::BooleanBuffer;
use arrow::compute::kernels::cmp;
use arrow::compute::kernels::comparison::{contains, ends_with, starts_with};
use arrow::compute::{and_kleene, cast, filter_record_batch, is_not_null, is_null, not, or_kleene};
use arrow::datatypes::{ArrowPrimitiveType, DataType, Float32Type, Float64Type};
use arrow::error::ArrowError;
use arrow::record_batch::RecordBatch;

use super::place;
use super::value::of_type;
use crate::error::DataError;
use crate::pipeline::{Condition, Test, Value};

pub(super) fn apply(
    condition: &Condition,
    records: &RecordBatch,
) -> Result<RecordBatch, DataError> {
    let truth = truth(condition, records)?;
    // What is neither true nor false, because of a null, is left out.
    let left = filter_record_batch(records, &truth);
    left.map_err(|error| DataError::internal(error.to_string()))
}

/// For each record whether the condition is true of it, or null.
fn truth(condition: &Condition, records: &RecordBatch) -> Result<BooleanArray, DataError> {
    let internal = |error: ArrowError| DataError::internal(error.to_string());
    let each = |of: &[Condition], start: bool, join: Join| {
        let start = BooleanArray::from(vec![start; records.num_rows()]);
        of.iter().try_fold(start, |so_far, condition| {
            join(&so_far, &truth(condition, records)?).map_err(internal)
        })
    };
    match condition {
        Condition::All(of) => each(of, true, and_kleene),
        Condition::Any(of) => each(of, false, or_kleene),
        Condition::Not(of) => not(&truth(of, records)?).map_err(internal),
        Condition::Column { column, test } => {
            let values = records.column(place("filter", column, records)?);
            passes(column, values, test)
        }
    }
}

type Join = fn(&BooleanArray, &BooleanArray) -> Result<BooleanArray, ArrowError>;

fn passes(column: &str, values: &ArrayRef, test: &Test) -> Result<BooleanArray, DataError> {
    let unfit = |error: ArrowError| DataError::column(column, error.to_string());
    let compared = |value: &Value, how: Comparison| {
        let (values, value) = comparable(column, values, value)?;
        how.of(&values, &value).map_err(unfit)
    };
    match test {
        Test::Is(value) => compared(value, Comparison::Is),
        Test::IsNot(value) => compared(value, Comparison::IsNot),
        Test::Below(value) => compared(value, Comparison::Below),
        Test::AtMost(value) => compared(value, Comparison::AtMost),
        Test::Above(value) => compared(value, Comparison::Above),
        Test::AtLeast(value) => compared(value, Comparison::AtLeast),
        Test::In(options) => {
            // Of null it is neither true nor false, as with each of the options.
            let none = BooleanBuffer::new_unset(values.len());
            let none = BooleanArray::new(none, values.logical_nulls());
            let is = |value| compared(value, Comparison::Is);
            options
                .iter()
                .try_fold(none, |so_far, value| or_kleene(&so_far, &is(value)?).map_err(unfit))
        }
        Test::IsNull(true) => is_null(values).map_err(unfit),
        Test::IsNull(false) => is_not_null(values).map_err(unfit),
        Test::StartsWith(text) => texts(column, values, text, |all, it| starts_with(all, it)),
        Test::EndsWith(text) => texts(column, values, text, |all, it| ends_with(all, it)),
        Test::Contains(text) => texts(column, values, text, |all, it| contains(all, it)),
    }
}

/// How values are compared with another one.
#[derive(Clone, Copy)]
enum Comparison {
    Is,
    IsNot,
    Below,
    AtMost,
    Above,
    AtLeast,
}

impl Comparison {
    /// Of each of the values whether it is so, beside an array of one. Arrow's own kernels have an order of
    /// floating-point numbers in which -0.0 is less than 0.0, and NaN more than infinity.
    fn of(self, values: &ArrayRef, other: &ArrayRef) -> Result<BooleanArray, ArrowError> {
        match values.data_type() {
            DataType::Float16 => {
                let wide = |values| cast(values, &DataType::Float32);
                Ok(self.of_floats::<Float32Type>(&wide(values)?, &wide(other)?))
            }
            DataType::Float32 => Ok(self.of_floats::<Float32Type>(values, other)),
            DataType::Float64 => Ok(self.of_floats::<Float64Type>(values, other)),
            _ => {
                let other = Scalar::new(other);
                match self {
                    Self::Is => cmp::eq(values, &other),
                    Self::IsNot => cmp::neq(values, &other),
                    Self::Below => cmp::lt(values, &other),
                    Self::AtMost => cmp::lt_eq(values, &other),
                    Self::Above => cmp::gt(values, &other),
                    Self::AtLeast => cmp::gt_eq(values, &other),
                }
            }
        }
    }

    /// As IEEE 754 has it.
    fn of_floats<T: ArrowPrimitiveType>(self, values: &ArrayRef, other: &ArrayRef) -> BooleanArray
    where
        T::Native: PartialOrd,
    {
        let (values, other) = (values.as_primitive::<T>(), other.as_primitive::<T>());
        let other = other.values().first().copied().unwrap_or_default();
        match self {
            Self::Is => BooleanArray::from_unary(values, |value| value == other),
            Self::IsNot => BooleanArray::from_unary(values, |value| value != other),
            Self::Below => BooleanArray::from_unary(values, |value| value < other),
            Self::AtMost => BooleanArray::from_unary(values, |value| value <= other),
            Self::Above => BooleanArray::from_unary(values, |value| value > other),
            Self::AtLeast => BooleanArray::from_unary(values, |value| value >= other),
        }
    }
}

type Search = fn(&ArrayRef, &Scalar<ArrayRef>) -> Result<BooleanArray, ArrowError>;

/// A column and a value so that they can be compared: numbers with a fraction, beside integers, as
/// floating-point numbers. Those are less than 2^52, so integers that are rounded stay on their side.
fn comparable(
    column: &str,
    values: &ArrayRef,
    value: &Value,
) -> Result<(ArrayRef, ArrayRef), DataError> {
    let kind = values.data_type();
    let is_fraction = matches!(value, Value::Number(number) if number.fract() != 0.0);
    if kind.is_integer() && is_fraction {
        let values = cast(values, &DataType::Float64);
        let values = values.map_err(|error| DataError::column(column, error.to_string()))?;
        return Ok((values, of_type(column, value, &DataType::Float64)?));
    }
    Ok((values.clone(), of_type(column, value, kind)?))
}

fn texts(
    column: &str,
    values: &ArrayRef,
    text: &str,
    how: Search,
) -> Result<BooleanArray, DataError> {
    let value = of_type(column, &Value::from(text), values.data_type())?;
    let passed = how(values, &Scalar::new(value));
    passed.map_err(|error| DataError::column(column, error.to_string()))
}
