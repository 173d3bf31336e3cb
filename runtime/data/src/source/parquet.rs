//! Parquet files: pieces are row groups, or rows of one.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use arrow::array::UInt32Array;
use arrow::compute::take_record_batch;
use arrow::record_batch::RecordBatch;
use bytes::Bytes;
use parquet::DecodeResult;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions};
use parquet::arrow::push_decoder::{ParquetPushDecoder, ParquetPushDecoderBuilder};
use parquet::errors::ParquetError;
use parquet::file::metadata::{PageIndexPolicy, ParquetMetaData, ParquetMetaDataPushDecoder};

use super::form::check_beginning;
use super::{Chunk, Reading, Scanned, cut, fitted, int96};
use crate::error::DataError;
use crate::guard::guarded;
use crate::manifest::Part;
use crate::pipeline::Pipeline;
use crate::schema::plain;
use crate::stores::StoredFile;

/// The first and the last bytes of every Parquet file.
const MAGIC: &[u8] = b"PAR1";
/// Bytes of the end of a file, where its footer is, that are fetched at once.
const FOOTER_BYTES: u64 = 64 << 10;

/// Footers that are kept.
const FOOTERS_MAX: usize = 16;

/// Footers of the files that were last read: each split of a file needs its footer.
#[derive(Debug, Default)]
pub(crate) struct Footers {
    kept: Mutex<VecDeque<(String, ArrowReaderMetadata)>>,
}

impl Footers {
    /// The footer of a file, read if it is not there. A file that changed since shows when the rest
    /// of it is read.
    async fn of(&self, file: &StoredFile) -> Result<ArrowReaderMetadata, DataError> {
        if let Some(found) = self.find(&file.location) {
            return Ok(found);
        }
        let found = footer(file, PageIndexPolicy::Optional).await?;
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.push_front((file.location.clone(), found.clone()));
        kept.truncate(FOOTERS_MAX);
        Ok(found)
    }

    fn find(&self, location: &str) -> Option<ArrowReaderMetadata> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.iter().find(|(of, _)| of == location).map(|(_, footer)| footer.clone())
    }
}

/// Looks at the footer of a file.
pub(crate) async fn scan(pipeline: &Pipeline, file: &StoredFile) -> Result<Scanned, DataError> {
    let metadata = footer(file, PageIndexPolicy::Skip).await?;
    let (mut pieces, mut first) = (Vec::new(), 0_u64);
    for (index, group) in metadata.metadata().row_groups().iter().enumerate() {
        let rows = u64::try_from(group.num_rows()).unwrap_or(0);
        let bytes = u64::try_from(group.compressed_size()).unwrap_or(0);
        let whole = Part {
            file: 0,
            first,
            records: rows,
            offset: index as u64,
            length: 1,
            skip: 0,
            take: rows,
        };
        pieces.extend(cut(file, &whole, bytes, pipeline.split_records)?);
        first = first.saturating_add(rows);
    }
    Ok(Scanned { schema: plain(metadata.schema())?, records: first, pieces })
}

/// The footer of a file.
async fn footer(
    file: &StoredFile,
    page_index: PageIndexPolicy,
) -> Result<ArrowReaderMetadata, DataError> {
    let size = file.size;
    let wrong = |what: String| file.corrupt(size.saturating_sub(8), what);
    let tail = size.saturating_sub(FOOTER_BYTES)..size;
    let bytes = file.range(tail.clone()).await?;
    if !bytes.ends_with(MAGIC) {
        check_beginning(file, "Parquet", MAGIC).await?;
    }
    let decoder = guarded(|| ParquetMetaDataPushDecoder::try_new(size)).map_err(wrong)?;
    let mut decoder = decoder.with_page_index_policy(page_index);
    guarded(|| decoder.push_range(tail, bytes)).map_err(wrong)?;
    loop {
        match guarded(|| decoder.try_decode()).map_err(wrong)? {
            DecodeResult::NeedsData(ranges) => {
                let data = fetch(file, &ranges).await?;
                guarded(|| decoder.push_ranges(ranges, data)).map_err(wrong)?;
            }
            DecodeResult::Data(metadata) => {
                return guarded(|| checked(file, metadata)).map_err(wrong);
            }
            DecodeResult::Finished => {
                return Err(file.corrupt(size.saturating_sub(8), "it has no footer"));
            }
        }
    }
}

