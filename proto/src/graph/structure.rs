//! One hash for all encodings of one element structure.
//!
//! TensorFlow compares two element specs field by field: a field at its default equals an absent
//! one, repeated fields are sets in which members count, and maps have no order. Here every
//! message becomes a hash built the same way, so equal structures have equal hashes and can be
//! compared years later. Two differences, both towards "not equal": floats count bit by bit, and
//! unknown fields in the order in which they were written.

use std::borrow::Cow;
use std::collections::BTreeMap;

use rondo_core::ids::Digest;

use super::error::GraphError;
use super::schema::{Kind, STRUCTURED_VALUE, Schema, Shape};
use super::wire::{DEPTH_MAX, Field, Message, Value};

const ROOT: &str = "StructuredValue";
/// What stands for an element that has nothing but defaults.
const DEFAULT: Hash = [0; 32];

type Hash = [u8; 32];

/// A hash of the structure that a serialized `tensorflow.StructuredValue` describes, the same for
/// every encoding that TensorFlow considers equal. No bytes at all are the default structure.
///
/// # Errors
///
/// If the bytes are not a protobuf message, or nested more deeply than protobuf allows.
pub fn structure_digest(element_spec: &[u8]) -> Result<Digest, GraphError> {
    let root = Message::root(element_spec, ROOT);
    let hash = hash_message(&STRUCTURED_VALUE, &[root], 0)?;
    Ok(Digest::new(hash.unwrap_or_else(|| *blake3::hash(&[]).as_bytes())))
}

/// The hash of a message written in one or more parts (the parts of a singular field merge as if
/// written in one); `None` if all of it is default.
fn hash_message(
    schema: &Schema,
    parts: &[Message<'_>],
    depth: usize,
) -> Result<Option<Hash>, GraphError> {
    if depth >= DEPTH_MAX {
        return Err(parts.first().map_or(Message::root(&[], ROOT), |part| *part).too_deep());
    }
    let (known, unknown) = sort_fields(schema, parts)?;
    let mut hasher = blake3::Hasher::new();
    let mut is_default = true;
    for (number, (shape, values)) in known {
        let members = members(shape, &values, depth)?;
        if !members.is_empty() {
            is_default = false;
            hasher.update(&number.to_le_bytes());
            hasher.update(&(members.len() as u64).to_le_bytes());
            for member in &members {
                hasher.update(member);
            }
        }
    }
    if !unknown.is_empty() {
        is_default = false;
        hash_unknown(&mut hasher, &unknown);
    }
    Ok((!is_default).then(|| *hasher.finalize().as_bytes()))
}

type Known<'a> = BTreeMap<u64, (Shape, Vec<Value<'a>>)>;
type Unknown<'a> = BTreeMap<u64, Vec<Value<'a>>>;

/// The values of each field, in the order in which they were written.
fn sort_fields<'a>(
    schema: &Schema,
    parts: &[Message<'a>],
) -> Result<(Known<'a>, Unknown<'a>), GraphError> {
    let (mut known, mut unknown) = (Known::new(), Unknown::new());
    for field in parts.iter().flat_map(|part| part.fields()) {
        let Field { number, value, .. } = field?;
        match schema.field(number).filter(|shape| fits(*shape, value)) {
            Some(shape) => {
                if schema.one_of {
                    known.retain(|other, _| *other == number);
                }
                known.entry(number).or_insert_with(|| (shape, Vec::new())).1.push(value);
            }
            None => unknown.entry(number).or_default().push(value),
        }
    }
    Ok((known, unknown))
}

/// Whether a value is of the wire type that the field has (a list of numbers may be packed).
const fn fits(shape: Shape, value: Value<'_>) -> bool {
    match (shape.kind, value) {
        (Kind::Int | Kind::Int32 | Kind::Bool, Value::Varint(_))
        | (Kind::Double, Value::Fixed64(_))
        | (Kind::Float, Value::Fixed32(_))
        | (Kind::Chunk | Kind::Message(_) | Kind::Map(_), Value::Chunk(_)) => true,
        (Kind::Int | Kind::Int32 | Kind::Bool | Kind::Float | Kind::Double, Value::Chunk(_)) => {
            shape.repeated
        }
        _ => false,
    }
}

