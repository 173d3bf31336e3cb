//! Registering datasets and asking for what is registered, as a client does.

use bytes::Bytes;
use prost::Message;
use rondo_core::dispatcher::Compression;
use rondo_core::ids::DatasetId;
use rondo_core::status::Status;

use super::malformed::{answer, malformed, name};
use crate::admin;
use crate::convert::{Method, VERSION_TO_READ_PATH};
use crate::tf::data as wire;
use wire::data_service_metadata::Compression as WireCompression;

/// What is registered of a dataset's elements (`DataServiceMetadata`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegisteredMetadata {
    /// The serialized `StructuredValue`; empty when it was not given.
    pub element_spec: Bytes,
    /// How elements travel.
    pub compression: Compression,
    /// Elements: -1 infinite, -2 unknown.
    pub cardinality: i64,
}

/// Encodes `DataServiceMetadata`.
pub fn encode_metadata(metadata: &RegisteredMetadata) -> Bytes {
    let compression = match metadata.compression {
        Compression::Unspecified => WireCompression::Unspecified,
        Compression::Off => WireCompression::Off,
        Compression::Snappy => WireCompression::Snappy,
        Compression::ForcedSnappy => WireCompression::ForcedSnappy,
    };
    let message = wire::DataServiceMetadata {
        element_spec: Some(metadata.element_spec.clone()),
        compression: compression.into(),
        cardinality: metadata.cardinality,
    };
    message.encode_to_vec().into()
}

/// The path and the message that register a definition, a serialized `DatasetDef`, under an id of
/// one's own or of the dispatcher's choice. `replaces` lets it replace another dataset of this id.
pub fn encode_register(
    id: Option<&str>,
    definition: Bytes,
    metadata: Bytes,
    replaces: bool,
) -> (&'static str, Bytes) {
    let request = wire::GetOrRegisterDatasetRequest {
        dataset: Some(definition),
        metadata: Some(metadata),
        dataset_id: id.map(str::to_owned),
        replaces,
    };
    (Method::GetOrRegisterDataset.path(), request.encode_to_vec().into())
}

/// Decodes `GetOrRegisterDatasetResponse`: the dataset's id.
///
/// # Errors
/// INTERNAL for bytes that are no such answer.
pub fn decode_registered(bytes: &Bytes) -> Result<DatasetId, Status> {
    const NAME: &str = "GetOrRegisterDatasetResponse";
    let told: wire::GetOrRegisterDatasetResponse = answer(NAME, bytes)?;
    name(NAME, "dataset_id", told.dataset_id).map(DatasetId::new)
}

/// The path and the message that ask for a dataset's metadata.
pub fn encode_get_metadata(id: &str) -> (&'static str, Bytes) {
    let request = wire::GetDataServiceMetadataRequest { dataset_id: id.to_owned() };
    (Method::GetDataServiceMetadata.path(), request.encode_to_vec().into())
}

/// Decodes `GetDataServiceMetadataResponse`.
///
/// # Errors
/// INTERNAL for bytes that are no such answer.
pub fn decode_metadata_answer(bytes: &Bytes) -> Result<RegisteredMetadata, Status> {
    const NAME: &str = "GetDataServiceMetadataResponse";
    let told: wire::GetDataServiceMetadataResponse = answer(NAME, bytes)?;
    let metadata: wire::DataServiceMetadata =
        answer("DataServiceMetadata", &told.metadata.unwrap_or_default())?;
    let compression = match WireCompression::try_from(metadata.compression) {
        Ok(WireCompression::Unspecified) => Compression::Unspecified,
        Ok(WireCompression::Off) => Compression::Off,
        Ok(WireCompression::Snappy) => Compression::Snappy,
        Ok(WireCompression::ForcedSnappy) => Compression::ForcedSnappy,
        Err(_) => {
            let found = metadata.compression;
            return Err(malformed(NAME, format_args!("compression is {found}, not 0 to 3")));
        }
    };
    Ok(RegisteredMetadata {
        element_spec: metadata.element_spec.unwrap_or_default(),
        compression,
        cardinality: metadata.cardinality,
    })
}

/// The path and the message that ask for a dataset's definition.
pub fn encode_get_definition(id: &str) -> (&'static str, Bytes) {
    let request = wire::GetDatasetDefRequest { dataset_id: id.to_owned() };
    (Method::GetDatasetDef.path(), request.encode_to_vec().into())
}

/// Decodes `GetDatasetDefResponse`: a serialized `DatasetDef`.
///
/// # Errors
/// INTERNAL for bytes that are no such answer, and for one without a definition.
pub fn decode_definition_answer(bytes: &Bytes) -> Result<Bytes, Status> {
    const NAME: &str = "GetDatasetDefResponse";
    let told: wire::GetDatasetDefResponse = answer(NAME, bytes)?;
    told.dataset_def.ok_or_else(|| malformed(NAME, "it has no dataset_def"))
}

/// The path and the message that ask which version of a dataset a reader of a job, which is to begin at a
/// position, is to read.
pub fn encode_version_request(
    dataset: &str,
    job: Option<&str>,
    position: Option<&str>,
) -> (&'static str, Bytes) {
    let (dataset_id, job_name) = (dataset.to_owned(), job.map(str::to_owned));
    let position_name = position.map(str::to_owned);
    let request = admin::GetVersionToReadRequest { dataset_id, job_name, position_name };
    (VERSION_TO_READ_PATH, request.encode_to_vec().into())
}

/// Decodes `GetVersionToReadResponse`: the id of the version.
///
/// # Errors
/// INTERNAL for bytes that are no such answer.
pub fn decode_version_answer(bytes: &Bytes) -> Result<DatasetId, Status> {
    const NAME: &str = "GetVersionToReadResponse";
    let told: admin::GetVersionToReadResponse = answer(NAME, bytes)?;
    name(NAME, "dataset_id", told.dataset_id).map(DatasetId::new)
}
