//! JSON objects, one a line.

use std::sync::Arc;

use arrow::datatypes::{Schema, SchemaRef};
use arrow::json::ReaderBuilder;
use arrow::json::reader::infer_json_schema_from_iterator;
use arrow::record_batch::RecordBatch;
use bytes::Bytes;

pub(super) fn read(
    records: &[Bytes],
    schema: &SchemaRef,
    is_strict: bool,
) -> Result<RecordBatch, String> {
    let builder = ReaderBuilder::new(schema.clone()).with_batch_size(records.len().max(1));
    let decoder = builder.with_strict_mode(is_strict).build_decoder();
    let mut decoder = decoder.map_err(|error| error.to_string())?;
    for record in records {
        let value = record.trim_ascii();
        let read = decoder.decode(value).map_err(|error| error.to_string())?;
        if read < value.len() {
            return Err("a line has more than one value".to_owned());
        }
        if decoder.has_partial_record() {
            return Err("a line ends within a value".to_owned());
        }
    }
    let found = decoder.flush().map_err(|error| error.to_string())?;
    let found = found.unwrap_or_else(|| RecordBatch::new_empty(schema.clone()));
    if found.num_rows() == records.len() {
        return Ok(found);
    }
    Err(format!("{} values were found in {} lines", found.num_rows(), records.len()))
}

/// What the columns are, by some records. How often one is missing says nothing of others.
pub(in super::super) fn guess(sample: &[Bytes]) -> Result<SchemaRef, (usize, String)> {
    let mut values = Vec::new();
    for (place, record) in sample.iter().enumerate() {
        let value = serde_json::from_slice::<serde_json::Value>(record);
        let value = value.map_err(|error| (place, format!("it is no JSON: {error}")))?;
        if !value.is_object() {
            return Err((place, "it is no JSON object".to_owned()));
        }
        values.push(Ok::<_, arrow::error::ArrowError>(value));
    }
    let schema = infer_json_schema_from_iterator(values.into_iter());
    let schema = schema.map_err(|error| (0, error.to_string()))?;
    Ok(Arc::new(Schema::new(schema.fields().clone())))
}
