//! Where one record ends and the next one begins.

mod csv;
mod lines;
mod tar;
mod tfrecord;

use std::ops::Range;

use crate::pipeline::Source;

pub(super) use csv::{BYTE_ORDER_MARK, CsvFraming, fields, utf8};
pub(super) use tar::{extensions, members, split as split_name};

/// What stands at the beginning of some bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Cut {
    /// A record of so many bytes; its content is this part of them.
    Record { length: usize, content: Range<usize> },
    /// Bytes between records.
    Pass { length: usize },
    /// More bytes are needed: so many altogether, as far as one knows.
    More { wanted: usize },
    /// Nothing more.
    End,
    /// Something that is no record, so many bytes behind the beginning. Behind it others may come,
    /// `next` bytes behind the beginning.
    Corrupt { at: usize, what: String, next: Option<usize> },
}

/// How records are told apart.
pub(super) enum Framing {
    Lines,
    /// Lines, of which empty ones are no records.
    JsonLines,
    Csv(Box<CsvFraming>),
    /// Whether contents are checked against their checksums.
    Tfrecord {
        is_checked: bool,
    },
    Tar,
}

impl Framing {
    /// That of a source, from the beginning of a file or from another record on; `None` if its
    /// records are not told apart by bytes.
    pub(super) fn of(source: &Source, is_checked: bool, is_at_start: bool) -> Option<Self> {
        match source {
            Source::Text(_) => Some(Self::Lines),
            Source::JsonLines(_) => Some(Self::JsonLines),
            Source::Csv(csv) => Some(Self::Csv(Box::new(CsvFraming::new(csv, is_at_start)))),
            Source::Tfrecord(_) => Some(Self::Tfrecord { is_checked }),
            Source::Webdataset(_) => Some(Self::Tar),
            Source::Range(_) | Source::Parquet(_) | Source::Arrow(_) => None,
        }
    }

    /// What stands at the beginning of these bytes, behind which there is nothing if `is_at_end`.
    pub(super) fn cut(&mut self, bytes: &[u8], is_at_end: bool) -> Cut {
        match self {
            Self::Lines => lines::cut(bytes, is_at_end),
            Self::JsonLines => lines::cut_filled(bytes, is_at_end),
            Self::Csv(csv) => csv.cut(bytes, is_at_end),
            Self::Tfrecord { is_checked } => tfrecord::cut(bytes, is_at_end, *is_checked),
            Self::Tar => tar::cut(bytes, is_at_end),
        }
    }
}
