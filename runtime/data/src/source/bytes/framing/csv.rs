//! Records of CSV: lines, but for line ends within quotes.

use csv_core::{ReadRecordResult, Reader, ReaderBuilder};

use super::Cut;
use crate::pipeline::CsvSource;

/// May be the first bytes of a file. Anywhere else they are a character of a field.
pub(crate) const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();

/// Finds the ends of records.
pub(crate) struct CsvFraming {
    /// Whether a byte-order mark may come.
    is_at_start: bool,
    reader: Reader,
    /// Where fields are written; nobody reads them.
    fields: Vec<u8>,
    ends: Vec<usize>,
}

fn reader(csv: &CsvSource) -> Reader {
    ReaderBuilder::new().delimiter(u8::try_from(csv.delimiter).unwrap_or(b',')).build()
}

impl CsvFraming {
    pub(super) fn new(csv: &CsvSource, is_at_start: bool) -> Self {
        let (fields, ends) = (vec![0; 64 << 10], vec![0; 4096]);
        Self { is_at_start, reader: reader(csv), fields, ends }
    }

    pub(super) fn cut(&mut self, bytes: &[u8], is_at_end: bool) -> Cut {
        if self.is_at_start {
            let wanted = BYTE_ORDER_MARK.len();
            if bytes.len() < wanted && !is_at_end {
                return Cut::More { wanted };
            }
            self.is_at_start = false;
            if bytes.starts_with(BYTE_ORDER_MARK) {
                return Cut::Pass { length: wanted };
            }
        }
        self.reader.reset();
        keep_mark(&mut self.reader, bytes);
        let mut length = 0_usize;
        loop {
            let rest = bytes.get(length..).unwrap_or_default();
            if rest.is_empty() && !is_at_end {
                return Cut::More { wanted: bytes.len().saturating_mul(2) };
            }
            let (result, read, _, _) =
                self.reader.read_record(rest, &mut self.fields, &mut self.ends);
            length = length.saturating_add(read);
            match result {
                ReadRecordResult::Record => return Cut::Record { length, content: 0..length },
                ReadRecordResult::End if length == 0 => return Cut::End,
                ReadRecordResult::End => return Cut::Pass { length },
                ReadRecordResult::InputEmpty
                | ReadRecordResult::OutputFull
                | ReadRecordResult::OutputEndsFull => {}
            }
        }
    }
}

/// Keeps the reader from taking the beginning of a record for that of a file: it does so once, and an empty
/// line comes to nothing.
fn keep_mark(reader: &mut Reader, record: &[u8]) {
    if record.starts_with(BYTE_ORDER_MARK) {
        reader.read_record(b"\n", &mut [0], &mut [0]);
    }
}

/// The text of a record.
///
/// # Errors
/// If it is not UTF-8.
pub(crate) fn utf8(record: &[u8]) -> Result<&str, String> {
    std::str::from_utf8(record).map_err(|error| format!("the record is no UTF-8: {error}"))
}

/// The fields of one record.
pub(crate) fn fields(csv: &CsvSource, record: &[u8]) -> Vec<String> {
    let (mut bytes, mut ends) =
        (vec![0; record.len().saturating_add(1)], vec![0; record.len() + 2]);
    let mut reader = reader(csv);
    keep_mark(&mut reader, record);
    let (result, _, written, mut count) = reader.read_record(record, &mut bytes, &mut ends);
    if result == ReadRecordResult::InputEmpty {
        let (out, rest) = (bytes.get_mut(written..), ends.get_mut(count..));
        if let (Some(out), Some(rest)) = (out, rest) {
            count += reader.read_record(&[], out, rest).3;
        }
    }
    let ends = ends.get(..count).unwrap_or_default();
    let starts = std::iter::once(0).chain(ends.iter().copied());
    let field = |(from, to): (usize, &usize)| {
        String::from_utf8_lossy(bytes.get(from..*to).unwrap_or_default()).into_owned()
    };
    starts.zip(ends).map(field).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pipeline::{Pipeline, Source};

    fn source() -> CsvSource {
        match Pipeline::csv(["a.csv"]).source {
            Source::Csv(csv) => csv,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn line_ends_within_quotes_end_no_record() {
        let mut framing = CsvFraming::new(&source(), true);
        let text = b"a,\"b\nc\"\"d\"\r\n\r\nx,y";
        let mut found = Vec::new();
        let mut from = 0;
        while let Cut::Record { length, .. } = framing.cut(&text[from..], true) {
            found.push(fields(&source(), &text[from..from + length]));
            from += length;
        }
        assert_eq!(found, [["a", "b\nc\"d"], ["x", "y"]]);
        assert_eq!(framing.cut(&text[..5], false), Cut::More { wanted: 10 });
        assert_eq!(framing.cut(b"\n\n", true), Cut::Pass { length: 2 });
        assert_eq!(framing.cut(b"", true), Cut::End);
    }

    #[test]
    fn a_byte_order_mark_is_passed_over_once() {
        let mut framing = CsvFraming::new(&source(), true);
        let text = "\u{feff}\"a\nb\"\n".as_bytes();
        assert_eq!(framing.cut(&text[..2], false), Cut::More { wanted: 3 });
        assert_eq!(framing.cut(text, true), Cut::Pass { length: 3 });
        assert_eq!(framing.cut(&text[3..], true), Cut::Record { length: 6, content: 0..6 });
        assert_eq!(framing.cut(text, true), Cut::Record { length: 6, content: 0..6 });
        assert_eq!(fields(&source(), &text[..6]), ["\u{feff}\"a"]);
    }
}
