//! Whether a type keeps the value that a text says: one of CSV, of JSON, of a pipeline or of a column.
//!
//! The decoders round: one reads `1.7` into an integer column as 1, another one drops the time of day of
//! what it takes for a date. So each text is checked against its column's type beside them.

use arrow::datatypes::{DataType, TimeUnit};

/// Integers up to this one are floating-point numbers of 64 bits.
const FLOAT64_INTEGER_MAX: u128 = 1 << 53;
/// Bits of the mantissas.
const FLOAT64_BITS: u32 = 53;
const FLOAT32_BITS: u32 = 24;
/// The digits of a date, `2026-11-27`.
const DATE_BYTES: usize = 10;

/// Whether texts of a column can change on their way into it.
pub(crate) fn is_checked(kind: &DataType) -> bool {
    kind.is_numeric() || matches!(kind, DataType::Date32 | DataType::Timestamp(..))
}

/// Checks that a column of this type keeps what a text says.
///
/// # Errors
/// The text, the type, and what would change.
pub(crate) fn check(text: &str, kind: &DataType) -> Result<(), String> {
    told(text, kind, loss(text, kind))
}

/// As [`check`], of a number of JSON: in a column of dates it counts days, in one of times their unit.
///
/// # Errors
/// As [`check`].
pub(crate) fn check_number(text: &str, kind: &DataType) -> Result<(), String> {
    let lost = match kind {
        DataType::Date32 => loss_of_integer(text, &DataType::Int32),
        DataType::Timestamp(..) => loss_of_integer(text, &DataType::Int64),
        kind => loss(text, kind),
    };
    told(text, kind, lost)
}

/// What would change if a column of this type had what a text says.
pub(crate) fn loss(text: &str, kind: &DataType) -> Option<&'static str> {
    match kind {
        kind if kind.is_integer() => loss_of_integer(text, kind),
        DataType::Float64 => loss_of_float(text, FLOAT64_BITS),
        DataType::Float32 => loss_of_float(text, FLOAT32_BITS),
        DataType::Date32 if text.len() > DATE_BYTES => Some("its time of day would be lost"),
        DataType::Timestamp(unit, _) | DataType::Time32(unit) | DataType::Time64(unit) => {
            loss_of_time(text, *unit)
        }
        DataType::Date64 => loss_of_time(text, TimeUnit::Millisecond),
        _ => None,
    }
}

fn told(text: &str, kind: &DataType, lost: Option<&'static str>) -> Result<(), String> {
    match lost {
        None => Ok(()),
        Some(lost) => Err(format!("{text:?} does not fit the type {kind}: {lost}")),
    }
}

/// A number as it is written: `digits` times ten to the power of `scale`.
struct Decimal {
    is_negative: bool,
    /// Without zeros at their ends; none for zero.
    digits: String,
    scale: i64,
    /// It has neither a point nor an exponent.
    is_plain: bool,
}

impl Decimal {
    /// None if the text is no number. Blanks around it count for nothing, as decoders have it.
    fn of(text: &str) -> Option<Self> {
        let text = text.trim_ascii();
        let (is_negative, rest) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text.strip_prefix('+').unwrap_or(text)),
        };
        let (mantissa, exponent) = match rest.split_once(['e', 'E']) {
            Some((mantissa, exponent)) => (mantissa, exponent_of(exponent)?),
            None => (rest, 0),
        };
        let (whole, part) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let digits = format!("{whole}{part}");
        if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        let trimmed = digits.trim_end_matches('0');
        let zeros = i64::try_from(digits.len() - trimmed.len()).ok()?;
        let scale = exponent.saturating_sub(i64::try_from(part.len()).ok()?).saturating_add(zeros);
        let is_plain = mantissa.len() == rest.len() && !mantissa.contains('.');
        let digits = trimmed.trim_start_matches('0').to_owned();
        Some(Self { is_negative, digits, scale, is_plain })
    }

    /// Whether two texts say the same number.
    fn is_like(&self, other: &Self) -> bool {
        (self.is_negative, &self.digits, self.scale)
            == (other.is_negative, &other.digits, other.scale)
    }

    /// Its amount, if it is an integer of 128 bits.
    fn integer(&self) -> Option<u128> {
        if self.digits.is_empty() {
            return Some(0);
        }
        let scale = u32::try_from(self.scale).ok()?;
        self.digits.parse::<u128>().ok()?.checked_mul(10_u128.checked_pow(scale)?)
    }
}

