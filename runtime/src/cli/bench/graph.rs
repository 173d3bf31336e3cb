//! Graphs to register: a range, alone or with a large constant beside it.

use std::collections::BTreeMap;

use bytes::Bytes;
use prost::Message;

const INT64: i32 = 9;
const VARIANT: i32 = 21;
/// The version of TensorFlow's graphs that these are written in.
const PRODUCER: i32 = 1882;

/// A range of so many elements, as an encoded `DatasetDef`. With `weight_bytes`, a constant of that
/// length stands beside it that nothing reads, its first eight bytes `serial`: every serial makes
/// another graph.
pub(super) fn range(elements: i64, weight_bytes: usize, serial: u64) -> Bytes {
    let mut nodes = vec![
        scalar("start", 0),
        scalar("stop", elements),
        scalar("step", 1),
        node(
            "range",
            "RangeDataset",
            &["start", "stop", "step"],
            [("output_types", types()), ("output_shapes", shapes())],
        ),
        node("dataset", "_Retval", &["range"], [("T", kind(VARIANT)), ("index", number(0))]),
    ];
    if weight_bytes > 0 {
        nodes.push(weight(weight_bytes, serial));
    }
    let versions = Versions { producer: PRODUCER };
    let graph = Graph { nodes, versions: Some(versions) };
    DatasetDef { graph: Some(graph) }.encode_to_vec().into()
}

#[derive(Clone, PartialEq, Message)]
struct DatasetDef {
    #[prost(message, optional, tag = "1")]
    graph: Option<Graph>,
}

#[derive(Clone, PartialEq, Message)]
struct Graph {
    #[prost(message, repeated, tag = "1")]
    nodes: Vec<Node>,
    #[prost(message, optional, tag = "4")]
    versions: Option<Versions>,
}

#[derive(Clone, PartialEq, Message)]
struct Versions {
    #[prost(int32, tag = "1")]
    producer: i32,
}

#[derive(Clone, PartialEq, Message)]
struct Node {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "2")]
    op: String,
    #[prost(string, repeated, tag = "3")]
    inputs: Vec<String>,
    #[prost(btree_map = "string, message", tag = "5")]
    attributes: BTreeMap<String, Attribute>,
}

#[derive(Clone, PartialEq, Message)]
struct Attribute {
    #[prost(oneof = "Value", tags = "1, 3, 6, 8")]
    value: Option<Value>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
enum Value {
    #[prost(message, tag = "1")]
    List(List),
    #[prost(int64, tag = "3")]
    Number(i64),
    #[prost(int32, tag = "6")]
    Type(i32),
    #[prost(message, tag = "8")]
    Tensor(Tensor),
}

#[derive(Clone, PartialEq, Message)]
struct List {
    #[prost(int32, repeated, tag = "6")]
    types: Vec<i32>,
    #[prost(message, repeated, tag = "7")]
    shapes: Vec<Shape>,
}

#[derive(Clone, PartialEq, Message)]
struct Tensor {
    #[prost(int32, tag = "1")]
    dtype: i32,
    #[prost(message, optional, tag = "2")]
    shape: Option<Shape>,
    #[prost(bytes = "bytes", tag = "4")]
    content: Bytes,
}

#[derive(Clone, PartialEq, Message)]
struct Shape {
    #[prost(message, repeated, tag = "2")]
    dimensions: Vec<Dimension>,
}

#[derive(Clone, PartialEq, Message)]
struct Dimension {
    #[prost(int64, tag = "1")]
    size: i64,
}

fn attribute(value: Value) -> Attribute {
    Attribute { value: Some(value) }
}

fn kind(dtype: i32) -> Attribute {
    attribute(Value::Type(dtype))
}

fn number(value: i64) -> Attribute {
    attribute(Value::Number(value))
}

fn types() -> Attribute {
    attribute(Value::List(List { types: vec![INT64], shapes: Vec::new() }))
}

fn shapes() -> Attribute {
    attribute(Value::List(List { types: Vec::new(), shapes: vec![Shape::default()] }))
}

fn node<const N: usize>(
    name: &str,
    op: &str,
    inputs: &[&str],
    attributes: [(&str, Attribute); N],
) -> Node {
    Node {
        name: name.to_owned(),
        op: op.to_owned(),
        inputs: inputs.iter().map(|input| (*input).to_owned()).collect(),
        attributes: attributes.into_iter().map(|(name, value)| (name.to_owned(), value)).collect(),
    }
}

fn constant(name: &str, shape: Shape, content: Bytes) -> Node {
    let tensor = Tensor { dtype: INT64, shape: Some(shape), content };
    let value = attribute(Value::Tensor(tensor));
    node(name, "Const", &[], [("dtype", kind(INT64)), ("value", value)])
}

fn scalar(name: &str, value: i64) -> Node {
    let content = Bytes::copy_from_slice(&value.to_le_bytes());
    constant(name, Shape::default(), content)
}

fn weight(bytes: usize, serial: u64) -> Node {
    let numbers = bytes.div_ceil(8).max(1);
    // Not all alike, so that nothing on the way can make it short.
    let fill = (1_u64..).map(|at| serial ^ at.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let content: Vec<u8> =
        std::iter::once(serial).chain(fill).take(numbers).flat_map(u64::to_le_bytes).collect();
    let size = i64::try_from(numbers).unwrap_or(i64::MAX);
    let shape = Shape { dimensions: vec![Dimension { size }] };
    constant("weight", shape, content.into())
}

#[cfg(test)]
mod tests {
    use rondo_core::dispatcher::{SplitPlan, SplitSource};

    use super::range;

    #[test]
    fn a_range_can_be_split_with_and_without_a_weight() {
        for weight_bytes in [0, 1 << 20] {
            let prepared = rondo_proto::graph::prepare(&range(7, weight_bytes, 3)).unwrap();
            assert_eq!(prepared.plan, SplitPlan::Splittable(vec![SplitSource::counting(7)]));
        }
    }

    #[test]
    fn each_serial_makes_another_graph_of_the_same_length() {
        let (one, other) = (range(7, 64, 1), range(7, 64, 2));
        assert_ne!(one, other);
        assert_eq!(one.len(), other.len());
    }
}
