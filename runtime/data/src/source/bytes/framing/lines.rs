//! Lines, ended by a line feed that a carriage return may precede; the last one may lack it.

use super::Cut;

pub(super) fn cut(bytes: &[u8], is_at_end: bool) -> Cut {
    match memchr::memchr(b'\n', bytes) {
        Some(end) => {
            let line = bytes.get(..end).unwrap_or(bytes);
            let content = line.strip_suffix(b"\r").unwrap_or(line);
            Cut::Record { length: end.saturating_add(1), content: 0..content.len() }
        }
        None if !is_at_end => Cut::More { wanted: bytes.len().saturating_mul(2) },
        None if bytes.is_empty() => Cut::End,
        None => Cut::Record { length: bytes.len(), content: 0..bytes.len() },
    }
}

/// The same, with lines that have nothing in them passed over.
pub(super) fn cut_filled(bytes: &[u8], is_at_end: bool) -> Cut {
    match cut(bytes, is_at_end) {
        Cut::Record { length, content }
            if bytes.get(content.clone()).is_some_and(|it| it.trim_ascii().is_empty()) =>
        {
            Cut::Pass { length }
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_end_in_each_of_the_usual_ways() {
        assert_eq!(cut(b"ab\ncd", false), Cut::Record { length: 3, content: 0..2 });
        assert_eq!(cut(b"ab\r\ncd", false), Cut::Record { length: 4, content: 0..2 });
        assert_eq!(cut(b"\n", true), Cut::Record { length: 1, content: 0..0 });
        assert_eq!(cut(b"ab", true), Cut::Record { length: 2, content: 0..2 });
        assert_eq!(cut(b"ab\r", true), Cut::Record { length: 3, content: 0..3 });
        assert_eq!(cut(b"ab", false), Cut::More { wanted: 4 });
        assert_eq!(cut(b"", true), Cut::End);
        assert_eq!(cut_filled(b" \t\r\n{}", false), Cut::Pass { length: 4 });
    }
}
