//! Records and schemas as Arrow IPC messages.

use std::sync::Arc;

use arrow::buffer::Buffer;
use arrow::datatypes::{Schema, SchemaRef};
use arrow::ipc::reader::StreamDecoder;
use arrow::ipc::writer::{StreamEncoder, StreamWriter};
use arrow::record_batch::RecordBatch;
use bytes::Bytes;

use crate::error::DataError;
use crate::guard::guarded;
use crate::size::own_bytes;

/// Records as they travel: an Arrow IPC stream with one batch.
///
/// # Errors
/// When a column is of a type that has no such form.
pub fn to_ipc(records: &RecordBatch) -> Result<Bytes, DataError> {
    let unfit = |error: arrow::error::ArrowError| DataError::internal(format!("IPC: {error}"));
    let room = usize::try_from(own_bytes(records)).unwrap_or(0).saturating_add(4096);
    let stream = Vec::with_capacity(room);
    let mut writer = StreamWriter::try_new(stream, records.schema_ref()).map_err(unfit)?;
    writer.write(records).map_err(unfit)?;
    writer.into_inner().map_err(unfit).map(Bytes::from)
}

/// The form of [`to_ipc`] in pieces: those of the columns' values are the values themselves, not
/// copied, as far as the records are not a part of others.
///
/// # Errors
/// As [`to_ipc`].
pub fn to_ipc_pieces(records: &RecordBatch) -> Result<Vec<Bytes>, DataError> {
    let unfit = |error: arrow::error::ArrowError| DataError::internal(format!("IPC: {error}"));
    let mut encoder = StreamEncoder::try_new(records.schema_ref()).map_err(unfit)?;
    let mut pieces = encoder.encode(records).map_err(unfit)?;
    pieces.extend(encoder.finish().map_err(unfit)?);
    Ok(pieces.into_iter().map(|piece| Bytes::from_owner(Values(piece))).collect())
}

/// Memory of a column.
struct Values(Buffer);

impl AsRef<[u8]> for Values {
    fn as_ref(&self) -> &[u8] {
        self.0.as_slice()
    }
}

/// Records from the form of [`to_ipc`]. Their values stay in these bytes where alignment allows it.
///
/// # Errors
/// When the bytes are no such stream.
pub fn from_ipc(bytes: &Bytes) -> Result<RecordBatch, DataError> {
    let wrong = |what: String| DataError::definition(format!("records are no IPC stream: {what}"));
    let mut decoder = StreamDecoder::new();
    let mut rest = Buffer::from(bytes.clone());
    let mut found: Option<RecordBatch> = None;
    while !rest.is_empty() {
        let next = guarded(|| decoder.decode(&mut rest)).map_err(&wrong)?;
        match (&found, next) {
            (Some(_), Some(_)) => return Err(wrong("it has several batches".to_owned())),
            (None, Some(batch)) => found = Some(batch),
            (_, None) => {}
        }
    }
    found.ok_or_else(|| wrong("it has no batch".to_owned()))
}

/// A schema as an Arrow IPC stream without batches.
pub(crate) fn schema_to_ipc(schema: &Schema) -> Result<Bytes, DataError> {
    let unfit = |error: arrow::error::ArrowError| DataError::internal(format!("IPC: {error}"));
    let mut writer = StreamWriter::try_new(Vec::new(), schema).map_err(unfit)?;
    writer.finish().map_err(unfit)?;
    writer.into_inner().map_err(unfit).map(Bytes::from)
}

/// A schema from the form of [`schema_to_ipc`].
pub(crate) fn schema_from_ipc(bytes: &Bytes) -> Result<SchemaRef, DataError> {
    let wrong = |what: String| DataError::definition(format!("its schema: {what}"));
    let (mut decoder, mut rest) = (StreamDecoder::new(), Buffer::from(bytes.clone()));
    while !rest.is_empty() && decoder.schema().is_none() {
        guarded(|| decoder.decode(&mut rest)).map_err(&wrong)?;
    }
    let schema = decoder.schema().ok_or_else(|| wrong("there is none".to_owned()))?;
    Ok(Arc::new(Schema::new(schema.fields().clone())))
}

#[cfg(test)]
mod tests {
    use arrow::array::{ArrayRef, BinaryArray, Int64Array};

    use super::*;

    fn records() -> RecordBatch {
        let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(0..100));
        let bytes: ArrayRef = Arc::new(BinaryArray::from_iter_values(
            (0..100_u8).map(|number| vec![number; usize::from(number)]),
        ));
        RecordBatch::try_from_iter([("numbers", numbers), ("bytes", bytes)]).unwrap()
    }

    #[test]
    fn records_come_back_even_when_they_are_a_part_of_others() {
        let whole = records();
        for (from, length) in [(0, 100), (13, 7), (99, 1), (5, 0)] {
            let part = whole.slice(from, length);
            assert_eq!(from_ipc(&to_ipc(&part).unwrap()).unwrap(), part, "{from} {length}");
            let pieces = Bytes::from(to_ipc_pieces(&part).unwrap().concat());
            assert_eq!(from_ipc(&pieces).unwrap(), part, "{from} {length}");
        }
    }

    #[test]
    fn what_is_no_stream_of_one_batch_is_refused() {
        let good = to_ipc(&records()).unwrap();
        let cut = good.slice(..good.len() / 2);
        for bytes in [Bytes::new(), Bytes::from_static(b"no records at all"), cut] {
            let refused = from_ipc(&bytes).unwrap_err().to_string();
            assert!(refused.contains("records are no IPC stream"), "{refused}");
        }
    }
}