/// The number that an exponent says, or the nearest one of 64 bits.
fn exponent_of(text: &str) -> Option<i64> {
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let furthest = if text.starts_with('-') { i64::MIN } else { i64::MAX };
    Some(text.parse().unwrap_or(furthest))
}

fn loss_of_integer(text: &str, kind: &DataType) -> Option<&'static str> {
    let Some(number) = Decimal::of(text) else {
        // The decoder refuses it.
        return None;
    };
    let Some(amount) = number.integer() else {
        let is_part = number.scale < 0;
        return Some(if is_part { "it is no integer" } else { "it is too large" });
    };
    let max = greatest(kind, number.is_negative);
    if amount > max {
        return Some(if number.is_negative { "it is too small" } else { "it is too large" });
    }
    // The decoder reads these by way of a floating-point number.
    (!number.is_plain && amount > FLOAT64_INTEGER_MAX).then_some("write all its digits")
}

/// The greatest amount of an integer type.
fn greatest(kind: &DataType, is_negative: bool) -> u128 {
    let bits = match kind {
        DataType::Int8 | DataType::UInt8 => 8,
        DataType::Int16 | DataType::UInt16 => 16,
        DataType::Int32 | DataType::UInt32 => 32,
        _ => 64,
    };
    match (kind.is_unsigned_integer(), is_negative) {
        (true, true) => 0,
        (true, false) => (1 << bits) - 1,
        (false, true) => 1 << (bits - 1),
        (false, false) => (1 << (bits - 1)) - 1,
    }
}

/// A part behind the point is rounded to the nearest number of the type. An integer is not, but the shortest
/// text of a number may be one: `129656140` stands for 129656144 where the type has 32 bits.
fn loss_of_float(text: &str, bits: u32) -> Option<&'static str> {
    let text = text.trim_ascii();
    let number = Decimal::of(text)?;
    let is_exact = |amount: u128| {
        amount == 0 || u128::BITS - amount.leading_zeros() - amount.trailing_zeros() <= bits
    };
    if number.is_plain && number.integer().is_some_and(is_exact) {
        return None;
    }
    let (is_finite, is_zero) = match bits {
        FLOAT32_BITS => text.parse::<f32>().map(|it| (it.is_finite(), it == 0.0)),
        _ => text.parse::<f64>().map(|it| (it.is_finite(), it == 0.0)),
    }
    .ok()?;
    match (is_finite, number.is_plain) {
        (false, _) => Some("it is too large"),
        (true, true) => {
            let is_kept = number.is_like(&shortest(text, bits)?);
            (!is_kept).then_some("the integer would be rounded")
        }
        (true, false) => (is_zero && !number.digits.is_empty()).then_some("it would be zero"),
    }
}

/// The shortest text of the number that is nearest to what a text says.
fn shortest(text: &str, bits: u32) -> Option<Decimal> {
    let text = match bits {
        FLOAT32_BITS => format!("{:e}", text.parse::<f32>().ok()?),
        _ => format!("{:e}", text.parse::<f64>().ok()?),
    };
    Decimal::of(&text)
}

