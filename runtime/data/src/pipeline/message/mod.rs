//! Pipelines as `rondo.v1.Pipeline`.

mod condition;
mod operation;
mod source;

use bytes::Bytes;
use prost::Message;
use rondo_proto::admin as wire;

use super::{PIPELINE_VERSION, Pipeline};
use crate::error::DataError;

/// A message says something that no pipeline says.
pub(super) fn odd(what: &str) -> DataError {
    DataError::pipeline(format!("its bytes have {what}"))
}

/// What must be there.
pub(super) fn needed<T>(found: Option<T>, what: &str) -> Result<T, DataError> {
    found.ok_or_else(|| odd(&format!("no {what}, or one of a kind that this Rondo does not know")))
}

impl Pipeline {
    /// The pipeline as bytes of `rondo.v1.Pipeline`.
    pub fn to_bytes(&self) -> Bytes {
        let message = wire::Pipeline {
            version: self.version,
            source: Some(source::to_wire(&self.source)),
            operations: self.operations.iter().map(operation::to_wire).collect(),
            skip_corrupt: self.skip_corrupt,
            split_records: self.split_records,
            split_bytes: self.split_bytes,
        };
        message.encode_to_vec().into()
    }

    /// Reads a pipeline from bytes of `rondo.v1.Pipeline`.
    ///
    /// # Errors
    /// When they are not those of a pipeline, or of a newer version's.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, DataError> {
        let message = wire::Pipeline::decode(bytes).map_err(|error| odd(&error.to_string()))?;
        let (found, known) = (message.version, PIPELINE_VERSION);
        if found > known {
            return Err(DataError::Newer { what: "pipeline", found: found.into(), known });
        }
        let operations = message.operations.into_iter().map(operation::from_wire);
        Ok(Self {
            version: message.version,
            source: source::from_wire(needed(message.source, "source")?)?,
            operations: operations.collect::<Result<_, _>>()?,
            skip_corrupt: message.skip_corrupt,
            split_records: message.split_records,
            split_bytes: message.split_bytes,
        })
    }
}
