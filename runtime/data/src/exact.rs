//! Checks whether a type keeps the value that a text states. The text is a field of CSV, a value of JSON, a
//! constant of a pipeline, or a value of a column of texts or decimals.
//!
//! The decoders round: one reads `1.7` into an integer column as 1, another one drops the time of day of
//! a text that it takes for a date. So this module checks each text against its column's type beside them.

use arrow::datatypes::{DataType, TimeUnit};

/// Integers up to this one are floating-point numbers of 64 bits.
const FLOAT64_INTEGER_MAX: u128 = 1 << 53;
/// Reasons that several types have.
const TOO_LARGE: &str = "it is too large";
const ROUNDED: &str = "the integer would be rounded";
const ZERO: &str = "it would be zero";
/// The bytes of a date, `2026-11-27`.
const DATE_BYTES: usize = 10;

/// Whether a decoder can change a text on its way into a column of this type.
pub(crate) fn is_checked(kind: &DataType) -> bool {
    kind.is_numeric() || matches!(kind, DataType::Date32 | DataType::Timestamp(..))
}

/// Checks that a column of this type keeps the value that a text states.
///
/// # Errors
/// The text, the type, and the reason.
pub(crate) fn check(text: &str, kind: &DataType) -> Result<(), String> {
    told(text, kind, loss(text, kind))
}

/// As [`check`], for a number of JSON: it counts days in a column of dates, and units in a column of times.
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

/// The reason why a column of this type does not keep the value that a text states. None if the column keeps
/// it, and also if the text states no value of the type: the decoder refuses such a text.
pub(crate) fn loss(text: &str, kind: &DataType) -> Option<&'static str> {
    match kind {
        kind if kind.is_integer() => loss_of_integer(text, kind),
        DataType::Float64 | DataType::Float32 => loss_of_float(text, kind),
        DataType::Date32 => has_time_of_day(text).then_some("its time of day would be lost"),
        DataType::Timestamp(unit, _) | DataType::Time32(unit) | DataType::Time64(unit) => {
            loss_of_time(text, *unit)
        }
        DataType::Date64 => loss_of_time(text, TimeUnit::Millisecond),
        _ => None,
    }
}

/// The reason why a floating-point column does not keep a number of a decimal column. It keeps a whole
/// number exactly, and takes the nearest of its own for a number with a fraction.
pub(crate) fn loss_of_decimal(text: &str, kind: &DataType) -> Option<&'static str> {
    let (number, nearest) = (Decimal::of(text)?, Nearest::of(text, kind)?);
    if nearest.is_infinite() {
        return Some(TOO_LARGE);
    }
    if number.scale >= 0 {
        return (!number.is_like(&nearest.exact()?)).then_some(ROUNDED);
    }
    nearest.is_zero().then_some(ZERO)
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
    /// Without zeros at either end. Zero has no digits, and the scale 0.
    digits: String,
    scale: i64,
    /// It has neither a point nor an exponent.
    is_plain: bool,
}

impl Decimal {
    /// None if the text is no number. Blanks around it are passed over, as the decoders do.
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
        let scale = if digits.is_empty() { 0 } else { scale };
        Some(Self { is_negative, digits, scale, is_plain })
    }

    /// Whether two texts state the same number.
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

/// The number that an exponent states, or the nearest one of 64 bits.
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
        return Some(if is_part { "it is no integer" } else { TOO_LARGE });
    };
    let max = greatest(kind, number.is_negative);
    if amount > max {
        return Some(if number.is_negative { "it is too small" } else { TOO_LARGE });
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

/// A number with a point or an exponent becomes the nearest one of the type. An integer is kept exactly, or
/// is the shortest text of the number: in 32 bits, `129656140` stands for 129656144.
fn loss_of_float(text: &str, kind: &DataType) -> Option<&'static str> {
    let (number, nearest) = (Decimal::of(text)?, Nearest::of(text.trim_ascii(), kind)?);
    if nearest.is_infinite() {
        return Some(TOO_LARGE);
    }
    if number.is_plain {
        let is_kept = number.is_like(&nearest.exact()?) || number.is_like(&nearest.shortest()?);
        return (!is_kept).then_some(ROUNDED);
    }
    (nearest.is_zero() && !number.digits.is_empty()).then_some(ZERO)
}

/// The number of a floating-point type that is nearest to the one that a text states.
enum Nearest {
    Single(f32),
    Double(f64),
}

impl Nearest {
    fn of(text: &str, kind: &DataType) -> Option<Self> {
        match kind {
            DataType::Float32 => text.parse().ok().map(Self::Single),
            _ => text.parse().ok().map(Self::Double),
        }
    }

    fn wide(&self) -> f64 {
        match self {
            Self::Single(number) => f64::from(*number),
            Self::Double(number) => *number,
        }
    }