/// The hashes of a field's values in sorted order, nothing if the field is at its default.
fn members(shape: Shape, values: &[Value<'_>], depth: usize) -> Result<Vec<Hash>, GraphError> {
    let mut members = match shape.kind {
        Kind::Map(schema) => map_members(schema, values, depth)?,
        Kind::Message(schema) if shape.repeated => {
            let hash = |part| hash_message(schema, &[part], depth.saturating_add(1));
            let hashes = chunks(values).map(|part| hash(part).map(|hash| hash.unwrap_or(DEFAULT)));
            hashes.collect::<Result<_, _>>()?
        }
        Kind::Message(schema) => {
            let parts: Vec<_> = chunks(values).collect();
            hash_message(schema, &parts, depth.saturating_add(1))?.into_iter().collect()
        }
        kind => scalar_members(kind, shape.repeated, values)?,
    };
    members.sort_unstable();
    Ok(members)
}

fn chunks<'a>(values: &[Value<'a>]) -> impl Iterator<Item = Message<'a>> {
    values.iter().filter_map(|value| match value {
        Value::Chunk(chunk) => Some(*chunk),
        _ => None,
    })
}

/// One hash per entry; of several entries with one key the last one counts.
fn map_members(
    schema: &'static Schema,
    values: &[Value<'_>],
    depth: usize,
) -> Result<Vec<Hash>, GraphError> {
    let mut entries = BTreeMap::new();
    for entry in chunks(values) {
        let key = entry.last_chunk(1)?.map_or(&[] as &[u8], |key| key.bytes);
        let parts = entry.chunks(2).collect::<Result<Vec<_>, _>>()?;
        entries.insert(key, parts);
    }
    let hash_entry = |(key, parts): (&[u8], Vec<Message<'_>>)| {
        let value = hash_message(schema, &parts, depth.saturating_add(2))?.unwrap_or(DEFAULT);
        Ok(*blake3::Hasher::new().update(&value).update(key).finalize().as_bytes())
    };
    entries.into_iter().map(hash_entry).collect()
}

fn scalar_members(
    kind: Kind,
    repeated: bool,
    values: &[Value<'_>],
) -> Result<Vec<Hash>, GraphError> {
    let mut scalars = Vec::new();
    for value in values {
        push_scalars(kind, *value, &mut scalars)?;
    }
    if !repeated {
        // Of several values for a singular field the last one counts; a default one is absent.
        scalars = scalars.pop().filter(|last| !is_default(kind, last)).into_iter().collect();
    }
    Ok(scalars.iter().map(|scalar| *blake3::hash(scalar).as_bytes()).collect())
}

fn is_default(kind: Kind, scalar: &[u8]) -> bool {
    match kind {
        Kind::Chunk => scalar.is_empty(),
        _ => scalar.iter().all(|byte| *byte == 0),
    }
}

/// Appends the value, or the values of a packed list, each in a form of fixed width.
fn push_scalars<'a>(
    kind: Kind,
    value: Value<'a>,
    out: &mut Vec<Cow<'a, [u8]>>,
) -> Result<(), GraphError> {
    match (kind, value) {
        (Kind::Chunk, Value::Chunk(chunk)) => out.push(Cow::Borrowed(chunk.bytes)),
        (Kind::Float | Kind::Double, Value::Chunk(list)) => {
            let width = if let Kind::Float = kind { 4 } else { 8 };
            out.extend(list.bytes.chunks(width).map(Cow::Borrowed));
        }
        (Kind::Int | Kind::Int32 | Kind::Bool, Value::Chunk(list)) => {
            for value in list.packed_varints() {
                out.push(integer(kind, value?));
            }
        }
        (_, Value::Varint(value)) => out.push(integer(kind, value)),
        (_, Value::Fixed64(bytes)) => out.push(Cow::Owned(bytes.to_vec())),
        (_, Value::Fixed32(bytes)) => out.push(Cow::Owned(bytes.to_vec())),
        _ => {}
    }
    Ok(())
}

fn integer(kind: Kind, value: u64) -> Cow<'static, [u8]> {
    let value = match kind {
        Kind::Int32 => value & u64::from(u32::MAX),
        Kind::Bool => u64::from(value != 0),
        _ => value,
    };
    Cow::Owned(value.to_le_bytes().to_vec())
}

/// Unknown fields by number, as they stand on the wire.
fn hash_unknown(hasher: &mut blake3::Hasher, unknown: &Unknown<'_>) {
    for (number, values) in unknown {
        for value in values {
            let varint;
            let (wire_type, bytes): (u8, &[u8]) = match value {
                Value::Varint(value) => {
                    varint = value.to_le_bytes();
                    (0, &varint)
                }
                Value::Fixed64(bytes) => (1, bytes),
                Value::Chunk(chunk) => (2, chunk.bytes),
                Value::Group(bytes) => (3, bytes),
                Value::Fixed32(bytes) => (5, bytes),
            };
            hasher.update(b"?").update(&number.to_le_bytes()).update(&[wire_type]);
            hasher.update(&(bytes.len() as u64).to_le_bytes()).update(bytes);
        }
    }
}
