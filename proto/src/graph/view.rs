//! A graph's nodes by name, read in place; attributes and constants only when asked for.

use std::collections::BTreeMap;

use rondo_core::status::Code;

use super::error::GraphError;
use super::fields::{attr_value, dataset_def, graph, list_value, map, node, shape, tensor};
use super::refusal::{Stop, refused, shown};
use super::wire::{Message, Value};

/// Nodes looked at in one graph; far more than any dataset that could still be built.
const NODES_MAX: usize = 1 << 20;
const RETVAL: &str = "_Retval";

/// The nodes of a definition's graph, functions left aside.
#[derive(Debug)]
pub(super) struct Graph<'a> {
    nodes: BTreeMap<&'a [u8], Node<'a>>,
    retval: Option<Node<'a>>,
}

impl<'a> Graph<'a> {
    pub(super) fn read(definition: &'a [u8]) -> Result<Self, Stop> {
        let mut read = Self { nodes: BTreeMap::new(), retval: None };
        for graph in Message::root(definition, "DatasetDef").chunks(dataset_def::GRAPH) {
            for node in graph?.chunks(graph::NODE) {
                read.add(Node::read(node?)?)?;
            }
        }
        Ok(read)
    }

    fn add(&mut self, node: Node<'a>) -> Result<(), Stop> {
        if self.nodes.len() >= NODES_MAX {
            let text = format!("Cannot split a graph of more than {NODES_MAX} nodes");
            return Err(refused(Code::ResourceExhausted, text));
        }
        if node.op == RETVAL {
            self.retval = Some(node);
        }
        match self.nodes.insert(node.name, node) {
            None => Ok(()),
            Some(_) => {
                let text = format!("Node '{}' is not unique", shown(node.name));
                Err(refused(Code::InvalidArgument, text))
            }
        }
    }

    /// The node that returns the dataset; the last one if there are several.
    pub(super) fn retval(&self) -> Result<Node<'a>, Stop> {
        self.retval.ok_or_else(|| {
            refused(Code::NotFound, "Failed to find a _Retval op in the given dataset")
        })
    }

    /// The node behind an input of `reader`, which stands there as `name` or `name:0`.
    pub(super) fn producer(&self, reader: Node<'a>, input: &'a [u8]) -> Result<Node<'a>, Stop> {
        let name = input.strip_suffix(b":0").unwrap_or(input);
        self.nodes.get(name).copied().ok_or_else(|| {
            let (reader, input) = (shown(reader.name), shown(input));
            let text = format!("Node '{reader}': Unknown input node '{input}'");
            refused(Code::InvalidArgument, text)
        })
    }
}

/// A node in place.
#[derive(Clone, Copy, Debug)]
pub(super) struct Node<'a> {
    pub(super) name: &'a [u8],
    pub(super) op: &'a str,
    message: Message<'a>,
}

impl<'a> Node<'a> {
    fn read(message: Message<'a>) -> Result<Self, GraphError> {
        let name = message.last_chunk(node::NAME)?.map_or(&[] as &[u8], |name| name.bytes);
        let op = message.last_chunk(node::OP)?.map_or(&[] as &[u8], |op| op.bytes);
        let op = str::from_utf8(op).unwrap_or("an op whose name is not UTF-8");
        Ok(Self { name, op, message })
    }

    /// The inputs that carry a value, without those that only order execution.
    pub(super) fn inputs(self) -> impl Iterator<Item = Result<&'a [u8], GraphError>> {
        self.message.chunks(node::INPUT).filter_map(|input| match input {
            Ok(input) => (!input.bytes.starts_with(b"^")).then_some(Ok(input.bytes)),
            Err(error) => Some(Err(error)),
        })
    }

    /// The input at `index`.
    pub(super) fn input(self, index: usize) -> Result<Option<&'a [u8]>, GraphError> {
        self.inputs().nth(index).transpose()
    }

    /// How many inputs carry a value.
    pub(super) fn input_count(self) -> Result<usize, GraphError> {
        self.inputs().try_fold(0_usize, |count, input| input.map(|_| count.saturating_add(1)))
    }

    /// How many components the `output_shapes` attribute lists.
    pub(super) fn component_count(self) -> Result<usize, GraphError> {
        let Some(attr) = self.attr(b"output_shapes")? else {
            return Ok(0);
        };
        let Some(list) = attr.last_chunk(attr_value::LIST)? else {
            return Ok(0);
        };
        list.chunks(list_value::SHAPE)
            .try_fold(0_usize, |count, shape| shape.map(|_| count.saturating_add(1)))
    }

    /// The constant in the `value` attribute.
    pub(super) fn constant(self) -> Result<Constant, GraphError> {
        let tensor = match self.attr(b"value")? {
            Some(attr) => attr.last_chunk(attr_value::TENSOR)?,
            None => None,
        };
        tensor.map_or_else(|| Ok(Constant::default()), Constant::read)
    }

    fn attr(self, name: &[u8]) -> Result<Option<Message<'a>>, GraphError> {
        let mut found = None;
        for entry in self.message.chunks(node::ATTR) {
            let entry = entry?;
            if entry.last_chunk(map::KEY)?.is_some_and(|key| key.bytes == name) {
                found = entry.last_chunk(map::VALUE)?;
            }
        }
        Ok(found)
    }
}

/// What is worth knowing of a constant tensor: its shape's outline, and its value if it is one
/// integer. The data of larger ones is never looked at.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Constant {
    dtype: u64,
    rank: usize,
    rows: i64,
    value: i64,
}

impl Constant {
    fn read(tensor: Message<'_>) -> Result<Self, GraphError> {
        let mut read = Self::default();
        let mut listed = None;
        for field in tensor.fields() {
            let field = field?;
            match (field.number, field.value) {
                (tensor::DTYPE, Value::Varint(dtype)) => read.dtype = dtype,
                (tensor::SHAPE, Value::Chunk(shape)) => read.shape(shape)?,
                (tensor::CONTENT, Value::Chunk(content)) => {
                    let bytes = content.bytes.try_into().ok();
                    read.value = bytes.map_or(0, i64::from_le_bytes);
                }
                (tensor::INT64_VAL, Value::Varint(value)) => {
                    listed = listed.or(Some(value));
                }
                (tensor::INT64_VAL, Value::Chunk(values)) => {
                    listed = listed.or(values.packed_varints().next().transpose()?);
                }
                _ => {}
            }
        }
        read.value = listed.map_or(read.value, u64::cast_signed);
        Ok(read)
    }

    fn shape(&mut self, shape: Message<'_>) -> Result<(), GraphError> {
        for dim in shape.chunks(shape::DIM) {
            let mut size = 0;
            for field in dim?.fields() {
                let field = field?;
                if let (shape::DIM_SIZE, Value::Varint(value)) = (field.number, field.value) {
                    size = u64::cast_signed(value);
                }
            }
            if self.rank == 0 {
                self.rows = size;
            }
            self.rank = self.rank.saturating_add(1);
        }
        Ok(())
    }

    /// What `Pack` makes of so many values.
    pub(super) fn packed(count: usize) -> Self {
        Self { rank: 1, rows: i64::try_from(count).unwrap_or(i64::MAX), ..Self::default() }
    }

    /// The size of the first dimension, if there is one.
    pub(super) const fn rows(self) -> Option<i64> {
        if self.rank > 0 && self.rows >= 0 { Some(self.rows) } else { None }
    }

    /// The value of an int64 scalar.
    pub(super) const fn scalar(self) -> Option<i64> {
        if self.rank == 0 && self.dtype == tensor::DTYPE_INT64 { Some(self.value) } else { None }
    }
}
