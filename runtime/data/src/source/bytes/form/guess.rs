//! Guesses the types of a CSV file's columns from some of their texts. A column gets a type only if the type
//! keeps all of these texts as they are written: `02134` and `+5` make a column of texts.

use arrow::array::StringArray;
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{DataType, TimeUnit};

use crate::exact;

/// Digits of a fraction of a second that microseconds keep.
const MICROSECOND_DIGITS: usize = 6;

/// The type of a column with these texts. An empty text is null. A column of nulls alone is one of texts.
pub(super) fn kind_of<'a>(texts: impl Iterator<Item = &'a str> + Clone) -> DataType {
    let mut found = texts.filter(|text| !text.is_empty()).peekable();
    if found.peek().is_none() {
        return DataType::Utf8;
    }
    let all = |is: &dyn Fn(&str) -> bool| found.clone().all(is);
    // The 30th of February looks like a date.
    let all_are = |kind: &DataType| {
        let texts = StringArray::from_iter_values(found.clone());
        let options = CastOptions { safe: false, ..CastOptions::default() };
        cast_with_options(&texts, kind, &options).is_ok()
    };
    let fits = |kind: &DataType| all(&|text| exact::check(text, kind).is_ok());
    if all(&is_integer) {
        let kinds = [DataType::Int64, DataType::UInt64];
        return kinds.into_iter().find(fits).unwrap_or(DataType::Utf8);
    }
    if all(&is_number) {
        return Some(DataType::Float64).filter(fits).unwrap_or(DataType::Utf8);
    }
    if all(&|text| text.eq_ignore_ascii_case("true") || text.eq_ignore_ascii_case("false")) {
        return DataType::Boolean;
    }
    if all(&is_date) {
        return if all_are(&DataType::Date32) { DataType::Date32 } else { DataType::Utf8 };
    }
    let digits = found.clone().map(digits_of_timestamp).try_fold(0, |most, it| Some(most.max(it?)));
    let unit = match digits {
        Some(digits) if digits <= MICROSECOND_DIGITS => TimeUnit::Microsecond,
        Some(_) => TimeUnit::Nanosecond,
        None => return DataType::Utf8,
    };
    Some(DataType::Timestamp(unit, None)).filter(all_are).unwrap_or(DataType::Utf8)
}

/// The part of a number's text that a column of numbers does not keep. Blanks around it do not count: the
/// decoder passes over them.
pub(super) fn loss_of_text(text: &str, kind: &DataType) -> Option<&'static str> {
    let text = text.trim_ascii();
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text).as_bytes();
    if matches!(digits, [b'0', next, ..] if next.is_ascii_digit()) {
        return Some("its zeros would be lost");
    }
    if text.starts_with('+') {
        return Some("its plus sign would be lost");
    }
    (text == "-0" && kind.is_integer()).then_some("its minus sign would be lost")
}

fn is_integer(text: &str) -> bool {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let is_one = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    is_one && loss_of_text(text, &DataType::Int64).is_none()
}

fn is_number(text: &str) -> bool {
    let rest = text.strip_prefix('-').unwrap_or(text);
    let is_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let (mantissa, exponent) = rest.split_once(['e', 'E']).unwrap_or((rest, "0"));
    let exponent = exponent.strip_prefix(['-', '+']).unwrap_or(exponent);
    let (whole, part) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let has_digits = !whole.is_empty() || !part.is_empty();
    has_digits
        && is_digits(whole)
        && is_digits(part)
        && !exponent.is_empty()
        && is_digits(exponent)
        && loss_of_text(text, &DataType::Float64).is_none()
}

/// `2026-11-27`.
fn is_date(text: &str) -> bool {
    has_form(text, b"0000-00-00")
}

/// Whether a text has a digit for each zero of the form, and the form's own characters elsewhere.
fn has_form(text: &str, form: &[u8]) -> bool {
    let is_alike = |(byte, wanted): (u8, &u8)| match wanted {
        b'0' => byte.is_ascii_digit(),
        wanted => byte == *wanted,
    };
    text.len() == form.len() && text.bytes().zip(form).all(is_alike)
}

/// The number of digits of a timestamp's fraction of a second. None if the text is no timestamp that a column
/// of timestamps keeps. It may name a zone.
fn digits_of_timestamp(text: &str) -> Option<usize> {
    let (date, rest) = text.split_at_checked(10)?;
    let (time, rest) = rest.strip_prefix([' ', 'T'])?.split_at_checked(8)?;
    if !is_date(date) || !has_form(time, b"00:00:00") || exact::has_second_60(time) {
        return None;
    }
    let (digits, zone) = match rest.strip_prefix('.') {
        None => (0, rest),
        Some(part) => {
            let end = part.find(|it: char| !it.is_ascii_digit()).unwrap_or(part.len());
            let (digits, zone) = part.split_at_checked(end)?;
            (digits.len(), zone)
        }
    };
    let offset = zone.strip_prefix(['+', '-']);
    let is_zone = matches!(zone, "" | "Z") || offset.is_some_and(|it| has_form(it, b"00:00"));
    (is_zone && digits <= 9 && (digits > 0 || !rest.starts_with('.'))).then_some(digits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_type_keeps_every_text() {
        let micros = DataType::Timestamp(TimeUnit::Microsecond, None);
        let nanos = DataType::Timestamp(TimeUnit::Nanosecond, None);
        for (texts, kind) in [
            (&["", "12", "-3", "0"][..], DataType::Int64),
            (&["1", "18446744073709551615"], DataType::UInt64),
            (&["-1", "18446744073709551615"], DataType::Utf8),
            (&["18446744073709551616"], DataType::Utf8),
            (&["02134", "10115"], DataType::Utf8),
            (&["1", "1.5", ".5", "1e-3"], DataType::Float64),
            (&["9007199254740993", "1.5"], DataType::Utf8),
            (&["00.5"], DataType::Utf8),
            (&["+5"], DataType::Utf8),
            (&["1", "+02134"], DataType::Utf8),
            (&["-0", "1"], DataType::Float64),
            (&["1e"], DataType::Utf8),
            (&["-"], DataType::Utf8),
            (&["true", "FALSE"], DataType::Boolean),
            (&["2026-11-27"], DataType::Date32),
            (&["2026-11-27", "2026-11-27 10:00:00"], DataType::Utf8),
            (&["2026-11-27 10:00:00", "2026-11-27T10:00:00.5Z"], micros),
            (&["2026-11-27 10:00:00.1234567+02:00"], nanos.clone()),
            (&["2026-11-27 10:00:00."], DataType::Utf8),
            (&["2016-12-31 10:00:00", "2016-12-31 23:59:60"], DataType::Utf8),
            (&["+10999-12-31"], DataType::Utf8),
            (&["2026-11-27", "2026-02-30"], DataType::Utf8),
            (&["2026-11-27 10:00:00", "2026-11-27 24:00:00"], DataType::Utf8),
            (&["2262-04-11 23:47:16.854775807"], nanos),
            (&["2262-04-11 23:47:16.854775808"], DataType::Utf8),
            (&["", ""], DataType::Utf8),
        ] {
            assert_eq!(kind_of(texts.iter().copied()), kind, "{texts:?}");
        }
    }
}
