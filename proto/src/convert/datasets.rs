//! Registering datasets and asking for what is registered.

use bytes::Bytes;
use prost::Message;
use rondo_core::dispatcher::{
    Compression, DatasetMetadata, Definition, DeploymentMode, RegisterDataset, Request, SplitPlan,
};
use rondo_core::ids::{DatasetId, Digest};
use rondo_core::limits::{DATASET_METADATA_BYTES_MAX, DEFINITION_INLINE_BYTES_MAX, NAME_BYTES_MAX};
use rondo_core::status::Status;

use super::check::{field, long_message, message};
use crate::dataset::decode_definition;
use crate::tf::data as wire;

/// Ids of versions are longer by `@` and 16 digits, and must be names too.
const REPLACED_ID_BYTES_MAX: usize = NAME_BYTES_MAX - 17;

/// `GetOrRegisterDatasetRequest`, checked, before its graph is read.
#[derive(Clone, Debug, PartialEq)]
pub struct Registration {
    /// The id the client wishes.
    pub wished: Option<DatasetId>,
    /// The `DatasetDef` as received.
    pub dataset_def: Bytes,
    /// Whether it replaces another dataset of this id.
    pub replaces: bool,
    /// What the client said of its elements.
    pub metadata: DatasetMetadata,
}

impl Registration {
    /// The request that answers the registration without its graph if the wished id is taken; `None` without
    /// a wish. Not for graphs of Rondo's own, whose definitions are compared.
    pub fn without_graph(&self) -> Option<Request> {
        let dataset = self.wished.clone()?;
        Some(Request::GetRegistered { dataset, metadata: self.metadata.clone() })
    }

    /// The core's request, once the graph is cleaned and read. If the definition is a blob, it
    /// must be durable before the core sees the request.
    pub fn with_graph(self, definition: Definition, plan: SplitPlan) -> RegisterDataset {
        let own = decode_definition(&self.dataset_def).is_ok_and(|own| own.is_some());
        let Self { wished, replaces, metadata, .. } = self;
        RegisterDataset { wished, definition, own, replaces, plan, metadata }
    }
}

/// Decodes `GetOrRegisterDatasetRequest`.
///
/// # Errors
/// INVALID_ARGUMENT with the field and its value.
pub fn decode_register(bytes: &Bytes) -> Result<Registration, Status> {
    const NAME: &str = "GetOrRegisterDatasetRequest";
    let request: wire::GetOrRegisterDatasetRequest = long_message(NAME, bytes)?;
    let wished = field(NAME, "dataset_id").name(request.dataset_id.unwrap_or_default())?;
    if request.replaces && wished.len() > REPLACED_ID_BYTES_MAX {
        let right = format!("one that is replaced has {REPLACED_ID_BYTES_MAX} bytes at most");
        return Err(field(NAME, "dataset_id").refuse(format!("{} bytes", wished.len()), right));
    }
    let dataset_def = request
        .dataset
        .ok_or_else(|| field(NAME, "dataset").refuse("missing", "it must be a DatasetDef"))?;
    Ok(Registration {
        wished: (!wished.is_empty()).then(|| DatasetId::new(wished)),
        dataset_def,
        replaces: request.replaces,
        metadata: decode_metadata(request.metadata.unwrap_or_default())?,
    })
}

fn decode_metadata(encoded: Bytes) -> Result<DatasetMetadata, Status> {
    const NAME: &str = "DataServiceMetadata";
    let encoded = field("GetOrRegisterDatasetRequest", "metadata")
        .bytes(encoded, DATASET_METADATA_BYTES_MAX)?;
    let metadata: wire::DataServiceMetadata = message(NAME, &encoded)?;
    let compression = compression(metadata.compression).ok_or_else(|| {
        field(NAME, "compression").refuse(
            metadata.compression,
            "it must be 0 (unspecified), 1 (off), 2 (snappy) or 3 (forced snappy)",
        )
    })?;
    Ok(DatasetMetadata {
        structure: structure_digest(&metadata.element_spec.unwrap_or_default())?,
        compression,
        cardinality: metadata.cardinality,
        encoded,
    })
}

fn compression(number: i32) -> Option<Compression> {
    use wire::data_service_metadata::Compression as Wire;
    Some(match Wire::try_from(number).ok()? {
        Wire::Unspecified => Compression::Unspecified,
        Wire::Off => Compression::Off,
        Wire::Snappy => Compression::Snappy,
        Wire::ForcedSnappy => Compression::ForcedSnappy,
    })
}

