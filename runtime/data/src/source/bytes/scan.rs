//! What is found out about such files when a dataset is planned: how many records there are, where
//! pieces of them begin, and what their columns are.

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use bytes::Bytes;

use super::feed::{Feed, compression_of};
use super::form::{csv_names, guess_csv, guess_json, known_schema, tar_schema};
use super::framing::{Cut, Framing, extensions, fields, utf8};
use crate::error::DataError;
use crate::limits::COLUMNS_MAX;
use crate::manifest::Part;
use crate::pipeline::{Compression, Pipeline, Source};
use crate::schema::is_same;
use crate::source::{Piece, Scanned};
use crate::stores::StoredFile;

/// Records that are looked at to find out what their columns are.
const SAMPLE_RECORDS: usize = 1000;
/// Their bytes, about.
const SAMPLE_BYTES: usize = 4 << 20;

/// Walks through a file from one record to the next.
pub(crate) async fn scan(pipeline: &Pipeline, file: &StoredFile) -> Result<Scanned, DataError> {
    let source = &pipeline.source;
    let framing = Framing::of(source, false, true);
    let framing = framing.ok_or_else(|| DataError::internal("a source of another kind"))?;
    let compression = compression_of(source.compression(), &file.location);
    let feed = Feed::new(file.clone(), compression, 0, None)?;
    let mut scan = Scan {
        pipeline,
        feed,
        framing,
        is_packed: compression != Compression::None,
        names: Vec::new(),
        look: Look::default(),
        records: 0,
        pieces: Vec::new(),
        open: None,
    };
    scan.header().await?;
    scan.walk().await?;
    let schema = scan.schema()?;
    Ok(Scanned { schema, records: scan.records, pieces: scan.pieces })
}

/// A walk through a file.
struct Scan<'a> {
    pipeline: &'a Pipeline,
    feed: Feed,
    framing: Framing,
    is_packed: bool,
    /// What a header names.
    names: Vec<String>,
    look: Look,
    records: u64,
    pieces: Vec<Piece>,
    /// The number and the place of the first record of the piece that is open.
    open: Option<(u64, u64)>,
}

/// What was seen of the records.
#[derive(Default)]
struct Look {
    sample: Vec<Bytes>,
    /// Where each of them is.
    offsets: Vec<u64>,
    sample_bytes: usize,
    /// Extensions of samples: of any, and of each so far.
    extensions: BTreeSet<String>,
    in_each: Option<BTreeSet<String>>,
}

