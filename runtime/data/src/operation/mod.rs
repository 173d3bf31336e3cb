//! What is done to records.

mod cast;
mod fill;
mod filter;
mod map;
mod value;

use arrow::datatypes::SchemaRef;
use arrow::record_batch::RecordBatch;

use crate::error::DataError;
use crate::pipeline::Operation;
use crate::schema::names;
use crate::steps::Steps;
pub(crate) use value::arrow_type;

/// What is left of records after an operation on each of them.
pub(crate) fn apply(operation: &Operation, records: RecordBatch) -> Result<RecordBatch, DataError> {
    match operation {
        Operation::Select(columns) => select(columns, &records),
        Operation::Filter(condition) => filter::apply(condition, &records),
        Operation::Map(map) => map::apply(map, &records),
        Operation::FillNull(fill) => fill::apply(fill, &records),
        _ => Ok(records),
    }
}

/// The columns after all operations.
pub(crate) fn schema_after(steps: &Steps, schema: &SchemaRef) -> Result<SchemaRef, DataError> {
    let all = steps.before.iter().chain(&steps.after).chain(&steps.tail);
    let none = RecordBatch::new_empty(schema.clone());
    let after = all.into_iter().try_fold(none, |records, operation| apply(operation, records))?;
    Ok(after.schema())
}

fn select(columns: &[String], records: &RecordBatch) -> Result<RecordBatch, DataError> {
    let places = columns.iter().map(|column| place("select", column, records));
    let places = places.collect::<Result<Vec<usize>, _>>()?;
    let selected = records.project(&places);
    let selected = selected.map_err(|error| DataError::internal(error.to_string()))?;
    match columns.iter().enumerate().find(|(at, it)| columns.iter().take(*at).any(|x| x == *it)) {
        Some((_, twice)) => Err(DataError::column(twice, "select names it twice")),
        None => Ok(selected),
    }
}

/// Where a column stands that an operation names.
fn place(operation: &'static str, column: &str, records: &RecordBatch) -> Result<usize, DataError> {
    records.schema_ref().index_of(column).map_err(|_| DataError::NoColumn {
        operation,
        column: column.to_owned(),
        there: names(records.schema_ref()),
    })
}
