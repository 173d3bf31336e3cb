//! Casts that keep every value, or name the first one that they would change.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Float32Array, Float64Array};
use arrow::compute::kernels::cmp;
use arrow::compute::{CastOptions, cast, cast_with_options};
use arrow::datatypes::{DataType, Float64Type};
use arrow::error::ArrowError;
use arrow::util::display::{FormatOptions, array_value_to_string};

use crate::error::DataError;
use crate::exact;
use crate::schema::packed;

/// A row, and the reason why its value does not fit.
pub(super) type Loss = (usize, String);

/// Casts the values of a column to another type.
///
/// Arrow's casts cut fractions off and round integers. So this function compares each value with the one that
/// a cast back makes of it. Two conversions leave something out by design: a number with a fraction becomes
/// the nearest number of a floating-point type, and a time becomes its day.
///
/// # Errors
/// The first row whose value the other type does not have.
pub(super) fn exactly(
    column: &str,
    values: &ArrayRef,
    to: &DataType,
) -> Result<ArrayRef, DataError> {
    let at = |(row, what): Loss| DataError::Value { column: column.to_owned(), row, what };
    let unfit = |error: ArrowError| DataError::column(column, error.to_string());
    if let DataType::Union(..) = values.data_type() {
        let what = format!("a union has values of several types, so no cast makes it {to}");
        return Err(DataError::column(column, what));
    }
    let values = unpacked(values).map_err(unfit)?;
    let found = converted(&values, to).map_err(|error| match first_unfit(&values, to) {
        Some(loss) => at(loss),
        None => unfit(error),
    })?;
    match first_loss(&values, &found).map_err(unfit)? {
        Some(loss) => Err(at(loss)),
        None => Ok(found),
    }
}

/// Casts that refuse a value that does not fit. Arrow's usual casts make null of it.
pub(super) fn strict() -> CastOptions<'static> {
    CastOptions { safe: false, format_options: FormatOptions::default() }
}

/// The values of dictionaries, runs and lists of one value each.
fn unpacked(values: &ArrayRef) -> Result<ArrayRef, ArrowError> {
    let item = match values.data_type() {
        DataType::FixedSizeList(item, 1) => Some(item.data_type()),
        kind => packed(kind),
    };
    match item {
        Some(item) => unpacked(&cast_with_options(values, item, &strict())?),
        None => Ok(values.clone()),
    }
}

/// The values in another type. The cast may have changed some of them.
fn converted(values: &ArrayRef, to: &DataType) -> Result<ArrayRef, ArrowError> {
    match to {
        DataType::Float32 | DataType::Float64 if values.data_type().is_decimal() => {
            nearest(values, to)
        }
        _ => cast_with_options(values, to, &strict()),
    }
}

/// Decimals as the nearest floating-point numbers. Arrow's own cast divides two numbers that are rounded, so
/// its results are not always the nearest.
fn nearest(decimals: &ArrayRef, to: &DataType) -> Result<ArrayRef, ArrowError> {
    let texts = cast_with_options(decimals, &DataType::Utf8, &strict())?;
    let texts = texts.as_string::<i32>().iter();
    Ok(match to {
        DataType::Float32 => {
            let numbers = texts.map(|text| text?.parse::<f32>().ok());
            Arc::new(numbers.collect::<Float32Array>())
        }
        _ => {
            let numbers = texts.map(|text| text?.parse::<f64>().ok());
            Arc::new(numbers.collect::<Float64Array>())
        }
    })
}

/// The first row that a cast refuses, and its reason.
fn first_unfit(values: &dyn Array, to: &DataType) -> Option<Loss> {
    (0..values.len()).find_map(|row| {
        let one = values.slice(row, 1);
        let error = cast_with_options(&one, to, &strict()).err()?;
        Some((row, error.to_string()))
    })
}

/// The first row whose value a cast changed.
pub(super) fn first_loss(values: &ArrayRef, found: &ArrayRef) -> Result<Option<Loss>, ArrowError> {
    let (from, to) = (values.data_type(), found.data_type());
    if from.is_string() {
        return first_text_loss(values, to);
    }
    let row = match (from, to) {
        _ if from.is_floating() && to.is_floating() => first_rounded(values, found)?,
        (_, DataType::Float32 | DataType::Float64) if from.is_decimal() => {
            first_decimal_loss(values, to)?
        }
        _ if may_lose(from, to) => first_distinct(values, found)?,
        _ => None,
    };
    let Some(row) = row else {
        return Ok(None);
    };
    let (was, is) = (array_value_to_string(values, row)?, array_value_to_string(found, row)?);
    Ok(Some((row, format!("{was} does not fit the type {to}: it would become {is}"))))
}

/// Whether a cast from one of these types to another can change a value without an error of its own.
fn may_lose(from: &DataType, to: &DataType) -> bool {
    let is_amount = |kind: &DataType| kind.is_numeric() || kind.is_temporal();
    let is_day_of_time = matches!((from, to), (DataType::Timestamp(..), DataType::Date32));
    // Casts from integers to integers, and to days and units of time and back, refuse what does not fit.
    let is_strict = from == to
        || (from.is_integer() && (to.is_integer() || to.is_temporal()))
        || (from.is_temporal() && to.is_integer());
    is_amount(from) && (is_amount(to) || *to == DataType::Boolean) && !is_day_of_time && !is_strict
}

