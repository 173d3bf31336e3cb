//! Datasets of Rondo's own within the definitions that a dispatcher of the tf.data service keeps.
//!
//! Such a definition is a `tensorflow.data.DatasetDef` whose graph has one node, of op
//! `RondoDataset`, with a `rondo.v1.Dataset` in its attribute `dataset`. Any dispatcher keeps it;
//! Rondo's also reads how it is split.

use bytes::Bytes;
use prost::Message as _;
use rondo_core::dispatcher::{SplitPlan, SplitSource};
use rondo_core::status::{Code, Status};

use crate::admin as wire;
use crate::graph::GraphError;
use crate::graph::fields::{attr_value, dataset_def, graph, map, node};
use crate::graph::wire::{Message, chunk_header};

/// The newest `rondo.v1.Dataset` that is understood.
pub const DATASET_VERSION: u32 = 1;
/// Longest reason for which a dataset cannot be split, in bytes: it is told in a header.
pub const UNSPLITTABLE_BYTES_MAX: usize = 2048;

const OP: &[u8] = b"RondoDataset";
/// The node's name and the attribute's.
const NAME: &[u8] = b"dataset";

/// A serialized `DatasetDef` that holds the dataset.
pub fn encode_definition(dataset: &wire::Dataset) -> Bytes {
    let value = chunk(attr_value::S, &dataset.encode_to_vec());
    let entry = [chunk(map::KEY, NAME), chunk(map::VALUE, &value)].concat();
    let node = [chunk(node::NAME, NAME), chunk(node::OP, OP), chunk(node::ATTR, &entry)].concat();
    chunk(dataset_def::GRAPH, &chunk(graph::NODE, &node)).into()
}

fn chunk(number: u64, bytes: &[u8]) -> Vec<u8> {
    [&chunk_header(number, bytes.len()), bytes].concat()
}

/// The dataset in a serialized `DatasetDef`; `None` if it is a graph of TensorFlow's. Shares its
/// bytes with the definition.
///
/// # Errors
/// INVALID_ARGUMENT if the bytes are no definition, or the dataset in it is of a version that is
/// not known, or not as it should be.
pub fn decode_definition(definition: &Bytes) -> Result<Option<wire::Dataset>, Status> {
    Ok(read(definition)?)
}

/// As [`decode_definition`].
pub(crate) fn read(definition: &Bytes) -> Result<Option<wire::Dataset>, GraphError> {
    let Some(node) = only_node(definition)? else {
        return Ok(None);
    };
    let missing = || malformed("the node has no attribute `dataset` that is a string");
    let encoded = attribute(node)?.ok_or_else(missing)?;
    let encoded = definition.slice_ref(encoded.bytes);
    let dataset = wire::Dataset::decode(encoded)
        .map_err(|error| malformed(format!("it is no rondo.v1.Dataset: {error}")))?;
    check(&dataset)?;
    Ok(Some(dataset))
}

/// The node of a graph that is a dataset of ours: its first one says so.
fn only_node(definition: &[u8]) -> Result<Option<Message<'_>>, GraphError> {
    let mut found = None;
    for graph in Message::root(definition, "DatasetDef").chunks(dataset_def::GRAPH) {
        for node in graph?.chunks(graph::NODE) {
            let node = node?;
            if found.is_some() {
                return Err(malformed("the graph has other nodes besides"));
            }
            if node.last_chunk(node::OP)?.is_none_or(|op| op.bytes != OP) {
                return Ok(None);
            }
            found = Some(node);
        }
    }
    Ok(found)
}

fn attribute(node: Message<'_>) -> Result<Option<Message<'_>>, GraphError> {
    let mut found = None;
    for entry in node.chunks(node::ATTR) {
        let entry = entry?;
        if entry.last_chunk(map::KEY)?.is_some_and(|key| key.bytes == NAME) {
            found = match entry.last_chunk(map::VALUE)? {
                Some(value) => value.last_chunk(attr_value::S)?,
                None => None,
            };
        }
    }
    Ok(found)
}

fn check(dataset: &wire::Dataset) -> Result<(), GraphError> {
    if !(1..=DATASET_VERSION).contains(&dataset.version) {
        return Err(GraphError::DatasetVersion { version: dataset.version });
    }
    let length = dataset.unsplittable.len();
    if length > UNSPLITTABLE_BYTES_MAX {
        return Err(malformed(format!(
            "Dataset.unsplittable is {length} bytes long; at most {UNSPLITTABLE_BYTES_MAX} are allowed"
        )));
    }
    if i64::try_from(dataset.splits).is_err() {
        let most = i64::MAX;
        let text = format!("Dataset.splits is {}; at most {most} are allowed", dataset.splits);
        return Err(malformed(text));
    }
    Ok(())
}

fn malformed(problem: impl Into<String>) -> GraphError {
    GraphError::Dataset { problem: problem.into() }
}

/// How a dataset is split: one source that counts the splits of all passes.
pub(crate) fn plan(dataset: &wire::Dataset) -> SplitPlan {
    if !dataset.unsplittable.is_empty() {
        let message = dataset.unsplittable.clone();
        return SplitPlan::Unsplittable { code: Code::FailedPrecondition, message };
    }
    let passes = if dataset.passes == 0 { u64::MAX } else { dataset.passes };
    let splits = dataset.splits.saturating_mul(passes);
    let splits = i64::try_from(splits).unwrap_or(i64::MAX);
    SplitPlan::Splittable(vec![SplitSource::counting(splits)])
}
