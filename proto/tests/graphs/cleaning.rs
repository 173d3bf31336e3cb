//! Cleaning does what TensorFlow's does and nothing else.

use std::collections::BTreeMap;
use std::fs;

use bytes::Bytes;
use rondo_proto::graph::prepare;

use crate::build::{attr, chunk, definition, node_with, number};
use crate::recorded;

/// A field's value: a number, or bytes.
#[derive(Clone, Debug)]
enum Read {
    Number(u64),
    Bytes(Vec<u8>),
}

/// A message's fields in the order in which they were written; `None` if it is no message.
fn fields(message: &[u8]) -> Option<Vec<(u64, Read)>> {
    let (mut at, mut out) = (0, Vec::new());
    while at < message.len() {
        let tag = varint(message, &mut at)?;
        let length = match tag & 7 {
            0 => {
                out.push((tag >> 3, Read::Number(varint(message, &mut at)?)));
                continue;
            }
            1 => 8,
            2 => usize::try_from(varint(message, &mut at)?).ok()?,
            5 => 4,
            _ => return None,
        };
        let value = message.get(at..at.checked_add(length)?)?;
        at += length;
        out.push((tag >> 3, Read::Bytes(value.to_vec())));
    }
    Some(out)
}

fn varint(message: &[u8], at: &mut usize) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let byte = *message.get(*at)?;
        *at += 1;
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(value);
        }
    }
    None
}

/// A message without the order of its fields and maps, which protobuf leaves to the writer.
///
/// Whatever can be read as a message is. Siblings that all look like map entries are sorted, and
/// of several with one key the last one counts.
fn unordered(message: &[u8], depth: usize) -> Option<String> {
    let mut by_number: BTreeMap<u64, Vec<Read>> = BTreeMap::new();
    for (number, value) in fields(message)? {
        by_number.entry(number).or_default().push(value);
    }
    // The dispatcher writes an empty library where there was none.
    by_number.retain(|number, values| {
        (depth, *number) != (1, 2) || values.iter().any(|value| !value.is_empty())
    });
    let line = |value: &Read| match value {
        Read::Number(value) => value.to_string(),
        Read::Bytes(value) => unordered(value, depth + 1).unwrap_or_else(|| format!("{value:?}")),
    };
    let lines = by_number.into_iter().map(|(number, values)| {
        let keys: Option<Vec<String>> = values.iter().map(Read::map_key).collect();
        let lines = values.iter().map(line);
        match keys {
            Some(keys) => {
                (number, format!("{:?}", BTreeMap::from_iter(keys.into_iter().zip(lines))))
            }
            None => (number, format!("{:?}", Vec::from_iter(lines))),
        }
    });
    Some(format!("{:?}", Vec::from_iter(lines)))
}

impl Read {
    fn is_empty(&self) -> bool {
        matches!(self, Self::Bytes(value) if value.is_empty())
    }

    /// The key, if this looks like a map entry.
    fn map_key(&self) -> Option<String> {
        let Self::Bytes(value) = self else {
            return None;
        };
        match fields(value)?.as_slice() {
            [(1, key), (2, Self::Bytes(_))] => Some(format!("{key:?}")),
            _ => None,
        }
    }
}

#[test]
fn cleaned_definitions_are_those_of_the_real_dispatcher() {
    let mut compared = 0;
    for (name, definition, _) in recorded::cases() {
        let path = recorded::directory().join(format!("{name}.cleaned.def"));
        let Ok(theirs) = fs::read(path) else { continue };
        let ours = prepare(&definition).unwrap().cleaned;
        let (ours, theirs) = (unordered(&ours, 0).unwrap(), unordered(&theirs, 0).unwrap());
        assert_eq!(ours, theirs, "{name}");
        compared += 1;
    }
    assert!(compared >= 10, "only {compared} cleaned definitions are recorded");
}

#[test]
fn a_definition_is_copied_only_where_the_real_dispatcher_changes_it() {
    for (name, definition, expected) in recorded::cases() {
        let cleaned = prepare(&definition).unwrap().cleaned;
        let same_buffer = cleaned.as_ptr() == definition.as_ptr();
        let changes = expected["cleaning_changes"].as_bool().unwrap();
        assert_eq!(cleaned != definition, changes, "{name}");
        assert_eq!(!same_buffer, changes && !definition.is_empty(), "{name}");
    }
}

#[test]
fn cleaning_twice_changes_nothing_more() {
    for (name, definition, _) in recorded::cases() {
        let once = prepare(&definition).unwrap();
        let twice = prepare(&once.cleaned).unwrap();
        assert_eq!(twice, once, "{name}");
    }
}

/// The one graph node of a definition, cleaned.
fn cleaned_node(node: Vec<u8>) -> Vec<u8> {
    let cleaned = prepare(&definition(&[node])).unwrap().cleaned;
    let only = |message: &[u8]| match fields(message).unwrap().remove(0) {
        (1, Read::Bytes(value)) => value,
        other => panic!("{other:?}"),
    };
    only(&only(&cleaned))
}

#[test]
fn a_table_is_shared_whatever_it_said_before() {
    let sharing = "use_node_name_sharing";
    let entry = |on: u64| attr(sharing, &number(5, on));
    for op in ["HashTable", "MutableHashTableV2", "MutableDenseHashTable"] {
        for before in [vec![], entry(0), [entry(1), entry(0)].concat(), attr(sharing, &[])] {
            let node = node_with("t", op, &[], &before);
            assert_eq!(cleaned_node(node.clone()), [node, entry(1)].concat(), "{op} {before:?}");
        }
        let node = node_with("t", op, &[], &[entry(0), entry(1)].concat());
        assert_eq!(cleaned_node(node.clone()), node, "{op} shared already");
    }
    let node = node_with("t", "HashTableV3", &[], &entry(0));
    assert_eq!(cleaned_node(node.clone()), node, "not a table");
}

#[test]
fn devices_go_from_nodes_and_functions_and_all_else_stays() {
    let device = chunk(4, b"/device:GPU:0");
    let attribute = attr("x", &number(3, 7));
    let unknown = number(99, 1);
    let node = |device: &[u8]| {
        let rest = [device, attribute.as_slice(), device, unknown.as_slice()].concat();
        node_with("n", "NoOp", &["a"], &rest)
    };
    let whole = |device: &[u8]| -> Bytes {
        let function = [chunk(1, b"signature"), chunk(3, &node(device)), unknown.clone()].concat();
        let library = [chunk(2, b"gradient"), chunk(1, &function)].concat();
        let graph = [chunk(2, &library), chunk(1, &node(device)), chunk(4, b"v")].concat();
        [chunk(1, &graph), unknown.clone()].concat().into()
    };
    assert_eq!(prepare(&whole(&device)).unwrap().cleaned, whole(&[]));
}
