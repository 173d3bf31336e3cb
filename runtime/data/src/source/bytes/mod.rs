//! Files of records that stand one behind the other: text, CSV, JSON, TFRecord and tar.

mod decompress;
mod feed;
mod form;
mod framing;
mod scan;

use arrow::compute::concat_batches;
use arrow::record_batch::RecordBatch;
use bytes::Bytes;

use super::{Chunk, Reading, is_much_of};
use crate::error::DataError;
use crate::manifest::Part;
use crate::pipeline::Source;
use crate::stores::StoredFile;
use feed::{Feed, compression_of};
use form::Form;
use framing::{Cut, Framing};

pub(super) use scan::{scan, widened};

/// Reads records that stand one behind the other.
pub(crate) struct BytesReader {
    reading: Reading,
    part: Part,
    feed: Feed,
    framing: Framing,
    form: Form,
    has_begun: bool,
    /// Records before the next one that is wanted.
    ahead: u64,
    /// The number in the file of the record that comes next.
    row: u64,
    skipped: Vec<String>,
    /// What is wrong behind the records that were gathered.
    broken: Option<DataError>,
}

/// Records as they stand in the file.
#[derive(Default)]
struct Frames {
    contents: Vec<Bytes>,
    /// Where each of them is: its first byte, and its number among the file's records.
    places: Vec<(u64, u64)>,
}

impl BytesReader {
    pub(super) fn new(
        source: &Source,
        reading: Reading,
        file: StoredFile,
        part: Part,
    ) -> Result<Self, DataError> {
        let odd =
            || DataError::internal("a source whose records do not stand one behind the other");
        let framing = Framing::of(source, true, part.offset == 0).ok_or_else(odd)?;
        let form = Form::of(source).ok_or_else(odd)?;
        let compression = compression_of(source.compression(), &file.location);
        let end = part.offset.saturating_add(part.length);
        let feed = Feed::new(file, compression, part.offset, Some(end))?;
        let (skipped, ahead, row) = (Vec::new(), part.skip, part.first);
        let (has_begun, broken) = (false, None);
        Ok(Self { reading, part, feed, framing, form, has_begun, ahead, row, skipped, broken })
    }

    pub(super) async fn next(&mut self) -> Result<Option<Chunk>, DataError> {
        if let Some(error) = self.broken.take() {
            return Err(error);
        }
        if !self.has_begun {
            self.has_begun = true;
            if let Err(error) = self.feed.seek(self.part.offset).await {
                self.lost(error)?;
            }
        }
        let frames = match self.gather().await {
            Ok(frames) => frames,
            Err(error) => {
                self.lost(error)?;
                Frames::default()
            }
        };
        let records = self.read(&frames)?;
        let skipped = std::mem::take(&mut self.skipped);
        let is_over = frames.contents.is_empty() && skipped.is_empty();
        Ok((!is_over).then_some(Chunk { records, skipped }))
    }

    /// As many records as make a chunk.
    async fn gather(&mut self) -> Result<Frames, DataError> {
        let (mut frames, mut bytes) = (Frames::default(), 0_u64);
        let bytes_max = self.feed.file().limits().chunk_bytes;
        let records_max = self.reading.chunk_records;
        while self.part.take > 0 && frames.contents.len() < records_max && bytes < bytes_max {
            match self.framing.cut(self.feed.buffer(), self.feed.is_at_end()) {
                Cut::Record { length, content } => {
                    let is_alone = self.is_left_alone(content.len());
                    if is_alone && !frames.contents.is_empty() {
                        break;
                    }
                    let row = self.row;
                    if self.is_wanted() {
                        bytes = bytes.saturating_add(content.len() as u64);
                        frames.places.push((self.feed.position(), row));
                        frames.contents.push(self.feed.buffer().slice(content));
                    }
                    self.feed.consume(length);
                    if is_alone && !frames.contents.is_empty() {
                        break;
                    }
                }
                Cut::Pass { length } => self.feed.consume(length),
                Cut::More { wanted } => match self.feed.refill(wanted).await {
                    Err(error) if !frames.contents.is_empty() => {
                        self.keep_back(error)?;
                        break;
                    }
                    refilled => refilled?,
                },
                Cut::End => {
                    let what = format!("{} records are missing", self.part.take);
                    return Err(self.corrupt(self.feed.position(), &what));
                }
                Cut::Corrupt { at, what, next } => {
                    if !self.corrupt_record(at, &what, next, frames.contents.is_empty())? {
                        break;
                    }
                }
            }
        }
        Ok(frames)
    }

