//! The types of a CSV file's columns, by some of their texts. A type is taken only if it keeps them all
//! as they are written: `02134` is a text.

use arrow::datatypes::{DataType, TimeUnit};

use crate::exact;

/// Digits of a second's part that microseconds keep.
const MICROSECOND_DIGITS: usize = 6;

/// The type of a column with these texts. Empty ones are nulls; a column without others is one of texts.
pub(super) fn kind_of<'a>(texts: impl Iterator<Item = &'a str> + Clone) -> DataType {
    let mut found = texts.filter(|text| !text.is_empty()).peekable();
    if found.peek().is_none() {
        return DataType::Utf8;
    }
    let all = |is: &dyn Fn(&str) -> bool| found.clone().all(is);
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
        return DataType::Date32;
    }
    let digits = found.clone().map(digits_of_timestamp).try_fold(0, |most, it| Some(most.max(it?)));
    match digits {
        Some(digits) if digits <= MICROSECOND_DIGITS => {
            DataType::Timestamp(TimeUnit::Microsecond, None)
        }
        Some(_) => DataType::Timestamp(TimeUnit::Nanosecond, None),
        None => DataType::Utf8,
    }
}

/// Whether a number's text begins with zeros that the number does not keep.
pub(super) fn has_leading_zeros(text: &str) -> bool {
    // The decoder passes over blanks.
    let text = text.trim_ascii();
    let digits = text.strip_prefix('-').unwrap_or(text).as_bytes();
    matches!(digits, [b'0', next, ..] if next.is_ascii_digit())
}

fn is_integer(text: &str) -> bool {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let is_one = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    is_one && !has_leading_zeros(text) && text != "-0"
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
        && !has_leading_zeros(text)
}

/// `2026-11-27`.
fn is_date(text: &str) -> bool {
    has_form(text, b"0000-00-00")
}

/// Whether a text has digits where the form has zeros, and else what the form has.
fn has_form(text: &str, form: &[u8]) -> bool {
    let is_alike = |(byte, wanted): (u8, &u8)| match wanted {
        b'0' => byte.is_ascii_digit(),
        wanted => byte == *wanted,
    };
    text.len() == form.len() && text.bytes().zip(form).all(is_alike)
}

/// How many digits of its second's part a timestamp has; none if the text is no timestamp. It may name a
/// zone.
fn digits_of_timestamp(text: &str) -> Option<usize> {
    let (date, rest) = text.split_at_checked(10)?;
    let (time, rest) = rest.strip_prefix([' ', 'T'])?.split_at_checked(8)?;
    if !is_date(date) || !has_form(time, b"00:00:00") {
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
            (&["1e"], DataType::Utf8),
            (&["-"], DataType::Utf8),
            (&["true", "FALSE"], DataType::Boolean),
            (&["2026-11-27"], DataType::Date32),
            (&["2026-11-27", "2026-11-27 10:00:00"], DataType::Utf8),
            (&["2026-11-27 10:00:00", "2026-11-27T10:00:00.5Z"], micros),
            (&["2026-11-27 10:00:00.1234567+02:00"], nanos),
            (&["2026-11-27 10:00:00."], DataType::Utf8),
            (&["", ""], DataType::Utf8),
        ] {
            assert_eq!(kind_of(texts.iter().copied()), kind, "{texts:?}");
        }
    }
}
