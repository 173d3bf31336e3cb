//! Casts that keep every value, or name the first one that they would change.

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::compute::kernels::cmp;
use arrow::compute::{CastOptions, can_cast_types, cast, cast_with_options};
use arrow::datatypes::{DataType, Float64Type};
use arrow::error::ArrowError;
use arrow::util::display::{FormatOptions, array_value_to_string};

use crate::error::DataError;
use crate::exact;

/// A row, and what a cast would make of its value.
pub(super) type Loss = (usize, String);

/// The values of a column as those of another type.
///
/// Arrow's casts cut fractions off and round integers. So each value is compared with what a cast back makes
/// of it. Two conversions leave something away, and are meant to: a number with a fraction becomes the
/// nearest number of a floating-point type, and a time becomes its day.
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
    let found = cast_with_options(values, to, &strict());
    let found = found.map_err(|error| match first_unfit(values, to) {
        Some(loss) => at(loss),
        None => unfit(error),
    })?;
    match first_loss(values, &found).map_err(unfit)? {
        Some(loss) => Err(at(loss)),
        None => Ok(found),
    }
}

/// Casts that refuse what does not fit, instead of making null of it.
pub(super) fn strict() -> CastOptions<'static> {
    CastOptions { safe: false, format_options: FormatOptions::default() }
}

/// The first row that a cast cannot make anything of, and what it says.
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
    if let DataType::FixedSizeList(item, 1) = from {
        return first_loss(&cast(values, item.data_type())?, found);
    }
    if from.is_string() {
        return first_text_loss(values, to);
    }
    let row = match may_lose(from, to) {
        true if from.is_floating() && to.is_floating() => first_beyond(values, found)?,
        true => first_distinct(values, found)?,
        false => None,
    };
    let Some(row) = row else {
        return Ok(None);
    };
    let (was, is) = (array_value_to_string(values, row)?, array_value_to_string(found, row)?);
    Ok(Some((row, format!("{was} does not fit the type {to}: it would become {is}"))))
}

/// Whether a cast can change a value without an error of its own.
fn may_lose(from: &DataType, to: &DataType) -> bool {
    let is_amount = |kind: &DataType| kind.is_numeric() || kind.is_temporal();
    let is_day = |kind: &DataType| matches!(kind, DataType::Date32 | DataType::Date64);
    let is_meant = match (from, to) {
        (DataType::Timestamp(..), to) => is_day(to),
        (DataType::Float16 | DataType::Float32, DataType::Float64) => true,
        (from, to) if is_day(from) && is_day(to) => true,
        (
            DataType::Decimal32(_, scale)
            | DataType::Decimal64(_, scale)
            | DataType::Decimal128(_, scale)
            | DataType::Decimal256(_, scale),
            to,
        ) => *scale > 0 && to.is_floating(),
        _ => false,
    };
    // Casts between integers refuse what does not fit.
    let is_strict = from == to || (from.is_integer() && to.is_integer());
    is_amount(from) && (is_amount(to) || *to == DataType::Boolean) && !is_meant && !is_strict
}

/// The first text that says something else than the value it became.
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

/// The first number that became infinite or zero.
fn first_beyond(values: &ArrayRef, found: &ArrayRef) -> Result<Option<usize>, ArrowError> {
    let (from, to) = (cast(values, &DataType::Float64)?, cast(found, &DataType::Float64)?);
    let (from, to) = (from.as_primitive::<Float64Type>(), to.as_primitive::<Float64Type>());
    let is_beyond = |(from, to): (Option<f64>, Option<f64>)| match (from, to) {
        (Some(from), Some(to)) => {
            from.is_finite() && (to.is_infinite() || (to == 0.0 && from != 0.0))
        }
        (_, _) => false,
    };
    Ok(from.iter().zip(to.iter()).position(is_beyond))
}

/// The first value that a cast back does not restore.
fn first_distinct(values: &ArrayRef, found: &ArrayRef) -> Result<Option<usize>, ArrowError> {
    let from = match values.data_type() {
        // A zone would shift the way back.
        DataType::Timestamp(unit, _) => DataType::Timestamp(*unit, None),
        other => other.clone(),
    };
    if !can_cast_types(found.data_type(), &from) {
        return Ok(None);
    }
    // What does not fit on the way back becomes null.
    let (values, back) = (cast(values, &from)?, cast(found, &from)?);
    let differ = cmp::distinct(&values, &back)?;
    let is_lost = |row: &usize| !(from.is_floating() && is_zero(&values, *row));
    Ok(differ.values().set_indices().find(is_lost))
}

/// Whether a number is zero: the sign of one is lost to integers, its amount is not.
fn is_zero(values: &ArrayRef, row: usize) -> bool {
    let one = cast(&values.slice(row, 1), &DataType::Float64);
    one.is_ok_and(|one| one.as_primitive::<Float64Type>().values().first() == Some(&0.0))
}