impl Scan<'_> {
    /// The next thing that is no lack of bytes.
    async fn cut(&mut self) -> Result<Cut, DataError> {
        loop {
            match self.framing.cut(self.feed.buffer(), self.feed.is_at_end()) {
                Cut::More { wanted } => self.feed.refill(wanted).await?,
                found => return Ok(found),
            }
        }
    }

    fn corrupt(&self, at: usize, what: &str) -> DataError {
        let offset = self.feed.position().saturating_add(at as u64);
        self.feed.file().corrupt_in(self.feed.unit(), offset, what)
    }

    async fn header(&mut self) -> Result<(), DataError> {
        let Source::Csv(csv) = &self.pipeline.source else {
            return Ok(());
        };
        let character = csv.delimiter;
        if !character.is_ascii() || matches!(character, '"' | '\n' | '\r') {
            let what =
                format!("the delimiter {character:?} is no single ASCII character that can be one");
            return Err(DataError::pipeline(what));
        }
        if !csv.header {
            return Ok(());
        }
        loop {
            match self.cut().await? {
                Cut::Record { length, .. } => {
                    let record = self.feed.buffer().slice(..length);
                    utf8(&record).map_err(|what| self.corrupt(0, &what))?;
                    self.names = fields(csv, &record);
                    csv_names(csv, &self.names).map_err(|what| self.corrupt(0, &what))?;
                    self.feed.consume(length);
                    return Ok(());
                }
                Cut::Pass { length } => self.feed.consume(length),
                _ => return Err(self.corrupt(0, "there is no header")),
            }
        }
    }

    async fn walk(&mut self) -> Result<(), DataError> {
        loop {
            let found = match self.cut().await {
                Err(error) if self.may_lose(&error) => return self.lose(),
                found => found?,
            };
            match found {
                Cut::Record { length, content } => {
                    self.see(&self.feed.buffer().slice(content))?;
                    self.step(length);
                }
                Cut::Pass { length } => self.feed.consume(length),
                Cut::End => break,
                Cut::More { .. } => return Err(DataError::internal("a record that does not end")),
                Cut::Corrupt { at, what, next } => match next {
                    Some(length) => self.step(length),
                    None => {
                        let error = self.corrupt(at, &what);
                        return if self.may_lose(&error) { self.lose() } else { Err(error) };
                    }
                },
            }
        }
        self.close();
        Ok(())
    }

    fn may_lose(&self, error: &DataError) -> bool {
        self.pipeline.skip_corrupt && matches!(error, DataError::Corrupt { .. })
    }

    /// What follows cannot be read. It counts as one record, so that whoever reads it finds out.
    fn lose(&mut self) -> Result<(), DataError> {
        self.close();
        let (first, offset) = (self.records, self.feed.position());
        // Nobody knows how long a compressed file is without its compression.
        let end = if self.is_packed { u64::MAX } else { self.feed.file().size };
        let length = end.saturating_sub(offset).max(1);
        let part = Part { file: 0, first, records: 1, offset, length, skip: 0, take: 1 };
        self.pieces.push(Piece { part, bytes: 0 });
        self.records = self.records.saturating_add(1);
        Ok(())
    }

    /// Goes on behind a record of so many bytes.
    fn step(&mut self, length: usize) {
        let at = self.feed.position();
        let (first, from) = *self.open.get_or_insert((self.records, at));
        self.records = self.records.saturating_add(1);
        self.feed.consume(length);
        let bytes = self.feed.position().saturating_sub(from);
        let records = self.records.saturating_sub(first);
        let is_full = bytes >= self.pipeline.bytes_per_split()
            || records >= self.pipeline.records_per_split();
        // A compressed file can only be read from its beginning: it is one piece.
        if is_full && !self.is_packed {
            self.close();
        }
    }

    fn close(&mut self) {
        let Some((first, offset)) = self.open.take() else {
            return;
        };
        let length = self.feed.position().saturating_sub(offset);
        let records = self.records.saturating_sub(first);
        let part = Part { file: 0, first, records, offset, length, skip: 0, take: records };
        self.pieces.push(Piece { part, bytes: length });
    }

    /// Looks at a record for what its columns are.
    fn see(&mut self, content: &Bytes) -> Result<(), DataError> {
        if matches!(self.pipeline.source, Source::Webdataset(_)) {
            let found = extensions(content).map_err(|what| self.corrupt(0, &what))?;
            self.look.in_each = Some(match self.look.in_each.take() {
                None => found.clone(),
                Some(in_each) => in_each.intersection(&found).cloned().collect(),
            });
            self.look.extensions.extend(found);
            let (found, bound) = (self.look.extensions.len() as u64, COLUMNS_MAX as u64);
            if found > bound {
                let what = format!("{}: extensions in its samples", self.feed.file().location);
                return Err(DataError::Bound { what, found, bound, setting: "COLUMNS_MAX" });
            }
            return Ok(());
        }
        let look = &mut self.look;
        if look.sample.len() < SAMPLE_RECORDS && look.sample_bytes < SAMPLE_BYTES {
            look.sample_bytes = look.sample_bytes.saturating_add(content.len());
            look.sample.push(content.clone());
            look.offsets.push(self.feed.position());
        }
        Ok(())
    }

    fn schema(&self) -> Result<SchemaRef, DataError> {
        if let Some(schema) = known_schema(&self.pipeline.source)? {
            return Ok(schema);
        }
        let (look, file) = (&self.look, self.feed.file());
        match &self.pipeline.source {
            Source::Csv(csv) => guess_csv(csv, &self.names, &look.sample)
                .map_err(|what| file.corrupt_in(self.feed.unit(), 0, what))
                .and_then(|schema| crate::schema::plain(&schema)),
            Source::JsonLines(_) => guess_json(&look.sample).map_err(|(place, what)| {
                let offset = look.offsets.get(place).copied().unwrap_or(0);
                file.corrupt_in(self.feed.unit(), offset, format!("row {place}: {what}"))
            }),
            Source::Webdataset(_) => {
                let in_each = look.in_each.clone().unwrap_or_default();
                Ok(tar_schema(&look.extensions, &in_each))
            }
            _ => Err(DataError::internal("a source without columns")),
        }
    }
}

/// Columns that were guessed in two files: numbers of both kinds are floating-point numbers, and
/// columns of JSON, or extensions, that only one of them has may be null.
pub(crate) fn widened(
    source: &Source,
    first: &SchemaRef,
    other: &SchemaRef,
) -> Result<SchemaRef, String> {
    if matches!(source, Source::Csv(_)) {
        let names = |schema: &SchemaRef| -> Vec<String> {
            schema.fields().iter().map(|field| field.name().clone()).collect()
        };
        if names(first) != names(other) {
            return Err(format!("{:?} instead of {:?}", names(other), names(first)));
        }
    }
    let mut fields: Vec<Arc<Field>> = Vec::new();
    for field in first.fields() {
        fields.push(match other.field_with_name(field.name()) {
            Ok(other) => Arc::new(wider(field, other)?),
            Err(_) => Arc::new(field.as_ref().clone().with_nullable(true)),
        });
    }
    for field in other.fields() {
        if first.field_with_name(field.name()).is_err() {
            fields.push(Arc::new(field.as_ref().clone().with_nullable(true)));
        }
    }
    Ok(Arc::new(Schema::new(fields)))
}

fn wider(one: &Field, other: &Field) -> Result<Field, String> {
    let nullable = one.is_nullable() || other.is_nullable();
    let (kind, found) = (one.data_type(), other.data_type());
    let kind = match (kind, found) {
        _ if is_same(kind, found) => kind.clone(),
        (DataType::Null, found) => found.clone(),
        (kind, DataType::Null) => kind.clone(),
        (DataType::Int64 | DataType::UInt64, DataType::Float64)
        | (DataType::Float64, DataType::Int64 | DataType::UInt64) => DataType::Float64,
        (DataType::Int64, DataType::UInt64) | (DataType::UInt64, DataType::Int64) => {
            DataType::UInt64
        }
        _ => return Err(format!("{:?} is of type {found}, there of type {kind}", one.name())),
    };
    Ok(Field::new(one.name(), kind, nullable))
}
