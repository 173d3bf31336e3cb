//! Makes a definition fit for any worker, touching only what must change.
//!
//! Device placements name machines of the client's job, and a hash table that does not share by
//! node name vanishes with the graph that made it; both are put right on the wire format: first the
//! lengths are planned, then the result is written once, so that a large constant is copied once,
//! and not at all when nothing has to change.

use bytes::Bytes;

use super::error::GraphError;
use super::fields::{attr_value, dataset_def, function_def, function_library, graph, map, node};
use super::wire::{Field, Message, Value, chunk_header};

/// The ops that keep a table, found in the graph itself (not in its functions).
const TABLE_OPS: [&[u8]; 8] = [
    b"HashTable",
    b"HashTableV2",
    b"MutableDenseHashTable",
    b"MutableDenseHashTableV2",
    b"MutableHashTable",
    b"MutableHashTableOfTensors",
    b"MutableHashTableOfTensorsV2",
    b"MutableHashTableV2",
];
const SHARING: &[u8] = b"use_node_name_sharing";
/// `attr { key: "use_node_name_sharing" value { b: true } }` as a field of a node.
const SHARING_ENTRY: &[u8] = b"\x2a\x1b\x0a\x15use_node_name_sharing\x12\x02\x28\x01";

/// The definition without device placements and with shared hash tables. The very same buffer if
/// it is so already.
pub(super) fn clean(definition: &Bytes) -> Result<Bytes, GraphError> {
    let root = Message::root(definition, "DatasetDef");
    let edit = edit_message(Level::Definition, root)?;
    if !edit.changed {
        return Ok(definition.clone());
    }
    let mut out = Vec::with_capacity(edit.length);
    write(Level::Definition, root, &mut out)?;
    Ok(out.into())
}

/// Reads what [`clean`] reads.
pub(super) fn check(definition: &[u8]) -> Result<(), GraphError> {
    edit_message(Level::Definition, Message::root(definition, "DatasetDef")).map(|_| ())
}

/// The messages between a definition and its nodes.
#[derive(Clone, Copy)]
enum Level {
    Definition,
    Graph,
    Library,
    Function,
    GraphNode,
    FunctionNode,
}

impl Level {
    /// What lies in the field of this number, if something may have to change in it.
    const fn inner(self, number: u64) -> Option<Self> {
        match (self, number) {
            (Self::Definition, dataset_def::GRAPH) => Some(Self::Graph),
            (Self::Graph, graph::NODE) => Some(Self::GraphNode),
            (Self::Graph, graph::LIBRARY) => Some(Self::Library),
            (Self::Library, function_library::FUNCTION) => Some(Self::Function),
            (Self::Function, function_def::NODE) => Some(Self::FunctionNode),
            _ => None,
        }
    }
}

/// What becomes of a message.
#[derive(Clone, Copy)]
struct Edit {
    changed: bool,
    /// The message's length afterwards, in bytes.
    length: usize,
}

/// What becomes of the message, without doing it yet.
fn edit_message(level: Level, message: Message<'_>) -> Result<Edit, GraphError> {
    if let Level::GraphNode | Level::FunctionNode = level {
        return edit_node(level, message);
    }
    let mut edit = Edit { changed: false, length: message.bytes.len() };
    for field in message.fields() {
        let field = field?;
        let (Some(inner), Value::Chunk(chunk)) = (level.inner(field.number), field.value) else {
            continue;
        };
        let within = edit_message(inner, chunk)?;
        if within.changed {
            let header = chunk_header(field.number, within.length).len();
            let before = field.end.saturating_sub(field.start);
            edit.changed = true;
            edit.length = edit
                .length
                .saturating_sub(before)
                .saturating_add(header)
                .saturating_add(within.length);
        }
    }
    Ok(edit)
}

fn edit_node(level: Level, node: Message<'_>) -> Result<Edit, GraphError> {
    let mut edit = Edit { changed: false, length: node.bytes.len() };
    for field in node.fields() {
        let field = field?;
        if is_device(&field) {
            let removed = field.end.saturating_sub(field.start);
            edit = Edit { changed: true, length: edit.length.saturating_sub(removed) };
        }
    }
    if needs_sharing(level, node)? {
        edit = Edit { changed: true, length: edit.length.saturating_add(SHARING_ENTRY.len()) };
    }
    Ok(edit)
}

/// Appends the message as edited.
fn write(level: Level, message: Message<'_>, out: &mut Vec<u8>) -> Result<(), GraphError> {
    let mut kept = 0;
    for field in message.fields() {
        let field = field?;
        let before = message.bytes.get(kept..field.start).unwrap_or_default();
        match (level, level.inner(field.number), field.value) {
            (Level::GraphNode | Level::FunctionNode, ..) if is_device(&field) => {
                out.extend_from_slice(before);
                kept = field.end;
            }
            (_, Some(inner), Value::Chunk(chunk)) => {
                let within = edit_message(inner, chunk)?;
                if within.changed {
                    out.extend_from_slice(before);
                    out.extend_from_slice(&chunk_header(field.number, within.length));
                    write(inner, chunk, out)?;
                    kept = field.end;
                }
            }
            _ => {}
        }
    }
    out.extend_from_slice(message.bytes.get(kept..).unwrap_or_default());
    if needs_sharing(level, message)? {
        out.extend_from_slice(SHARING_ENTRY);
    }
    Ok(())
}

const fn is_device(field: &Field<'_>) -> bool {
    matches!(field, Field { number: node::DEVICE, value: Value::Chunk(_), .. })
}

/// Whether the message is a node of the graph that keeps a table and does not share it by name.
fn needs_sharing(level: Level, node: Message<'_>) -> Result<bool, GraphError> {
    let Level::GraphNode = level else {
        return Ok(false);
    };
    if node.last_chunk(node::OP)?.is_none_or(|op| !TABLE_OPS.contains(&op.bytes)) {
        return Ok(false);
    }
    let mut shared = false;
    for entry in node.chunks(node::ATTR) {
        shared = says_sharing(entry?)?.unwrap_or(shared);
    }
    Ok(!shared)
}

/// What an attribute entry says of sharing by node name; `None` if it is another attribute.
fn says_sharing(entry: Message<'_>) -> Result<Option<bool>, GraphError> {
    if entry.last_chunk(map::KEY)?.is_none_or(|key| key.bytes != SHARING) {
        return Ok(None);
    }
    let mut says = false;
    if let Some(value) = entry.last_chunk(map::VALUE)? {
        for field in value.fields() {
            let field = field?;
            says = field.number == attr_value::B && matches!(field.value, Value::Varint(1..));
        }
    }
    Ok(Some(says))
}