/// The footer with its schema, if what it says of the file can be.
fn checked(
    file: &StoredFile,
    metadata: ParquetMetaData,
) -> Result<ArrowReaderMetadata, ParquetError> {
    for (index, group) in metadata.row_groups().iter().enumerate() {
        for column in group.columns() {
            let (start, length) = column.byte_range();
            if start.checked_add(length).is_none_or(|end| end > file.size) {
                let place = format!("row group {index} reaches behind the end of the file");
                return Err(ParquetError::General(place));
            }
        }
        if group.num_rows() < 0 {
            return Err(ParquetError::General(format!("row group {index} has less than no rows")));
        }
    }
    ArrowReaderMetadata::try_new(Arc::new(metadata), ArrowReaderOptions::new())
}

async fn fetch(file: &StoredFile, ranges: &[Range<u64>]) -> Result<Vec<Bytes>, DataError> {
    let mut data = Vec::with_capacity(ranges.len());
    for range in ranges {
        data.push(file.range(range.clone()).await?);
    }
    Ok(data)
}

/// The decoders of a part: they give its rows.
struct Decoders {
    records: ParquetPushDecoder,
    /// Decodes columns with old times once more.
    seconds: Option<ParquetPushDecoder>,
}

/// Fetches what a decoder needs and gives its next rows: the first is `row` of the file. None at the end.
async fn decoded(
    file: &StoredFile,
    row: u64,
    decoder: &mut ParquetPushDecoder,
) -> Result<Option<RecordBatch>, DataError> {
    let wrong = |what: String| file.corrupt_in("row", row, what);
    loop {
        match guarded(|| decoder.try_decode()).map_err(wrong)? {
            DecodeResult::NeedsData(ranges) => {
                let data = fetch(file, &ranges).await?;
                guarded(|| decoder.push_ranges(ranges, data)).map_err(wrong)?;
            }
            DecodeResult::Data(records) => return Ok(Some(records)),
            DecodeResult::Finished => return Ok(None),
        }
    }
}

/// Reads rows.
pub(crate) struct ParquetReader {
    reading: Reading,
    file: StoredFile,
    part: Part,
    decoders: Option<Decoders>,
    /// Of the rows that the decoder gives next, so many come before one that is wanted.
    ahead: u64,
}

impl ParquetReader {
    pub(crate) const fn new(reading: Reading, file: StoredFile, part: Part) -> Self {
        Self { reading, file, part, decoders: None, ahead: 0 }
    }

    pub(crate) async fn next(&mut self) -> Result<Option<Chunk>, DataError> {
        while self.part.take > 0 {
            match self.decode().await {
                Ok(Some(records)) => {
                    let records = self.chosen(records)?;
                    if records.num_rows() > 0 {
                        return Ok(Some(Chunk { records, skipped: Vec::new() }));
                    }
                }
                Ok(None) => {
                    let what = format!("{} rows are missing", self.part.take);
                    return Err(self.file.corrupt_in("row", self.row(), what));
                }
                Err(error) => return self.passed_over(error),
            }
        }
        Ok(None)
    }

    /// The row of the file that comes next.
    fn row(&self) -> u64 {
        self.part.first.saturating_add(self.part.skip)
    }

    /// Rows that the decoder gives; nothing at its end.
    async fn decode(&mut self) -> Result<Option<RecordBatch>, DataError> {
        if self.decoders.is_none() {
            let metadata = self.reading.footers.of(&self.file).await?;
            self.decoders = Some(self.decoders_of(metadata)?);
        }
        let (file, row) = (&self.file, self.row());
        let Some(decoders) = self.decoders.as_mut() else {
            return Ok(None);
        };
        let Some(records) = decoded(file, row, &mut decoders.records).await? else {
            return Ok(None);
        };
        if let Some(decoder) = &mut decoders.seconds {
            let seconds = decoded(file, row, decoder).await?;
            let seconds = seconds.filter(|seconds| seconds.num_rows() == records.num_rows());
            let seconds = seconds.ok_or_else(|| DataError::internal("rows without seconds"))?;
            if let Some((at, what)) = int96::first_lost(&records, &seconds) {
                return Err(file.corrupt_in("row", row.saturating_add(at as u64), what));
            }
        }
        let records = fitted(&records, &self.reading.schema);
        records.map(Some).map_err(|what| file.corrupt_in("row", row, what))
    }

