//! A value where a column has none.

use std::sync::Arc;

use arrow::array::{Array, Scalar};
use arrow::compute::is_null;
use arrow::compute::kernels::zip::zip;
use arrow::datatypes::{Field, Schema};
use arrow::error::ArrowError;
use arrow::record_batch::RecordBatch;

use super::place;
use super::value::of_type;
use crate::error::DataError;
use crate::pipeline::FillNull;

pub(super) fn apply(fill: &FillNull, records: &RecordBatch) -> Result<RecordBatch, DataError> {
    let internal = |error: ArrowError| DataError::internal(error.to_string());
    let at = place("fill_null", &fill.column, records)?;
    let values = records.column(at);
    let value = of_type(&fill.column, &fill.value, values.data_type())?;
    let filled = if values.null_count() == 0 {
        values.clone()
    } else {
        let missing = is_null(values).map_err(internal)?;
        zip(&missing, &Scalar::new(value), values).map_err(internal)?
    };
    with_column(records, at, Field::new(&fill.column, filled.data_type().clone(), false), filled)
}

/// The records with another column in place of one, or behind all if there is none in that place.
pub(super) fn with_column(
    records: &RecordBatch,
    at: usize,
    field: Field,
    values: arrow::array::ArrayRef,
) -> Result<RecordBatch, DataError> {
    let mut fields = records.schema_ref().fields().to_vec();
    let mut columns = records.columns().to_vec();
    match (fields.get_mut(at), columns.get_mut(at)) {
        (Some(old), Some(column)) => {
            *old = Arc::new(field);
            *column = values;
        }
        (_, _) => {
            fields.push(Arc::new(field));
            columns.push(values);
        }
    }
    let schema = Arc::new(Schema::new(fields));
    RecordBatch::try_new(schema, columns).map_err(|error| DataError::internal(error.to_string()))
}
