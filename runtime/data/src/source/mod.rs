//! Sources: what files hold, and how their records are read.

mod arrow_file;
mod bytes;
mod form;
mod int96;
mod parquet;
mod range;

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use arrow::record_batch::RecordBatch;

use crate::error::DataError;
use crate::limits::SPLITS_MAX;
use crate::manifest::Part;
use crate::pipeline::{Pipeline, Source};
use crate::schema::{is_same, merged, packed};
use crate::stores::StoredFile;

/// A record that takes at least one of so many parts of what is fetched at once is left where it lies.
const SHARED_PARTS: u64 = 5;

/// Whether so many bytes are at least one of [`SHARED_PARTS`] of what is fetched at once.
pub(crate) const fn is_much_of(bytes: u64, chunk_bytes: u64) -> bool {
    bytes.saturating_mul(SHARED_PARTS) >= chunk_bytes
}

/// What a file holds.
#[derive(Clone, Debug)]
pub(crate) struct Scanned {
    /// The columns of its records.
    pub(crate) schema: SchemaRef,
    /// Its records.
    pub(crate) records: u64,
    /// Pieces of it that can be read on their own, no larger than splits should be where it has
    /// such pieces. Their `file` means nothing.
    pub(crate) pieces: Vec<Piece>,
}

/// A piece of a file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Piece {
    /// Where it is, as if all of it were read.
    pub(crate) part: Part,
    /// Bytes of the file that it takes, about.
    pub(crate) bytes: u64,
}

/// What was read.
#[derive(Clone, Debug)]
pub(crate) struct Chunk {
    /// Successive records.
    pub(crate) records: RecordBatch,
    /// Places before or among them that could not be read.
    pub(crate) skipped: Vec<String>,
}

/// What all readers of a dataset's parts share.
#[derive(Clone, Debug)]
pub(crate) struct Reading {
    /// The columns that records must have.
    pub(crate) schema: SchemaRef,
    pub(crate) stride: u64,
    pub(crate) skip_corrupt: bool,
    /// Records in a chunk at most; at least 1.
    pub(crate) chunk_records: usize,
    /// Whether records may keep in use what was fetched of a file, up to [`SHARED_PARTS`] times what
    /// they take themselves.
    pub(crate) is_shared: bool,
    /// Footers that were read.
    pub(crate) footers: Arc<Footers>,
}

/// Looks into a file.
pub(crate) async fn scan(pipeline: &Pipeline, file: &StoredFile) -> Result<Scanned, DataError> {
    match &pipeline.source {
        Source::Parquet(_) => parquet::scan(pipeline, file).await,
        Source::Range(_) => Err(DataError::internal("a range has no files")),
        Source::Arrow(_) => arrow_file::scan(pipeline, file).await,
        _ => bytes::scan(pipeline, file).await,
    }
}

pub(crate) use parquet::Footers;
pub(crate) use range::scan as scan_range;

/// The columns of the records of two files together.
///
/// # Errors
/// What is different.
pub(crate) fn together(
    source: &Source,
    first: &SchemaRef,
    other: &SchemaRef,
) -> Result<SchemaRef, String> {
    let is_guessed = match source {
        Source::Csv(csv) => csv.columns.is_empty(),
        Source::JsonLines(json) => json.columns.is_empty(),
        Source::Webdataset(_) => true,
        _ => false,
    };
    if is_guessed { bytes::widened(source, first, other) } else { merged(first, other) }
}

/// Reads one part.
pub(crate) enum PartReader {
    Range(range::RangeReader),
    Parquet(Box<parquet::ParquetReader>),
    Arrow(Box<arrow_file::ArrowReader>),
    Bytes(Box<bytes::BytesReader>),
}

impl PartReader {
    /// Begins a part; of the records that are read of it, those before `skip` are passed over.
    pub(crate) fn open(
        source: &Source,
        reading: &Reading,
        file: StoredFile,
        part: &Part,
        skip: u64,
    ) -> Result<Self, DataError> {
        let (part, reading) = (rest(part, reading, skip), reading.clone());
        Ok(match source {
            Source::Parquet(_) => {
                Self::Parquet(Box::new(parquet::ParquetReader::new(reading, file, part)))
            }
            Source::Arrow(_) => {
                Self::Arrow(Box::new(arrow_file::ArrowReader::new(reading, file, part)))
            }
            source => Self::Bytes(Box::new(bytes::BytesReader::new(source, reading, file, part)?)),
        })
    }

    /// Begins a part of a source that has no files.
    pub(crate) fn without_file(
        source: &Source,
        reading: &Reading,
        part: &Part,
        skip: u64,
    ) -> Result<Self, DataError> {
        let (part, reading) = (rest(part, reading, skip), reading.clone());
        match source {
            Source::Range(range) => Ok(Self::Range(range::RangeReader::new(*range, reading, part))),
            _ => Err(DataError::definition("a part of a file without a name")),
        }
    }

    /// The next records; nothing at the end.
    pub(crate) async fn next(&mut self) -> Result<Option<Chunk>, DataError> {
        match self {
            Self::Range(range) => range.next(),
            Self::Parquet(parquet) => parquet.next().await,
            Self::Arrow(arrow) => arrow.next().await,
            Self::Bytes(bytes) => bytes.next().await,
        }
    }
}

/// What is left of a part behind so many of its chosen records.
fn rest(part: &Part, reading: &Reading, skip: u64) -> Part {
    let passed = skip.min(part.take);
    let skip = part.skip.saturating_add(passed.saturating_mul(reading.stride));
    Part { skip, take: part.take.saturating_sub(passed), ..*part }
}

/// A row group, or a batch, as a whole; in pieces only if the pipeline asks for smaller splits, since
/// what is fetched for some of its rows is often as much as for all.
fn cut(
    file: &StoredFile,
    whole: &Part,
    bytes: u64,
    records: Option<u64>,
) -> Result<Vec<Piece>, DataError> {
    let rows = whole.records;
    let of_piece = records.unwrap_or(rows).clamp(1, rows.max(1));
    let pieces = rows.div_ceil(of_piece);
    // A header may speak of any number of rows.
    if pieces > SPLITS_MAX {
        let what = format!("{}: splits of {of_piece} of {rows} rows", file.location);
        let setting = "SPLITS_MAX; see split_records";
        return Err(DataError::Bound { what, found: pieces, bound: SPLITS_MAX, setting });
    }
    let piece = |index: u64| {
        let skip = index.saturating_mul(of_piece);
        let take = rows.saturating_sub(skip).min(of_piece);
        Piece { part: Part { skip, take, ..*whole }, bytes: bytes.div_ceil(pieces.max(1)) }
    };
    Ok((0..pieces).map(piece).collect())
}

/// Records with exactly these columns; dictionaries and runs become their values.
pub(crate) fn fitted(records: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch, String> {
    if records.schema_ref() == schema {
        return Ok(records.clone());
    }
    let fields = schema.fields().iter();
    let columns = fields.map(|field| {
        let column = records.column_by_name(field.name());
        let column = column.ok_or_else(|| format!("there is no column {:?}", field.name()))?;
        let (found, wanted) = (column.data_type(), field.data_type());
        if found == wanted {
            return Ok(column.clone());
        }
        if !is_same(packed(found).unwrap_or(found), wanted) {
            return Err(format!("column {:?} is of type {found}, not {wanted}", field.name()));
        }
        arrow::compute::cast(column, field.data_type()).map_err(|error| error.to_string())
    });
    let columns = columns.collect::<Result<Vec<_>, String>>()?;
    RecordBatch::try_new(schema.clone(), columns).map_err(|error| error.to_string())
}