    fn decoders_of(&self, metadata: ArrowReaderMetadata) -> Result<Decoders, DataError> {
        let wrong = |what: String| self.file.corrupt_in("row", self.row(), what);
        let seconds = guarded(|| int96::in_seconds(&metadata)).map_err(wrong)?;
        let seconds = seconds.map(|(metadata, columns)| self.decoder_of(metadata, columns));
        let records = self.decoder_of(metadata, ProjectionMask::all())?;
        Ok(Decoders { records, seconds: seconds.transpose()? })
    }

    fn decoder_of(
        &self,
        metadata: ArrowReaderMetadata,
        columns: ProjectionMask,
    ) -> Result<ParquetPushDecoder, DataError> {
        let wrong = |what: String| self.file.corrupt_in("row", self.row(), what);
        let groups = self.part.offset..self.part.offset.saturating_add(self.part.length);
        if groups.end > metadata.metadata().num_row_groups() as u64 {
            let what = format!("there is no row group {}", groups.end.saturating_sub(1));
            return Err(self.file.corrupt_in("row", self.row(), what));
        }
        let span = self.part.take.saturating_mul(self.reading.stride);
        let rows_at_once = self.rows_at_once(metadata.metadata(), groups.clone());
        let decoder = ParquetPushDecoderBuilder::new_with_metadata(metadata)
            .with_projection(columns)
            .with_row_groups(groups.map(|group| group as usize).collect())
            .with_offset(usize::try_from(self.part.skip).unwrap_or(usize::MAX))
            .with_limit(usize::try_from(span).unwrap_or(usize::MAX))
            .with_batch_size(rows_at_once);
        guarded(|| decoder.build()).map_err(wrong)
    }

    /// As many rows as fit a chunk, by what they take when they are decoded.
    fn rows_at_once(&self, metadata: &ParquetMetaData, groups: Range<u64>) -> usize {
        let mut rows = self.reading.chunk_records;
        for group in groups.filter_map(|group| metadata.row_groups().get(group as usize)) {
            let bytes = u64::try_from(group.total_byte_size()).unwrap_or(0);
            let count = u64::try_from(group.num_rows()).unwrap_or(0).max(1);
            let fit = self.file.limits().chunk_bytes / bytes.div_ceil(count).max(1);
            rows = rows.min(usize::try_from(fit).unwrap_or(usize::MAX));
        }
        rows.max(1)
    }

    /// Of rows that were decoded, those that are wanted.
    fn chosen(&mut self, records: RecordBatch) -> Result<RecordBatch, DataError> {
        let (rows, stride) = (records.num_rows() as u64, self.reading.stride);
        let wanted = (self.ahead..rows).step_by(usize::try_from(stride).unwrap_or(usize::MAX));
        let wanted: Vec<u32> = wanted.filter_map(|row| u32::try_from(row).ok()).collect();
        let count = (wanted.len() as u64).min(self.part.take);
        let behind = self.ahead.saturating_add((wanted.len() as u64).saturating_mul(stride));
        self.ahead = behind.saturating_sub(rows);
        self.part.take = self.part.take.saturating_sub(count);
        self.part.skip = self.part.skip.saturating_add(rows);
        if stride == 1 {
            return Ok(records.slice(0, count as usize));
        }
        let taken = take_record_batch(&records, &UInt32Array::from(wanted));
        taken.map_err(|error| DataError::internal(error.to_string()))
    }

    /// The rest of the part, passed over if the pipeline asks for that.
    fn passed_over(&mut self, error: DataError) -> Result<Option<Chunk>, DataError> {
        if !self.reading.skip_corrupt || !matches!(error, DataError::Corrupt { .. }) {
            return Err(error);
        }
        let skipped = format!("{error}; {} records", self.part.take);
        self.part.take = 0;
        let records = RecordBatch::new_empty(self.reading.schema.clone());
        Ok(Some(Chunk { records, skipped: vec![skipped] }))
    }
}
