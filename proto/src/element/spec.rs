//! Reads the structure of elements: `tensorflow.StructuredValue`.

use std::collections::BTreeMap;

use rondo_core::element::{Dtype, PartialShape, Spec, TensorSpec};
use rondo_core::limits::{
    ELEMENT_COMPONENTS_MAX, ELEMENT_SPEC_BYTES_MAX, NAME_BYTES_MAX, TENSOR_RANK_MAX,
};
use rondo_core::status::{Code, Status};

use super::described::{WireShape, dtype};
use super::refusal::{broken, malformed};
use crate::graph::wire::{Field, Message, Value};

/// Levels of structures in structures: three messages each, of which protobuf allows a hundred.
const DEPTH_MAX: usize = 33;

/// Decodes `DataServiceMetadata.element_spec`.
///
/// # Errors
/// INVALID_ARGUMENT for what is no structure, UNIMPLEMENTED for one with other leaves than dense,
/// ragged and sparse tensors, RESOURCE_EXHAUSTED for one that is too large; each names the place.
pub fn decode_spec(element_spec: &[u8]) -> Result<Spec, Status> {
    if element_spec.len() > ELEMENT_SPEC_BYTES_MAX {
        let size = element_spec.len();
        return Err(too_large(&format!("{size} bytes; {ELEMENT_SPEC_BYTES_MAX} are allowed")));
    }
    let mut reader = Reader { leaves: 0, depth: 0 };
    let spec = reader.value(Message::root(element_spec, "StructuredValue"));
    spec.map_err(|status| {
        let code = if status.code == Code::Internal { Code::InvalidArgument } else { status.code };
        Status::new(code, format!("element_spec: {}", status.message))
    })
}

fn too_large(what: &str) -> Status {
    Status::new(Code::ResourceExhausted, format!("element_spec has {what}"))
}

/// What was read so far, to stay within bounds.
struct Reader {
    leaves: usize,
    depth: usize,
}

impl Reader {
    /// One `StructuredValue`.
    fn value(&mut self, message: Message<'_>) -> Result<Spec, Status> {
        let field = last_field(message)?;
        match (field.number, field.value) {
            (33, Value::Chunk(tensor)) => self.leaf(read_tensor(tensor)),
            (34, Value::Chunk(typed)) => self.leaf(read_typed(typed)),
            (51, Value::Chunk(list)) => self.list(list).map(Spec::List),
            (52, Value::Chunk(tuple)) => self.list(tuple).map(Spec::Tuple),
            (53, Value::Chunk(dict)) => self.dict(dict),
            (54, Value::Chunk(tuple)) => self.named_tuple(tuple),
            (number, _) => Err(unsupported(format_args!("a value of kind {number}"))),
        }
    }

    fn leaf(&mut self, leaf: Result<Spec, Status>) -> Result<Spec, Status> {
        self.leaves = self.leaves.saturating_add(1);
        if self.leaves > ELEMENT_COMPONENTS_MAX {
            return Err(too_large(&format!("more than {ELEMENT_COMPONENTS_MAX} components")));
        }
        leaf
    }

    /// A member of a structure.
    fn member(&mut self, key: &str, value: Message<'_>) -> Result<Spec, Status> {
        if self.depth >= DEPTH_MAX {
            return Err(broken(format_args!("structures are nested more than {DEPTH_MAX} deep")));
        }
        self.depth = self.depth.saturating_add(1);
        let member = self.value(value);
        self.depth = self.depth.saturating_sub(1);
        member.map_err(|status| {
            let text = format!("in {}: {}", key.escape_debug(), status.message);
            Status { message: text, ..status }
        })
    }

    fn list(&mut self, list: Message<'_>) -> Result<Vec<Spec>, Status> {
        let values = list.chunks(1).enumerate();
        values
            .map(|(index, value)| self.member(&index.to_string(), value.map_err(malformed)?))
            .collect()
    }

    fn dict(&mut self, dict: Message<'_>) -> Result<Spec, Status> {
        let mut members = BTreeMap::new();
        for entry in dict.chunks(1) {
            let (key, member) = self.entry(entry.map_err(malformed)?)?;
            members.insert(key, member);
        }
        Ok(Spec::Dict(members))
    }

    fn named_tuple(&mut self, tuple: Message<'_>) -> Result<Spec, Status> {
        let class = text(tuple, 1, "a named tuple's name")?;
        let entries = tuple.chunks(2);
        let fields = entries.map(|entry| self.entry(entry.map_err(malformed)?));
        Ok(Spec::NamedTuple { class, fields: fields.collect::<Result<_, _>>()? })
    }

    /// A key and its member.
    fn entry(&mut self, entry: Message<'_>) -> Result<(String, Spec), Status> {
        let key = text(entry, 1, "a key")?;
        let value = entry.last_chunk(2).map_err(malformed)?;
        let member = self.member(&key, value.unwrap_or(Message::root(&[], "StructuredValue")))?;
        Ok((key, member))
    }
}