    /// Whether a record of so many bytes is a chunk of its own, which costs no copy.
    fn is_left_alone(&self, length: usize) -> bool {
        self.reading.is_shared
            && matches!(self.form, Form::Bytes)
            && is_much_of(length as u64, self.feed.file().limits().chunk_bytes)
    }

    /// Whether the record that comes next is wanted; counts it.
    const fn is_wanted(&mut self) -> bool {
        self.row = self.row.saturating_add(1);
        if self.ahead > 0 {
            self.ahead -= 1;
            return false;
        }
        self.ahead = self.reading.stride.saturating_sub(1);
        self.part.take = self.part.take.saturating_sub(1);
        true
    }

    fn corrupt(&self, offset: u64, what: &str) -> DataError {
        self.feed.file().corrupt_in(self.feed.unit(), offset, what)
    }

    /// Something that is no record: passed over, or an error, at once or, where records were
    /// gathered before it, behind them. Whether to go on.
    fn corrupt_record(
        &mut self,
        at: usize,
        what: &str,
        next: Option<usize>,
        is_at_once: bool,
    ) -> Result<bool, DataError> {
        let error = self.corrupt(self.feed.position().saturating_add(at as u64), what);
        match next {
            Some(length) => {
                if self.is_wanted() {
                    if !self.reading.skip_corrupt {
                        return if is_at_once { Err(error) } else { self.keep_back(error) };
                    }
                    self.skipped.push(error.to_string());
                }
                self.feed.consume(length);
                Ok(true)
            }
            None if is_at_once => Err(error),
            None => self.keep_back(error),
        }
    }

    /// Keeps an error for the next time; nothing is read behind it.
    fn keep_back(&mut self, error: DataError) -> Result<bool, DataError> {
        self.lost(error).or_else(|error| {
            self.broken = Some(error);
            Ok(())
        })?;
        Ok(false)
    }

    /// Nothing behind this can be read: an error, or passed over with the rest of the part.
    fn lost(&mut self, error: DataError) -> Result<(), DataError> {
        if !self.reading.skip_corrupt || !matches!(error, DataError::Corrupt { .. }) {
            return Err(error);
        }
        if self.part.take > 0 {
            self.skipped.push(format!("{error}; with what follows it in this part of the file"));
        }
        self.part.take = 0;
        Ok(())
    }

    /// The columns of records; of those that say what does not fit, none or an error.
    fn read(&mut self, frames: &Frames) -> Result<RecordBatch, DataError> {
        let schema = &self.reading.schema;
        if let [record] = frames.contents.as_slice()
            && self.is_left_alone(record.len())
        {
            let left = form::in_place(record, schema);
            return left.map_err(DataError::internal);
        }
        if let Ok(records) = self.form.read(&frames.contents, schema) {
            return Ok(records);
        }
        let mut good = Vec::with_capacity(frames.contents.len());
        for (content, (offset, row)) in frames.contents.iter().zip(&frames.places) {
            match self.form.read(std::slice::from_ref(content), schema) {
                Ok(record) => good.push(record),
                Err(what) => {
                    let error = self.corrupt(*offset, &format!("row {row}: {what}"));
                    if !self.reading.skip_corrupt {
                        return Err(error);
                    }
                    self.skipped.push(error.to_string());
                }
            }
        }
        let joined = concat_batches(schema, &good);
        joined.map_err(|error| DataError::internal(error.to_string()))
    }
}
