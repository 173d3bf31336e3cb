//! Arrow IPC files: pieces are record batches, or rows of one.

use arrow::array::UInt32Array;
use arrow::buffer::Buffer;
use arrow::compute::take_record_batch;
use arrow::datatypes::SchemaRef;
use arrow::ipc::convert::fb_to_schema;
use arrow::ipc::reader::{FileDecoder, read_footer_length};
use arrow::ipc::{Block, root_as_footer, root_as_message};
use arrow::record_batch::RecordBatch;
use bytes::Bytes;

use super::form::check_beginning;
use super::{Chunk, Reading, Scanned, cut, fitted};
use crate::error::DataError;
use crate::guard::guarded;
use crate::manifest::Part;
use crate::pipeline::Pipeline;
use crate::schema::plain;
use crate::stores::StoredFile;

/// The first and the last bytes of every Arrow IPC file.
const MAGIC: &[u8] = b"ARROW1";
/// What stands at the very end of a file: the footer's length, and a word.
const TRAILER_BYTES: u64 = 10;

/// What a file's footer says.
struct Footer {
    decoder: FileDecoder,
    schema: SchemaRef,
    batches: Vec<Block>,
}

/// Looks at the footer of a file, and at the header of each batch.
pub(crate) async fn scan(pipeline: &Pipeline, file: &StoredFile) -> Result<Scanned, DataError> {
    let footer = footer(file).await?;
    let (mut pieces, mut first) = (Vec::new(), 0_u64);
    for (index, block) in footer.batches.iter().enumerate() {
        let (from, head, length) = extent(block).ok_or_else(|| outside(file, index))?;
        let bytes = file.range(from..from.saturating_add(head)).await?;
        let rows = guarded(|| rows_of(&bytes)).map_err(|what| file.corrupt(from, what))?;
        let whole = Part {
            file: 0,
            first,
            records: rows,
            offset: index as u64,
            length: 1,
            skip: 0,
            take: rows,
        };
        pieces.extend(cut(file, &whole, length, pipeline.split_records)?);
        first = first.saturating_add(rows);
    }
    Ok(Scanned { schema: plain(&footer.schema)?, records: first, pieces })
}

fn outside(file: &StoredFile, index: usize) -> DataError {
    let what = format!("the footer says that record batch {index} is outside the file");
    file.corrupt(file.size.saturating_sub(TRAILER_BYTES), what)
}

/// Where a block begins, how long its header is, and how long it is altogether.
fn extent(block: &Block) -> Option<(u64, u64, u64)> {
    let from = u64::try_from(block.offset()).ok()?;
    let head = u64::try_from(block.metaDataLength()).ok()?;
    let length = head.checked_add(u64::try_from(block.bodyLength()).ok()?)?;
    from.checked_add(length)?;
    Some((from, head, length))
}

/// Rows of a batch, by its header.
fn rows_of(head: &Bytes) -> Result<u64, String> {
    // Files from before version 0.15 of the format have no continuation mark.
    let skip = if head.starts_with(&[0xFF; 4]) { 8 } else { 4 };
    let head = head.get(skip..).ok_or("the header of a record batch is too short")?;
    let message = root_as_message(head).map_err(|error| error.to_string())?;
    let batch = message.header_as_record_batch().ok_or("there is no record batch")?;
    u64::try_from(batch.length()).map_err(|_| format!("a batch has {} rows", batch.length()))
}

async fn footer(file: &StoredFile) -> Result<Footer, DataError> {
    let end = file.size.saturating_sub(TRAILER_BYTES);
    let trailer = file.range(end..file.size).await?;
    if !trailer.ends_with(MAGIC) {
        check_beginning(file, "Arrow IPC", MAGIC).await?;
    }
    let trailer: Option<[u8; 10]> = trailer.as_ref().try_into().ok();
    let short = || file.corrupt(0, "it is too short for an Arrow IPC file");
    let length = read_footer_length(trailer.ok_or_else(short)?);
    let length = length.map_err(|error| file.corrupt(end, error.to_string()))? as u64;
    let wrong = |what: String| file.corrupt(end.saturating_sub(length), what);
    if length > end {
        return Err(wrong(format!("its footer would be {length} bytes long")));
    }
    let bytes = file.range(end.saturating_sub(length)..end).await?;
    let (mut footer, dictionaries) = guarded(|| read_footer(&bytes)).map_err(wrong)?;
    for (index, block) in dictionaries.iter().enumerate() {
        let (from, _, length) = extent(block).ok_or_else(|| outside(file, index))?;
        let bytes = Buffer::from(file.range(from..from.saturating_add(length)).await?);
        let read = guarded(|| footer.decoder.read_dictionary(block, &bytes));
        read.map_err(|what| file.corrupt(from, what))?;
    }
    Ok(footer)
}