fn loss_of_time(text: &str, unit: TimeUnit) -> Option<&'static str> {
    let (_, part) = text.split_once('.')?;
    let end = part.find(|character: char| !character.is_ascii_digit()).unwrap_or(part.len());
    let digits = part.get(..end).unwrap_or_default().trim_end_matches('0').len();
    let kept = match unit {
        TimeUnit::Second => 0,
        TimeUnit::Millisecond => 3,
        TimeUnit::Microsecond => 6,
        TimeUnit::Nanosecond => 9,
    };
    (digits > kept).then_some("a part of its seconds would be lost")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(kind: &DataType, texts: &[&str]) {
        for text in texts {
            assert_eq!(check(text, kind), Ok(()), "{kind}");
        }
    }

    fn lost(kind: &DataType, texts: &[(&str, &str)]) {
        for (text, why) in texts {
            let error = check(text, kind).expect_err(text);
            assert!(error.contains(why) && error.contains(*text), "{error}");
        }
    }

    #[test]
    fn integers() {
        let (max, min) = (i64::MAX.to_string(), i64::MIN.to_string());
        kept(
            &DataType::Int64,
            &["0", "-0", "007", &max, &min, "1.0", "1e3", "120e-1", "0e99", "no number"],
        );
        let all = u64::MAX.to_string();
        kept(&DataType::UInt64, &[&all, "0"]);
        kept(&DataType::Int8, &["127", "-128"]);
        lost(
            &DataType::Int64,
            &[
                ("1.5", "no integer"),
                ("1e-1", "no integer"),
                ("9223372036854775808", "too large"),
                ("-9223372036854775809", "too small"),
                ("1e400", "too large"),
                ("1e99999999999999999999", "too large"),
                ("1e-99999999999999999999", "no integer"),
                ("1.00000000000000000001", "no integer"),
                ("9007199254740993.0", "all its digits"),
            ],
        );
        lost(&DataType::UInt64, &[("18446744073709551616", "too large"), ("-1", "too small")]);
        lost(&DataType::Int8, &[("128", "too large"), ("-129", "too small")]);
        lost(&DataType::UInt8, &[("256", "too large")]);
    }

    #[test]
    fn floats() {
        kept(
            &DataType::Float64,
            &["0.1", "9007199254740992", "9007199254740994", "1e308", "-0.0", "NaN", "inf"],
        );
        kept(
            &DataType::Float32,
            &[
                "0.1",
                "16777216",
                "16777218",
                "129656140",
                "-9381499000",
                "340282350000000000000000000000000000000",
            ],
        );
        lost(
            &DataType::Float64,
            &[
                ("9007199254740993", "rounded"),
                ("1e309", "too large"),
                ("1e-400", "zero"),
                ("340282366920938463463374607431768211457", "rounded"),
                (&format!("1{}", "0".repeat(400)), "too large"),
                (" 9007199254740993", "rounded"),
                ("1e400 ", "too large"),
                ("1e99999999999999999999", "too large"),
                ("1e-99999999999999999999", "zero"),
            ],
        );
        lost(
            &DataType::Float32,
            &[("16777217", "rounded"), ("1e39", "too large"), ("1e-60", "zero")],
        );
    }

    #[test]
    fn numbers_of_days_and_units() {
        let micros = DataType::Timestamp(TimeUnit::Microsecond, None);
        for text in ["0", "-1", "1e3", "1.0", "2147483647", "null", "true"] {
            assert_eq!(check_number(text, &DataType::Date32), Ok(()));
            assert_eq!(check_number(text, &micros), Ok(()));
        }
        assert_eq!(check_number("9223372036854775807", &micros), Ok(()));
        for (text, kind, why) in [
            ("1.7", &DataType::Date32, "no integer"),
            ("2147483648", &DataType::Date32, "too large"),
            ("1.7", &micros, "no integer"),
            ("1e400", &micros, "too large"),
            ("-9223372036854775809", &micros, "too small"),
            ("16777217", &DataType::Float32, "rounded"),
        ] {
            let error = check_number(text, kind).expect_err(text);
            assert!(error.contains(why) && error.contains(&kind.to_string()), "{error}");
        }
    }

    #[test]
    fn times() {
        let of = |unit| DataType::Timestamp(unit, None);
        kept(&DataType::Date32, &["2026-11-27"]);
        lost(&DataType::Date32, &[("2026-11-27T10:00:00", "time of day")]);
        kept(
            &of(TimeUnit::Microsecond),
            &["2026-11-27 10:00:00.123456", "2026-11-27", "2026-11-27T10:00:00.1234560Z"],
        );
        lost(&of(TimeUnit::Microsecond), &[("2026-11-27T10:00:00.1234567", "seconds")]);
        lost(&of(TimeUnit::Second), &[("2026-11-27 10:00:00.5", "seconds")]);
        kept(&of(TimeUnit::Second), &["2026-11-27 10:00:00.000+02:00"]);
    }
}
