//! Cleaning as a naive reader does it: every message taken apart and put together again.

/// Ops of the graph that keep a table.
const TABLE_OPS: [&str; 8] = [
    "HashTable",
    "HashTableV2",
    "MutableHashTable",
    "MutableHashTableV2",
    "MutableDenseHashTable",
    "MutableDenseHashTableV2",
    "MutableHashTableOfTensors",
    "MutableHashTableOfTensorsV2",
];
const SHARING: &str = "use_node_name_sharing";

/// A field: its number, its value if it is length-delimited, and all of its bytes.
struct Field<'a> {
    number: u64,
    chunk: Option<&'a [u8]>,
    raw: &'a [u8],
}

/// The definition without device placements, with tables shared by name. It must be well formed.
pub(crate) fn cleaned(definition: &[u8]) -> Vec<u8> {
    within(definition, 1, |graph| {
        let nodes = within(graph, 1, |node| {
            let node = without_devices(node);
            let table =
                last(&node, 2).is_some_and(|op| TABLE_OPS.iter().any(|t| t.as_bytes() == op));
            match table && !is_shared(&node) {
                true => [node, sharing()].concat(),
                false => node,
            }
        });
        within(&nodes, 2, |library| within(library, 1, |fun| within(fun, 3, without_devices)))
    })
}

/// The message with every submessage of one number changed; what stays the same stays as written.
fn within(message: &[u8], number: u64, change: impl Fn(&[u8]) -> Vec<u8>) -> Vec<u8> {
    let each = fields(message).into_iter().map(|field| match field.chunk {
        Some(chunk) if field.number == number => {
            let changed = change(chunk);
            if changed == chunk { field.raw.to_vec() } else { framed(number, &changed) }
        }
        _ => field.raw.to_vec(),
    });
    each.collect::<Vec<_>>().concat()
}

fn without_devices(node: &[u8]) -> Vec<u8> {
    let kept = fields(node).into_iter().filter(|field| field.number != 4 || field.chunk.is_none());
    kept.map(|field| field.raw).collect::<Vec<_>>().concat()
}

fn is_shared(node: &[u8]) -> bool {
    let entries = fields(node).into_iter().filter(|field| field.number == 5);
    let mut shared = false;
    for entry in entries.filter_map(|field| field.chunk) {
        if last(entry, 1) == Some(SHARING.as_bytes()) {
            // The last field of the value is the one that counts, and only a true one shares.
            let value = last(entry, 2).unwrap_or_default();
            shared = fields(value).last().is_some_and(|b| b.number == 5 && is_true(b));
        }
    }
    shared
}

/// Whether a number that is not zero stands in a field.
fn is_true(field: &Field<'_>) -> bool {
    let (mut rest, tag) = (field.raw, &mut 0);
    varint(&mut rest, tag);
    let mut value = 0;
    *tag & 7 == 0 && varint(&mut rest, &mut value) && value != 0
}

fn sharing() -> Vec<u8> {
    framed(5, &[framed(1, SHARING.as_bytes()), framed(2, &[0x28, 1])].concat())
}

fn last(message: &[u8], number: u64) -> Option<&[u8]> {
    let found = fields(message).into_iter().filter(|field| field.number == number);
    found.filter_map(|field| field.chunk).next_back()
}

pub(crate) fn framed(number: u64, chunk: &[u8]) -> Vec<u8> {
    [written(number << 3 | 2), written(chunk.len() as u64), chunk.to_vec()].concat()
}

pub(crate) fn written(mut value: u64) -> Vec<u8> {
    let mut out = Vec::new();
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
    out
}

fn fields(message: &[u8]) -> Vec<Field<'_>> {
    let (mut rest, mut found) = (message, Vec::new());
    while !rest.is_empty() {
        let before = rest;
        let mut tag = 0;
        assert!(varint(&mut rest, &mut tag), "a tag in {message:02x?}");
        let chunk = value(&mut rest, tag);
        let raw = &before[..before.len() - rest.len()];
        found.push(Field { number: tag >> 3, chunk, raw });
    }
    found
}

/// Steps over a value; gives it if it is length-delimited.
fn value<'a>(rest: &mut &'a [u8], tag: u64) -> Option<&'a [u8]> {
    let mut number = 0;
    match tag & 7 {
        0 => assert!(varint(rest, &mut number)),
        1 => drop(rest.split_off(..8).unwrap()),
        2 => {
            assert!(varint(rest, &mut number));
            return Some(rest.split_off(..usize::try_from(number).unwrap()).unwrap());
        }
        3 => loop {
            assert!(varint(rest, &mut number), "a group without an end");
            if number & 7 == 4 {
                assert_eq!(number >> 3, tag >> 3, "another group's end");
                break;
            }
            value(rest, number);
        },
        5 => drop(rest.split_off(..4).unwrap()),
        other => panic!("wire type {other}"),
    }
    None
}

fn varint(rest: &mut &[u8], value: &mut u64) -> bool {
    *value = 0;
    for shift in (0..70).step_by(7) {
        let Some((byte, after)) = rest.split_first() else {
            return false;
        };
        *rest = after;
        // Bits beyond the 64th are lost.
        *value |= if shift < 63 { u64::from(byte & 0x7f) << shift } else { u64::from(*byte) << 63 };
        if *byte < 0x80 {
            return true;
        }
    }
    false
}
