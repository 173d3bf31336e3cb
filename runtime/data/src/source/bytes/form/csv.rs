//! CSV records.

use std::sync::Arc;

use arrow::csv::ReaderBuilder;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use arrow::record_batch::RecordBatch;
use bytes::Bytes;

use super::super::framing::{BYTE_ORDER_MARK, fields, utf8};
use super::guess;
use crate::error::DataError;
use crate::exact;
use crate::pipeline::{Column, CsvSource};

pub(super) fn read(
    csv: &CsvSource,
    records: &[Bytes],
    schema: &SchemaRef,
) -> Result<RecordBatch, String> {
    let mut decoder = ReaderBuilder::new(schema.clone())
        .with_delimiter(delimiter(csv))
        .with_batch_size(records.len().max(1))
        .build_decoder();
    if records.first().is_some_and(|record| record.starts_with(BYTE_ORDER_MARK)) {
        // Behind an empty line it is a character like others.
        decoder.decode(b"\n").map_err(|error| why(&error))?;
    }
    for record in records {
        // The decoder looks at joined fields only, where halves of characters may meet.
        utf8(record)?;
        decoder.decode(record).map_err(|error| why(&error))?;
        // The last record of a file may lack the end of its line; a second end does no harm.
        decoder.decode(b"\n").map_err(|error| why(&error))?;
    }
    let found = decoder.flush().map_err(|error| why(&error))?;
    let found = found.unwrap_or_else(|| RecordBatch::new_empty(schema.clone()));
    if found.num_rows() == records.len() {
        return check_all(csv, records, schema).map(|()| found);
    }
    Err(format!("{} records were found where {} should be", found.num_rows(), records.len()))
}

/// Checks that the columns keep the values that the fields state.
fn check_all(csv: &CsvSource, records: &[Bytes], schema: &SchemaRef) -> Result<(), String> {
    let columns = schema.fields().iter().enumerate();
    let checked: Vec<_> = columns.filter(|(_, it)| exact::is_checked(it.data_type())).collect();
    if checked.is_empty() {
        return Ok(());
    }
    for record in records {
        let found = fields(csv, record);
        for (place, column) in &checked {
            let text = found.get(*place).map_or("", String::as_str);
            check_field(csv, text, column)?;
        }
    }
    Ok(())
}

fn check_field(csv: &CsvSource, text: &str, column: &Field) -> Result<(), String> {
    let (name, kind) = (column.name(), column.data_type());
    let is_guessed = csv.columns.is_empty() && kind.is_numeric();
    let kept = match guess::loss_of_text(text, kind).filter(|_| is_guessed) {
        Some(lost) => Err(format!("{text:?} does not fit the type {kind}: {lost}")),
        None => exact::check(text, kind),
    };
    kept.map_err(|what| {
        format!("column {name:?}: {what}; if its type is another one, give the source `columns`")
    })
}

/// The error without the line: the decoder counts lines from the place where the read began.
fn why(error: &arrow::error::ArrowError) -> String {
    let text = error.to_string();
    let text = text.strip_prefix("Csv error: ").or(text.strip_prefix("Parser error: "));
    let text = text.map_or_else(|| error.to_string(), ToOwned::to_owned);
    let end = [" at line ", " on line ", ". Row data", " for line "]
        .iter()
        .filter_map(|mark| text.find(mark))
        .min();
    let text = end.and_then(|end| text.get(..end)).unwrap_or(&text);
    format!("{text}; if its type is another one, give the source `columns`")
}

fn delimiter(csv: &CsvSource) -> u8 {
    u8::try_from(csv.delimiter).unwrap_or(b',')
}

/// Refuses a column of lists: a field holds a single value.
pub(super) fn check(column: &Column) -> Result<(), DataError> {
    if column.shape.is_empty() && !column.list {
        return Ok(());
    }
    Err(DataError::column(&column.name, "a field of CSV is a single value: no shape, no list"))
}

/// The columns, guessed from some records.
pub(in super::super) fn guess(
    csv: &CsvSource,
    names: &[String],
    sample: &[Bytes],
) -> Result<SchemaRef, String> {
    let rows: Vec<Vec<String>> = sample.iter().map(|record| fields(csv, record)).collect();
    let count = rows.iter().map(Vec::len).max().unwrap_or(0);
    if !names.is_empty() && count > names.len() {
        return Err(format!("a record has {count} fields, the header has {}", names.len()));
    }
    let kind = |place: usize| -> DataType {
        guess::kind_of(rows.iter().map(move |row| row.get(place).map_or("", String::as_str)))
    };
    let own: Vec<String> = (1..=count).map(|place| format!("column_{place}")).collect();
    let names = if names.is_empty() { &own } else { names };
    let field = |(place, name): (usize, &String)| Field::new(name, kind(place), true);
    let fields: Vec<Field> = names.iter().enumerate().map(field).collect();
    Ok(Arc::new(Schema::new(fields)))
}

/// Whether a header names the columns of the pipeline.
pub(in super::super) fn named(csv: &CsvSource, names: &[String]) -> Result<(), String> {
    let wanted: Vec<&str> = csv.columns.iter().map(|column| column.name.as_str()).collect();
    if wanted.is_empty() || wanted == names {
        return Ok(());
    }
    Err(format!("its header names {names:?}, the pipeline {wanted:?}"))
}
