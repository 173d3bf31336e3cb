//! Datasets of Rondo's own, registered as `rondo dataset register` does.

use rondo_data::{Pipeline, Stores, plan};
use rondo_proto::element::encode_spec;
use rondo_proto::tf::data::DataServiceMetadata;
use rondo_proto::tf::data::data_service_metadata::Compression;

use crate::dispatcher::Dispatcher;

/// Registers what the pipeline yields under this id.
///
/// # Panics
/// When the pipeline cannot be planned, or the dispatcher refuses it.
pub fn register(
    dispatcher: &Dispatcher,
    id: &str,
    pipeline: &Pipeline,
    compression: Compression,
) -> String {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.expect("a runtime");
    let dataset = runtime.block_on(plan(pipeline, &Stores::from_env())).expect("a plan");
    let spec = dataset.element_spec().expect("tensors");
    let metadata = DataServiceMetadata {
        element_spec: Some(encode_spec(&spec)),
        compression: compression.into(),
        cardinality: dataset.cardinality(),
    };
    let definition = dataset.to_definition().expect("a definition");
    dispatcher.register(Some(id), definition, &metadata).expect("registered")
}
