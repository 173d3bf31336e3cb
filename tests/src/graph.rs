//! Small dataset graphs as TensorFlow writes them, encoded with field numbers of our own reading.

use bytes::Bytes;
use prost::Message;
use rondo_proto::tf::data::DataServiceMetadata;
use rondo_proto::tf::data::data_service_metadata::Compression;

const INT64: i32 = 9;

#[derive(Clone, PartialEq, Message)]
struct DatasetDef {
    #[prost(message, optional, tag = "1")]
    graph: Option<GraphDef>,
}

#[derive(Clone, PartialEq, Message)]
struct GraphDef {
    #[prost(message, repeated, tag = "1")]
    node: Vec<NodeDef>,
}

#[derive(Clone, PartialEq, Message)]
struct NodeDef {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "2")]
    op: String,
    #[prost(string, repeated, tag = "3")]
    input: Vec<String>,
    #[prost(btree_map = "string, message", tag = "5")]
    attr: std::collections::BTreeMap<String, AttrValue>,
}

#[derive(Clone, PartialEq, Message)]
struct AttrValue {
    #[prost(oneof = "Value", tags = "3, 6, 8")]
    value: Option<Value>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
enum Value {
    #[prost(int64, tag = "3")]
    Int(i64),
    #[prost(int32, tag = "6")]
    Type(i32),
    #[prost(message, tag = "8")]
    Tensor(Tensor),
}

#[derive(Clone, PartialEq, Message)]
struct Tensor {
    #[prost(int32, tag = "1")]
    dtype: i32,
    #[prost(message, optional, tag = "2")]
    shape: Option<Shape>,
    #[prost(bytes = "bytes", tag = "4")]
    content: Bytes,
    #[prost(int64, repeated, tag = "10")]
    int64_val: Vec<i64>,
}

#[derive(Clone, PartialEq, Message)]
struct Shape {
    #[prost(message, repeated, tag = "2")]
    dim: Vec<Dim>,
}

#[derive(Clone, PartialEq, Message)]
struct Dim {
    #[prost(int64, tag = "1")]
    size: i64,
}

/// `range(start, stop, step)`.
pub fn range(start: i64, stop: i64, step: i64) -> Bytes {
    let mut nodes = range_nodes("range", [start, stop, step]);
    nodes.push(result("range"));
    encode(nodes)
}

/// Two ranges from 0, zipped: two sources of splits.
pub fn zip(left: i64, right: i64) -> Bytes {
    let mut nodes = range_nodes("left", [0, left, 1]);
    nodes.extend(range_nodes("right", [0, right, 1]));
    let two = [("N".to_string(), AttrValue { value: Some(Value::Int(2)) })];
    nodes.push(NodeDef { attr: two.into(), ..node("zip", "ZipDataset", &["left:0", "right:0"]) });
    nodes.push(result("zip"));
    encode(nodes)
}

/// A slice of one constant vector that fills `size_bytes` of the graph.
pub fn slices(size_bytes: usize) -> Bytes {
    let count = size_bytes / 8;
    let shape = Shape { dim: vec![Dim { size: i64::try_from(count).expect("fits") }] };
    let content = vec![7_u8; count * 8].into();
    let tensor = Tensor { dtype: INT64, shape: Some(shape), content, int64_val: Vec::new() };
    let slices = node("slices", "TensorSliceDataset", &["vector:0"]);
    encode(vec![constant("vector", tensor), slices, result("slices")])
}

/// A dataset whose one node is of this operation, which takes no dataset.
pub fn source(op: &str) -> Bytes {
    encode(vec![node("source", op, &[]), result("source")])
}

/// Metadata as a client sends it with a dataset of scalars.
pub fn metadata(compression: Compression, cardinality: i64) -> DataServiceMetadata {
    DataServiceMetadata {
        // A StructuredValue with a TensorSpec of an int64 scalar.
        element_spec: Some(Bytes::from_static(b"\x8a\x02\x04\x12\x00\x18\x09")),
        compression: compression.into(),
        cardinality,
    }
}

fn encode(node: Vec<NodeDef>) -> Bytes {
    DatasetDef { graph: Some(GraphDef { node }) }.encode_to_vec().into()
}

fn node(name: &str, op: &str, inputs: &[&str]) -> NodeDef {
    let input = inputs.iter().map(ToString::to_string).collect();
    NodeDef { name: name.into(), op: op.into(), input, attr: [].into() }
}

fn result(of: &str) -> NodeDef {
    node("dataset", "_Retval", &[&format!("{of}:0")])
}

fn constant(name: &str, tensor: Tensor) -> NodeDef {
    let of = |value| AttrValue { value: Some(value) };
    let attr = [
        ("dtype".to_string(), of(Value::Type(tensor.dtype))),
        ("value".to_string(), of(Value::Tensor(tensor))),
    ];
    NodeDef { attr: attr.into(), ..node(name, "Const", &[]) }
}

fn range_nodes(name: &str, bounds: [i64; 3]) -> Vec<NodeDef> {
    let parts = ["start", "stop", "step"].map(|part| format!("{name}/{part}"));
    let scalar = |value| Tensor {
        dtype: INT64,
        shape: Some(Shape::default()),
        int64_val: vec![value],
        ..Default::default()
    };
    let mut nodes: Vec<NodeDef> =
        parts.iter().zip(bounds).map(|(part, bound)| constant(part, scalar(bound))).collect();
    let inputs = parts.map(|part| format!("{part}:0"));
    nodes.push(node(name, "RangeDataset", &inputs.each_ref().map(String::as_str)));
    nodes
}