/// The first text that states another value than the one it became.
fn first_text_loss(values: &ArrayRef, to: &DataType) -> Result<Option<Loss>, ArrowError> {
    if !(to.is_numeric() || to.is_temporal()) {
        return Ok(None);
    }
    let texts = cast(values, &DataType::Utf8)?;
    let found = texts.as_string::<i32>().iter().enumerate().find_map(|(row, text)| {
        let what = exact::check(text?, to).err()?;
        Some((row, what))
    });
    Ok(found)
}

/// The first decimal that a floating-point type does not keep.
fn first_decimal_loss(values: &ArrayRef, to: &DataType) -> Result<Option<usize>, ArrowError> {
    let texts = cast(values, &DataType::Utf8)?;
    let is_lost =
        |text: Option<&str>| text.is_some_and(|text| exact::loss_of_decimal(text, to).is_some());
    Ok(texts.as_string::<i32>().iter().position(is_lost))
}

/// The first whole number that was rounded, or number with a fraction that became infinite or zero.
fn first_rounded(values: &ArrayRef, found: &ArrayRef) -> Result<Option<usize>, ArrowError> {
    let is_lost = |from: f64, to: f64| {
        let is_beyond = to.is_infinite() || to == 0.0;
        from != to && from.is_finite() && (from.fract() == 0.0 || is_beyond)
    };
    first_pair(values, found, is_lost)
}

/// The first value that a cast back does not restore. The sign of zero is no part of a number's value.
fn first_distinct(values: &ArrayRef, found: &ArrayRef) -> Result<Option<usize>, ArrowError> {
    let from = match values.data_type() {
        // A zone would shift the way back.
        DataType::Timestamp(unit, _) => DataType::Timestamp(*unit, None),
        other => other.clone(),
    };
    // A value that does not fit on the way back becomes null.
    let (values, back) = (cast(values, &from)?, cast(found, &from)?);
    if from.is_floating() {
        return first_pair(&values, &back, |value, back| value != back);
    }
    Ok(cmp::distinct(&values, &back)?.values().set_indices().next())
}

/// The first row whose two numbers meet a condition. A number beside null meets it, too.
fn first_pair(
    left: &ArrayRef,
    right: &ArrayRef,
    is_found: impl Fn(f64, f64) -> bool,
) -> Result<Option<usize>, ArrowError> {
    let (left, right) = (cast(left, &DataType::Float64)?, cast(right, &DataType::Float64)?);
    let (left, right) = (left.as_primitive::<Float64Type>(), right.as_primitive::<Float64Type>());
    let meets = |(left, right): (Option<f64>, Option<f64>)| match (left, right) {
        (Some(left), Some(right)) => is_found(left, right),
        (left, right) => left.is_some() != right.is_some(),
    };
    Ok(left.iter().zip(right).position(meets))
}

#[cfg(test)]
mod tests {
    use arrow::array::{Float64Array, new_null_array};
    use arrow::compute::can_cast_types;
    use arrow::datatypes::TimeUnit::{Microsecond, Millisecond, Nanosecond, Second};

    use super::*;

    /// A check that Arrow has no way back for would refuse values that fit.
    #[test]
    fn every_cast_that_arrow_has_can_be_checked() {
        use DataType::*;
        let numbers = [Int8, Int16, Int32, Int64, UInt8, UInt16, UInt32, UInt64];
        let others = [Float16, Float32, Float64, Boolean, Utf8, LargeUtf8, Utf8View, Binary];
        let decimals = [Decimal32(5, 2), Decimal64(9, 0), Decimal128(20, -2), Decimal256(50, 30)];
        let days = [Date32, Date64, Time32(Second), Time32(Millisecond), Time64(Microsecond)];
        let zoned = Timestamp(Nanosecond, Some("+02:00".into()));
        let times = [Timestamp(Second, None), zoned, Duration(Second), Time64(Nanosecond)];
        let targets =
            [Boolean, Utf8, Binary, Float32, Float64, Date32, Timestamp(Microsecond, None)];
        let all = [&numbers[..], &others, &decimals, &days, &times].concat();
        for from in &all {
            let nulls = new_null_array(from, 2);
            for to in numbers.iter().chain(&targets).filter(|to| can_cast_types(from, to)) {
                let found = exactly("a", &nulls, to);
                assert!(found.is_ok(), "{from} to {to}: {found:?}");
            }
        }
    }

    #[test]
    fn a_negative_zero_is_an_integer_and_a_fraction_behind_many_is_found() {
        let mut numbers = vec![-0.0; 300_000];
        numbers.push(0.5);
        let numbers: ArrayRef = Arc::new(Float64Array::from(numbers));
        let error = exactly("a", &numbers, &DataType::Int64).unwrap_err().to_string();
        assert!(error.contains("row 300000") && error.contains("0.5"), "{error}");
    }
}