    fn is_infinite(&self) -> bool {
        self.wide().is_infinite()
    }

    fn is_zero(&self) -> bool {
        self.wide() == 0.0
    }

    /// All digits of an integer.
    fn exact(&self) -> Option<Decimal> {
        Decimal::of(&format!("{:.0}", self.wide()))
    }

    /// The fewest digits that state this number.
    fn shortest(&self) -> Option<Decimal> {
        Decimal::of(&match self {
            Self::Single(number) => format!("{number:e}"),
            Self::Double(number) => format!("{number:e}"),
        })
    }
}

/// Whether a text is a date with a time of day. A year with a sign, such as in `+10999-12-31`, makes a date
/// longer than usual.
fn has_time_of_day(text: &str) -> bool {
    matches!(text.as_bytes().get(DATE_BYTES), Some(b'T' | b't' | b' '))
        && !text.starts_with(['+', '-'])
}

fn loss_of_time(text: &str, unit: TimeUnit) -> Option<&'static str> {
    if has_second_60(text) {
        return Some("its second 60 would become second 0 of the next minute");
    }
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

/// Whether a time has a leap second: `23:59:60`, or `235960` behind a date.
pub(crate) fn has_second_60(text: &str) -> bool {
    let time =
        if text.as_bytes().get(4) == Some(&b'-') { text.get(DATE_BYTES + 1..) } else { Some(text) };
    let time = time.unwrap_or_default();
    let is_compact = time.bytes().take_while(u8::is_ascii_digit).count() == 6;
    let seconds = if is_compact { time.get(4..) } else { time.splitn(3, ':').nth(2) };
    seconds.is_some_and(|seconds| seconds.starts_with("60"))
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
            &[
                "0.1",
                "9007199254740992",
                "9007199254740994",
                "1e308",
                "-0.0",
                "000",
                "-00",
                "NaN",
                "inf",
            ],
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

    /// Integers of more than 128 bits.
    #[test]
    fn powers_of_two_are_floats_however_many_digits_they_have() {
        let powers = [128, 129, 200, 1023].map(|bits| format!("{:.0}", 2_f64.powi(bits)));
        for power in powers {
            let odd = format!("{}1", &power[..power.len() - 1]);
            kept(&DataType::Float64, &[&power, &format!("-{power}")]);
            lost(&DataType::Float64, &[(&odd, "rounded")]);
        }
        kept(&DataType::Float32, &["170141183460469231731687303715884105728"]);
        lost(&DataType::Float32, &[("340282366920938463463374607431768211456", "too large")]);
    }

    #[test]
    fn decimals_are_exact_if_whole_and_nearest_if_not() {
        let zeros = "0".repeat(60);
        let (small, large) = (format!("0.{zeros}1"), format!("1{zeros}"));
        let part = format!("{large}.5");
        for (text, kind, why) in [
            ("16777216.00", DataType::Float32, None),
            ("16777217.00", DataType::Float32, Some("rounded")),
            ("129656140", DataType::Float32, Some("rounded")),
            ("16777217.50", DataType::Float32, None),
            ("0.00", DataType::Float32, None),
            (small.as_str(), DataType::Float32, Some("zero")),
            (large.as_str(), DataType::Float32, Some("too large")),
            (part.as_str(), DataType::Float32, Some("too large")),
            ("9007199254740993", DataType::Float64, Some("rounded")),
            ("-9007199254740993.1", DataType::Float64, None),
        ] {
            let lost = loss_of_decimal(text, &kind);
            assert_eq!(lost.is_some(), why.is_some(), "{text}: {lost:?}");
            assert!(why.is_none_or(|why| lost.unwrap().contains(why)), "{text}: {lost:?}");
        }
    }

    #[test]
    fn a_date_with_a_sign_has_no_time_of_day() {
        kept(&DataType::Date32, &["+10999-12-31", "-0012-05-06", "10999-12-31"]);
        lost(&DataType::Date32, &[("2026-11-27 10:00:00", "time of day")]);
    }

    #[test]
    fn a_leap_second_is_no_other_second() {
        let micros = DataType::Timestamp(TimeUnit::Microsecond, None);
        let leaps = ["2016-12-31T23:59:60Z", "2016-12-31 23:59:60.5+02:00", "2016-12-31 235960"];
        lost(&micros, &leaps.map(|text| (text, "second 60")));
        kept(&micros, &["2016-12-31T23:59:59+02:60", "2016-12-31 236059", "2016-12-31 10:60:00"]);
        let nanos = DataType::Time64(TimeUnit::Nanosecond);
        lost(&nanos, &["23:59:60", "3:59:60.25 AM"].map(|text| (text, "second 60")));
        kept(&nanos, &["23:59:59", "6:00 PM", "10:60"]);
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
