//! What the bytes of records say, as columns.

mod csv;
mod example;
mod guess;
mod json;
mod json_exact;
mod tar;

use std::sync::Arc;

use arrow::array::{ArrayRef, BinaryArray, BinaryBuilder, StringBuilder};
use arrow::buffer::{Buffer, OffsetBuffer, ScalarBuffer};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use arrow::record_batch::RecordBatch;
use bytes::Bytes;

use crate::error::DataError;
use crate::guard::guarded;
use crate::operation::arrow_type;
use crate::pipeline::{Column, CsvSource, Source};

pub(super) use csv::{guess as guess_csv, named as csv_names};
pub(super) use json::guess as guess_json;
pub(super) use tar::schema as tar_schema;

/// How the bytes of records become columns.
pub(super) enum Form {
    Text,
    Csv(CsvSource),
    /// Whether columns that the schema does not have are errors.
    JsonLines {
        is_strict: bool,
    },
    Bytes,
    Example(Vec<Column>),
    Tar,
}

impl Form {
    pub(super) fn of(source: &Source) -> Option<Self> {
        match source {
            Source::Text(_) => Some(Self::Text),
            Source::Csv(csv) => Some(Self::Csv(csv.clone())),
            Source::JsonLines(json) => Some(Self::JsonLines { is_strict: json.columns.is_empty() }),
            Source::Tfrecord(it) if it.example.is_empty() => Some(Self::Bytes),
            Source::Tfrecord(it) => Some(Self::Example(it.example.clone())),
            Source::Webdataset(_) => Some(Self::Tar),
            Source::Range(_) | Source::Parquet(_) | Source::Arrow(_) => None,
        }
    }

    /// The columns of records.
    ///
    /// # Errors
    /// What does not fit, without saying which of the records.
    pub(super) fn read(
        &self,
        records: &[Bytes],
        schema: &SchemaRef,
    ) -> Result<RecordBatch, String> {
        match self {
            Self::Text => {
                let lines = records.iter().map(|it| std::str::from_utf8(it));
                let lines = lines.collect::<Result<Vec<&str>, _>>();
                let lines = lines.map_err(|error| format!("the line is no UTF-8: {error}"))?;
                let bytes = lines.iter().map(|line| line.len()).sum();
                let mut column = StringBuilder::with_capacity(lines.len(), bytes);
                lines.iter().for_each(|line| column.append_value(line));
                one(schema, Arc::new(column.finish()))
            }
            Self::Bytes => {
                let bytes = records.iter().map(Bytes::len).sum();
                let mut column = BinaryBuilder::with_capacity(records.len(), bytes);
                records.iter().for_each(|record| column.append_value(record));
                one(schema, Arc::new(column.finish()))
            }
            Self::Csv(csv) => guarded(|| csv::read(csv, records, schema)),
            Self::JsonLines { is_strict } => guarded(|| json::read(records, schema, *is_strict)),
            Self::Example(columns) => example::read(columns, records, schema),
            Self::Tar => guarded(|| tar::read(records, schema)),
        }
    }
}

/// The column of a single record of [`Form::Bytes`], which is the record's own memory.
pub(super) fn in_place(record: &Bytes, schema: &SchemaRef) -> Result<RecordBatch, String> {
    let end = i32::try_from(record.len());
    let end = end.map_err(|_| format!("a record of {} bytes, over 2 GiB", record.len()))?;
    let offsets = OffsetBuffer::new(ScalarBuffer::from(vec![0, end]));
    let column = BinaryArray::try_new(offsets, Buffer::from(record.clone()), None);
    one(schema, Arc::new(column.map_err(|error| error.to_string())?))
}

fn one(schema: &SchemaRef, column: ArrayRef) -> Result<RecordBatch, String> {
    RecordBatch::try_new(schema.clone(), vec![column]).map_err(|error| error.to_string())
}

/// The schema of sources whose columns are known without a look into files.
pub(super) fn known_schema(source: &Source) -> Result<Option<SchemaRef>, DataError> {
    let single = |name: &str, kind| Schema::new(vec![Field::new(name, kind, false)]);
    let schema = match source {
        Source::Text(_) => single("line", DataType::Utf8),
        Source::Tfrecord(it) if it.example.is_empty() => single("record", DataType::Binary),
        Source::Tfrecord(it) => {
            it.example.iter().try_for_each(example::check)?;
            told(&it.example)?
        }
        Source::Csv(csv) if !csv.columns.is_empty() => {
            csv.columns.iter().try_for_each(csv::check)?;
            told(&csv.columns)?
        }
        Source::JsonLines(json) if !json.columns.is_empty() => told(&json.columns)?,
        _ => return Ok(None),
    };
    Ok(Some(Arc::new(schema)))
}

/// The columns that the pipeline names.
fn told(columns: &[Column]) -> Result<Schema, DataError> {
    let field = |column: &Column| {
        let mut kind = arrow_type(column.kind);
        for size in column.shape.iter().rev() {
            let size = i32::try_from(*size).map_err(|_| {
                DataError::column(&column.name, format!("its shape has the size {size}"))
            })?;
            kind = DataType::FixedSizeList(Arc::new(Field::new("item", kind, false)), size);
        }
        if column.list {
            kind = DataType::List(Arc::new(Field::new("item", kind, false)));
        }
        Ok(Field::new(&column.name, kind, true))
    };
    let fields = columns.iter().map(field).collect::<Result<Vec<_>, DataError>>()?;
    crate::schema::plain(&Schema::new(fields)).map(|schema| schema.as_ref().clone())
}