fn read_footer(bytes: &Bytes) -> Result<(Footer, Vec<Block>), String> {
    let footer = root_as_footer(bytes).map_err(|error| error.to_string())?;
    let schema = footer.schema().ok_or("its footer has no schema")?;
    if !schema.endianness().equals_to_target_endianness() {
        return Err("its numbers have another byte order than this machine".to_owned());
    }
    let schema = SchemaRef::new(fb_to_schema(schema));
    let decoder = FileDecoder::new(schema.clone(), footer.version());
    let batches = footer.recordBatches().iter().flatten().copied().collect();
    let dictionaries = footer.dictionaries().iter().flatten().copied().collect();
    Ok((Footer { decoder, schema, batches }, dictionaries))
}

/// Reads rows.
pub(crate) struct ArrowReader {
    reading: Reading,
    file: StoredFile,
    part: Part,
    /// Rows of the batch that are still to be given.
    rest: Option<RecordBatch>,
}

impl ArrowReader {
    pub(super) const fn new(reading: Reading, file: StoredFile, part: Part) -> Self {
        Self { reading, file, part, rest: None }
    }

    pub(super) async fn next(&mut self) -> Result<Option<Chunk>, DataError> {
        if self.rest.is_none() && self.part.take > 0 {
            match self.batch().await {
                Ok(batch) => self.rest = Some(batch),
                Err(error) => return self.passed_over(&error).ok_or(error).map(Some),
            }
        }
        let Some(rest) = self.rest.take().filter(|rest| rest.num_rows() > 0) else {
            return Ok(None);
        };
        let rows = rest.num_rows().min(self.reading.chunk_records);
        self.rest = Some(rest.slice(rows, rest.num_rows().saturating_sub(rows)));
        Ok(Some(Chunk { records: rest.slice(0, rows), skipped: Vec::new() }))
    }

    /// All rows that are wanted of the batch.
    async fn batch(&mut self) -> Result<RecordBatch, DataError> {
        let row = self.part.first.saturating_add(self.part.skip);
        let index = usize::try_from(self.part.offset).unwrap_or(usize::MAX);
        let footer = footer(&self.file).await?;
        let missing = || self.file.corrupt_in("row", row, "its batch is not there");
        let block = *footer.batches.get(index).ok_or_else(missing)?;
        let (from, _, length) = extent(&block).ok_or_else(|| outside(&self.file, index))?;
        let bytes = Buffer::from(self.file.range(from..from.saturating_add(length)).await?);
        let wrong = |what: String| self.file.corrupt(from, what);
        let batch = guarded(|| footer.decoder.read_record_batch(&block, &bytes)).map_err(wrong)?;
        let batch = batch.ok_or_else(missing)?;
        let batch = fitted(&batch, &self.reading.schema).map_err(wrong)?;
        let last = self.part.take.saturating_sub(1).saturating_mul(self.reading.stride);
        let last = self.part.skip.saturating_add(last);
        if last >= batch.num_rows() as u64 {
            return Err(wrong(format!("the batch has {} rows only", batch.num_rows())));
        }
        let wanted = (0..self.part.take).map(|place| {
            let row = self.part.skip.saturating_add(place.saturating_mul(self.reading.stride));
            u32::try_from(row).unwrap_or(u32::MAX)
        });
        if self.reading.stride == 1 {
            return Ok(batch.slice(self.part.skip as usize, self.part.take as usize));
        }
        let taken = take_record_batch(&batch, &UInt32Array::from_iter_values(wanted));
        taken.map_err(|error| DataError::internal(error.to_string()))
    }

    /// What stands for the rows that cannot be read, if the pipeline asks to pass them over.
    fn passed_over(&mut self, error: &DataError) -> Option<Chunk> {
        if !self.reading.skip_corrupt || !matches!(error, DataError::Corrupt { .. }) {
            return None;
        }
        let skipped = vec![format!("{error}; {} records", self.part.take)];
        self.part.take = 0;
        Some(Chunk { records: RecordBatch::new_empty(self.reading.schema.clone()), skipped })
    }
}
