//! JSON objects, one a line.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Fields, Schema, SchemaRef};
use arrow::json::ReaderBuilder;
use arrow::json::reader::infer_json_schema_from_iterator;
use arrow::record_batch::RecordBatch;
use bytes::Bytes;
use serde_json::Value;

use super::json_exact;

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
        let kept = records.iter().try_for_each(|record| json_exact::check(record, schema));
        return kept.map(|()| found);
    }
    Err(format!("{} values were found in {} lines", found.num_rows(), records.len()))
}

/// What the columns are, by some records. How often one is missing says nothing of others.
pub(in super::super) fn guess(sample: &[Bytes]) -> Result<SchemaRef, (usize, String)> {
    let mut values = Vec::new();
    for (place, record) in sample.iter().enumerate() {
        let value = serde_json::from_slice::<Value>(record);
        let value = value.map_err(|error| (place, format!("it is no JSON: {error}")))?;
        if !value.is_object() {
            return Err((place, "it is no JSON object".to_owned()));
        }
        values.push(value);
    }
    let schema = infer_json_schema_from_iterator(values.iter().map(Ok));
    let schema = schema.map_err(|error| (0, error.to_string()))?;
    let values: Vec<&Value> = values.iter().collect();
    Ok(Arc::new(Schema::new(refined(schema.fields(), &values))))
}

/// The same columns, of unsigned integers where all numbers are and some are too large for signed ones.
fn refined(fields: &Fields, objects: &[&Value]) -> Fields {
    let field = |field: &Arc<Field>| {
        let values: Vec<&Value> =
            objects.iter().filter_map(|object| object.get(field.name())).collect();
        let kind = refined_kind(field.data_type(), &values);
        Arc::new(field.as_ref().clone().with_data_type(kind))
    };
    fields.iter().map(field).collect()
}

fn refined_kind(kind: &DataType, values: &[&Value]) -> DataType {
    let items =
        || -> Vec<&Value> { values.iter().filter_map(|it| it.as_array()).flatten().collect() };
    match kind {
        DataType::Float64 if values.iter().all(|it| it.is_null() || it.is_u64()) => {
            DataType::UInt64
        }
        DataType::Struct(fields) => DataType::Struct(refined(fields, values)),
        DataType::List(item) => {
            let kind = refined_kind(item.data_type(), &items());
            DataType::List(Arc::new(item.as_ref().clone().with_data_type(kind)))
        }
        other => other.clone(),
    }
}