fn structure_digest(element_spec: &[u8]) -> Result<Digest, Status> {
    crate::graph::structure_digest(element_spec).map_err(|error| {
        field("DataServiceMetadata", "element_spec")
            .refuse("unreadable", format_args!("it must be a StructuredValue: {error}"))
    })
}

/// The definition that a cleaned `DatasetDef` with this BLAKE3 digest is; up to
/// [`DEFINITION_INLINE_BYTES_MAX`] it holds the bytes, else the caller keeps them as a blob.
pub fn definition_of(digest: Digest, cleaned: &Bytes) -> Definition {
    let size_bytes = cleaned.len() as u64;
    Definition {
        digest,
        size_bytes,
        inline: (size_bytes <= DEFINITION_INLINE_BYTES_MAX).then(|| cleaned.clone()),
    }
}

/// Decodes `GetDataServiceMetadataRequest`.
pub(super) fn decode_get_metadata(bytes: &Bytes) -> Result<Request, Status> {
    const NAME: &str = "GetDataServiceMetadataRequest";
    let request: wire::GetDataServiceMetadataRequest = message(NAME, bytes)?;
    Ok(Request::GetMetadata { dataset: dataset_id(NAME, request.dataset_id)? })
}

/// Decodes `GetDataServiceConfigRequest`.
pub(super) fn decode_get_config(bytes: &Bytes) -> Result<Request, Status> {
    message::<wire::GetDataServiceConfigRequest>("GetDataServiceConfigRequest", bytes)?;
    Ok(Request::GetConfig)
}

/// Decodes `GetDatasetDefRequest`.
pub(super) fn decode_get_definition(bytes: &Bytes) -> Result<Request, Status> {
    const NAME: &str = "GetDatasetDefRequest";
    let request: wire::GetDatasetDefRequest = message(NAME, bytes)?;
    Ok(Request::GetDefinition { dataset: dataset_id(NAME, request.dataset_id)? })
}

/// Decodes `DisableCompressionAtRuntimeRequest`.
pub(super) fn decode_disable_compression(bytes: &Bytes) -> Result<Request, Status> {
    const NAME: &str = "DisableCompressionAtRuntimeRequest";
    let request: wire::DisableCompressionAtRuntimeRequest = message(NAME, bytes)?;
    Ok(Request::DisableCompression {
        dataset: dataset_id(NAME, request.dataset_id)?,
        disable: request.disable_compression_at_runtime,
    })
}

/// The dataset a request names.
pub(super) fn dataset_id(message: &'static str, id: String) -> Result<DatasetId, Status> {
    field(message, "dataset_id").name(id).map(DatasetId::new)
}

/// Encodes `GetOrRegisterDatasetResponse`.
pub(super) fn encode_registered(id: &DatasetId) -> Bytes {
    let dataset_id = id.as_str().to_owned();
    wire::GetOrRegisterDatasetResponse { dataset_id }.encode_to_vec().into()
}

/// Encodes `GetDataServiceMetadataResponse`.
pub(super) fn encode_metadata(encoded: &Bytes) -> Bytes {
    let metadata = Some(encoded.clone());
    wire::GetDataServiceMetadataResponse { metadata }.encode_to_vec().into()
}

/// Encodes `GetDataServiceConfigResponse`.
pub(super) fn encode_config(mode: DeploymentMode) -> Bytes {
    let config = Some(wire::DataServiceConfig { deployment_mode: deployment_mode(mode).into() });
    wire::GetDataServiceConfigResponse { config }.encode_to_vec().into()
}

/// The deployment mode as it stands on the wire.
pub(super) const fn deployment_mode(mode: DeploymentMode) -> wire::DeploymentMode {
    match mode {
        DeploymentMode::Unspecified => wire::DeploymentMode::Unspecified,
        DeploymentMode::Colocated => wire::DeploymentMode::Colocated,
        DeploymentMode::Remote => wire::DeploymentMode::Remote,
        DeploymentMode::Hybrid => wire::DeploymentMode::Hybrid,
    }
}

/// Encodes `DisableCompressionAtRuntimeResponse`; `None` when there is none to switch off.
pub(super) fn encode_compression(disabled: Option<bool>) -> Bytes {
    use wire::disable_compression_at_runtime_response::Response;
    let response = Some(match disabled {
        Some(disabled) => Response::CompressionDisabledAtRuntime(disabled),
        None => Response::NoCompressionToDisable(true),
    });
    wire::DisableCompressionAtRuntimeResponse { response }.encode_to_vec().into()
}

/// Encodes `GetDatasetDefResponse` with the definition's bytes.
pub fn encode_definition(dataset_def: Bytes) -> Bytes {
    wire::GetDatasetDefResponse { dataset_def: Some(dataset_def) }.encode_to_vec().into()
}