fn unsupported(what: impl std::fmt::Display) -> Status {
    let text = format!(
        "unsupported spec, {what}; supported are dense, ragged and sparse tensors in \
                        lists, tuples, dicts and named tuples"
    );
    Status::new(Code::Unimplemented, text)
}

/// The last field there is: of a oneof, it counts.
fn last_field(message: Message<'_>) -> Result<Field<'_>, Status> {
    let mut last = None;
    for field in message.fields() {
        last = Some(field.map_err(malformed)?);
    }
    last.ok_or_else(|| broken("a value is empty; it must be a spec or a structure of them"))
}

fn text(message: Message<'_>, number: u64, what: &str) -> Result<String, Status> {
    let bytes = message.last_chunk(number).map_err(malformed)?.map_or(&[][..], |it| it.bytes);
    if bytes.len() > NAME_BYTES_MAX {
        let size = bytes.len();
        return Err(broken(format_args!("{what} has {size} bytes; {NAME_BYTES_MAX} are allowed")));
    }
    match str::from_utf8(bytes) {
        Ok(text) => Ok(text.into()),
        Err(error) => Err(broken(format_args!("{what} is no UTF-8: {error}"))),
    }
}

/// A `TensorSpecProto`.
fn read_tensor(message: Message<'_>) -> Result<Spec, Status> {
    let mut number = 0;
    let mut shape = WireShape::default();
    for field in message.fields() {
        match field.map_err(malformed)? {
            Field { number: 2, value: Value::Chunk(part), .. } => shape.read(part)?,
            Field { number: 3, value: Value::Varint(found), .. } => number = found,
            _ => {}
        }
    }
    let tensor = TensorSpec { dtype: dtype(number)?, shape: shape.partial()? };
    Ok(Spec::Tensor { tensor, name: text(message, 1, "a tensor's name")? })
}

/// A `TypeSpecProto`, whose state is a tuple.
fn read_typed(message: Message<'_>) -> Result<Spec, Status> {
    let mut class = 0;
    for field in message.fields() {
        if let Field { number: 1, value: Value::Varint(found), .. } = field.map_err(malformed)? {
            class = found;
        }
    }
    let state = message.last_chunk(2).map_err(malformed)?;
    let state = state.map_or(Ok(None), |state| state.last_chunk(52)).map_err(malformed)?;
    let mut values = Vec::new();
    for value in state.iter().flat_map(|tuple| tuple.chunks(1)).take(5) {
        values.push(last_field(value.map_err(malformed)?)?);
    }
    let wrong =
        || broken(format_args!("the state of a spec of class {class} is not as it must be"));
    match (class, values.as_slice()) {
        (1, [shape, dtype, ..]) => {
            let tensor = tensor_spec(shape, dtype)?.ok_or_else(wrong)?;
            Ok(Spec::Sparse(tensor))
        }
        (3, [shape, dtype, rank, splits, rest @ ..]) => {
            no_flat_values(rest)?;
            let tensor = tensor_spec(shape, dtype)?.ok_or_else(wrong)?;
            let ragged_rank = ragged_rank(rank).ok_or_else(wrong)?;
            let row_splits = dtype_value(splits)?.ok_or_else(wrong)?;
            Ok(Spec::Ragged { tensor, ragged_rank, row_splits })
        }
        (1 | 3, _) => Err(wrong()),
        (class, _) => Err(unsupported(format_args!("class {class}"))),
    }
}

/// A spec of the flat values says more than a shape and a type can.
fn no_flat_values(rest: &[Field<'_>]) -> Result<(), Status> {
    match rest {
        [] | [Field { number: 1, .. }] => Ok(()),
        _ => Err(unsupported("class 3 with a spec of its flat values")),
    }
}

fn tensor_spec(shape: &Field<'_>, dtype: &Field<'_>) -> Result<Option<TensorSpec>, Status> {
    let shape = shape_value(shape)?;
    Ok(shape.zip(dtype_value(dtype)?).map(|(shape, dtype)| TensorSpec { dtype, shape }))
}

fn shape_value(field: &Field<'_>) -> Result<Option<PartialShape>, Status> {
    let Field { number: 31, value: Value::Chunk(part), .. } = field else {
        return Ok(None);
    };
    let mut shape = WireShape::default();
    shape.read(*part)?;
    shape.partial().map(Some)
}

fn dtype_value(field: &Field<'_>) -> Result<Option<Dtype>, Status> {
    match field {
        Field { number: 32, value: Value::Varint(number), .. } => dtype(*number).map(Some),
        _ => Ok(None),
    }
}

/// A number of dimensions, which is written as a signed integer.
fn ragged_rank(field: &Field<'_>) -> Option<u64> {
    let Field { number: 12, value: Value::Varint(zigzag), .. } = field else {
        return None;
    };
    let is_right = zigzag % 2 == 0 && (1..=TENSOR_RANK_MAX as u64).contains(&(zigzag / 2));
    is_right.then_some(zigzag / 2)
}
