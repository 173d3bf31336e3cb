//! Spans of time and sizes as people write them: a number and a unit.

use std::ops::{Bound, RangeBounds, RangeInclusive};
use std::str::FromStr;

use rondo_core::time::Duration;

/// A span of time; a bare number counts seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span(pub(super) Duration);

impl Span {
    /// The span as Rust's library has it.
    pub(super) const fn std(self) -> std::time::Duration {
        std::time::Duration::from_nanos(self.0.as_nanos())
    }

    /// The span, or nothing if it is 0.
    pub(super) fn unless_zero(self) -> Option<Duration> {
        (self.0 != Duration::ZERO).then_some(self.0)
    }
}

impl FromStr for Span {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let bad = || format!("{text:?} is no span of time, such as 100, 100s, 500ms, 2m, 1h or 7d");
        let (count, unit) = split(text).ok_or_else(bad)?;
        let unit_ms = match unit {
            "ms" => 1,
            "" | "s" => 1000,
            "m" => 60_000,
            "h" => 3_600_000,
            "d" => 86_400_000,
            _ => return Err(bad()),
        };
        let ms = count.checked_mul(unit_ms).ok_or_else(bad)?;
        Ok(Self(Duration::from_millis(ms)))
    }
}

/// A parser of spans within these bounds, in ms.
pub(super) fn span(
    bounds: RangeInclusive<u64>,
) -> impl Fn(&str) -> Result<Span, String> + Clone + Send + Sync + 'static {
    move |text| {
        let span: Span = text.parse()?;
        if bounds.contains(&span.0.as_millis()) {
            return Ok(span);
        }
        let (least, most) = (bounds.start(), bounds.end());
        Err(format!("a span of {least}ms to {most}ms is wanted"))
    }
}

/// A span of time, or never, which a negative number stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SpanOrNever {
    /// After so long.
    After(Duration),
    /// Never.
    Never,
}

impl FromStr for SpanOrNever {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "never" {
            return Ok(Self::Never);
        }
        let read = |span: &str| span.parse::<Span>();
        match text.strip_prefix('-') {
            Some(positive) if read(positive).is_ok() => Ok(Self::Never),
            _ => {
                read(text).map(|span| Self::After(span.0)).map_err(|why| format!("{why}; or never"))
            }
        }
    }
}

/// A parser of sizes within these bounds, in bytes.
pub(super) fn size(
    bounds: impl RangeBounds<u64> + Clone + Send + Sync + 'static,
) -> impl Fn(&str) -> Result<u64, String> + Clone + Send + Sync + 'static {
    move |text| {
        let bytes = bytes(text)?;
        if bounds.contains(&bytes) {
            return Ok(bytes);
        }
        let bound = |bound: Bound<&u64>, word: &str| match bound {
            Bound::Included(bytes) | Bound::Excluded(bytes) => format!(" {word} {bytes} bytes"),
            Bound::Unbounded => String::new(),
        };
        let least = bound(bounds.start_bound(), "from");
        Err(format!("a size{least}{} is wanted", bound(bounds.end_bound(), "to")))
    }
}

/// A size in bytes; a bare number counts bytes.
fn bytes(text: &str) -> Result<u64, String> {
    let bad = || format!("{text:?} is no size, such as 4096 (bytes), 64KiB, 16MiB or 1GiB");
    let (count, unit) = split(text).ok_or_else(bad)?;
    let unit_bytes = match unit {
        "" | "B" => 1,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        "TiB" => 1 << 40,
        _ => return Err(bad()),
    };
    count.checked_mul(unit_bytes).ok_or_else(bad)
}

/// A count and its unit.
fn split(text: &str) -> Option<(u64, &str)> {
    let digits = text.trim_end_matches(|char: char| char.is_ascii_alphabetic());
    Some((digits.parse().ok()?, text.get(digits.len()..)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_read_in_every_unit() {
        let read = |text: &str| text.parse::<Span>().map(|span| span.0.as_millis());
        for (text, ms) in [("100", 100_000), ("7s", 7000), ("500ms", 500), ("2m", 120_000)] {
            assert_eq!(read(text), Ok(ms), "{text}");
        }
        assert_eq!((read("1h"), read("7d")), (Ok(3_600_000), Ok(604_800_000)));
        for text in ["", "s", "-1", "1.5s", "1w", "1 s", "99999999999999999h"] {
            let error = text.parse::<Span>().unwrap_err();
            assert!(error.contains(&format!("{text:?}")), "{error}");
        }
    }

    #[test]
    fn a_span_is_kept_within_bounds() {
        let read = span(10..=3_600_000);
        assert_eq!(read("1h"), Ok(Span(Duration::from_secs(3600))));
        for text in ["9ms", "2h"] {
            assert_eq!(read(text).unwrap_err(), "a span of 10ms to 3600000ms is wanted");
        }
    }

    #[test]
    fn a_negative_span_is_never() {
        for text in ["-1", "-1ms", "never"] {
            assert_eq!(text.parse(), Ok(SpanOrNever::Never), "{text}");
        }
        assert_eq!("2s".parse(), Ok(SpanOrNever::After(Duration::from_secs(2))));
        for text in ["", "-", "--1", "soon"] {
            let error = text.parse::<SpanOrNever>().unwrap_err();
            assert!(error.contains("never"), "{error}");
        }
    }

    #[test]
    fn sizes_are_read_in_every_unit_and_kept_within_bounds() {
        let read = size(1024..=1 << 30);
        assert_eq!((read("2048"), read("2048B")), (Ok(2048), Ok(2048)));
        assert_eq!((read("64KiB"), read("16MiB")), (Ok(64 << 10), Ok(16 << 20)));
        assert_eq!((read("1GiB"), size(..)("1TiB")), (Ok(1 << 30), Ok(1 << 40)));
        for text in ["1023", "2GiB"] {
            let error = read(text).unwrap_err();
            assert_eq!(error, "a size from 1024 bytes to 1073741824 bytes is wanted");
        }
        for text in ["", "MiB", "-1", "1.5GiB", "1 MiB", "16mb", "99999999999TiB"] {
            let error = read(text).unwrap_err();
            assert!(error.contains(&format!("{text:?}")), "{error}");
        }
    }
}
