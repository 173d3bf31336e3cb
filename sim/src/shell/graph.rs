//! Graphs of datasets on the wire, with field numbers of our own reading: ranges, zipped, or
//! something that cannot be split.

use std::collections::BTreeMap;

use bytes::Bytes;
use prost::Message;
use rondo_core::dispatcher::{RegisterDataset, SplitPlan, SplitSource};
use rondo_core::limits::DEFINITION_INLINE_BYTES_MAX;

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
    attr: BTreeMap<String, AttrValue>,
}

#[derive(Clone, PartialEq, Message)]
struct AttrValue {
    #[prost(oneof = "Value", tags = "2, 3, 6, 8")]
    value: Option<Value>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
enum Value {
    #[prost(bytes = "bytes", tag = "2")]
    Text(Bytes),
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
    #[prost(int64, repeated, tag = "10")]
    int64_val: Vec<i64>,
}

#[derive(Clone, PartialEq, Message)]
struct Shape {}

/// The `DatasetDef` of a registration: what its plan says can be split in it, made larger than a
/// record holds where its definition is.
pub(super) fn of(request: &RegisterDataset) -> Bytes {
    let mut nodes = Vec::new();
    let last = match &request.plan {
        SplitPlan::Unsplittable { .. } => {
            nodes.push(node("generator", "GeneratorDataset", &[]));
            "generator".to_owned()
        }
        SplitPlan::Splittable(sources) => zipped(sources, &mut nodes),
    };
    let mut result = node("dataset", "_Retval", &[&format!("{last}:0")]);
    if request.definition.size_bytes > DEFINITION_INLINE_BYTES_MAX {
        let size = usize::try_from(DEFINITION_INLINE_BYTES_MAX).unwrap_or(0).saturating_add(1);
        let text = AttrValue { value: Some(Value::Text(vec![b'x'; size].into())) };
        result.attr.insert("_large".into(), text);
    }
    nodes.push(result);
    DatasetDef { graph: Some(GraphDef { node: nodes }) }.encode_to_vec().into()
}

/// Adds the nodes of some sources; the name of the one that zips them.
fn zipped(sources: &[SplitSource], nodes: &mut Vec<NodeDef>) -> String {
    let names: Vec<String> = (0..sources.len()).map(|number| format!("range{number}")).collect();
    for (name, source) in names.iter().zip(sources) {
        range(name, source, nodes);
    }
    if let [only] = names.as_slice() {
        return only.clone();
    }
    let inputs: Vec<String> = names.iter().map(|name| format!("{name}:0")).collect();
    let inputs: Vec<&str> = inputs.iter().map(String::as_str).collect();
    let mut zip = node("zip", "ZipDataset", &inputs);
    let count = i64::try_from(names.len()).unwrap_or(0);
    zip.attr.insert("N".into(), AttrValue { value: Some(Value::Int(count)) });
    nodes.push(zip);
    "zip".to_owned()
}

fn range(name: &str, source: &SplitSource, nodes: &mut Vec<NodeDef>) {
    let bounds = [("start", source.start), ("stop", source.stop), ("step", source.step)];
    let parts = bounds.map(|(part, value)| (format!("{name}/{part}"), value));
    for (part, value) in &parts {
        nodes.push(constant(part, *value));
    }
    let inputs = parts.map(|(part, _)| format!("{part}:0"));
    nodes.push(node(name, "RangeDataset", &inputs.each_ref().map(String::as_str)));
}

fn node(name: &str, op: &str, inputs: &[&str]) -> NodeDef {
    let input = inputs.iter().map(ToString::to_string).collect();
    NodeDef { name: name.into(), op: op.into(), input, attr: BTreeMap::new() }
}

fn constant(name: &str, value: i64) -> NodeDef {
    let of = |value| AttrValue { value: Some(value) };
    let tensor = Tensor { dtype: INT64, shape: Some(Shape {}), int64_val: vec![value] };
    let attr = [
        ("dtype".to_owned(), of(Value::Type(INT64))),
        ("value".to_owned(), of(Value::Tensor(tensor))),
    ];
    NodeDef { attr: attr.into(), ..node(name, "Const", &[]) }
}
