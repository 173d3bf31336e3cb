//! Just enough of protobuf to write definitions that no client would.

pub(crate) fn varint(mut value: u64) -> Vec<u8> {
    let mut out = Vec::new();
    while value >= 0x80 {
        out.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
    out
}

pub(crate) fn number(field: u64, value: u64) -> Vec<u8> {
    [varint(field << 3), varint(value)].concat()
}

pub(crate) fn chunk(field: u64, value: &[u8]) -> Vec<u8> {
    [varint(field << 3 | 2), varint(value.len() as u64), value.to_vec()].concat()
}

/// A node without attributes.
pub(crate) fn node(name: &str, op: &str, inputs: &[&str]) -> Vec<u8> {
    node_with(name, op, inputs, &[])
}

/// A node with an attribute entry, or whatever else, behind its inputs.
pub(crate) fn node_with(name: &str, op: &str, inputs: &[&str], rest: &[u8]) -> Vec<u8> {
    let inputs: Vec<u8> = inputs.iter().flat_map(|input| chunk(3, input.as_bytes())).collect();
    [chunk(1, name.as_bytes()), chunk(2, op.as_bytes()), inputs, rest.to_vec()].concat()
}

/// An int64 scalar.
pub(crate) fn constant(name: &str, value: i64) -> Vec<u8> {
    let tensor = [number(1, 9), chunk(2, &[]), number(10, value as u64)].concat();
    node_with(name, "Const", &[], &attr("value", &chunk(8, &tensor)))
}

pub(crate) fn attr(name: &str, value: &[u8]) -> Vec<u8> {
    chunk(5, &[chunk(1, name.as_bytes()), chunk(2, value)].concat())
}

pub(crate) fn definition(nodes: &[Vec<u8>]) -> bytes::Bytes {
    let graph: Vec<u8> = nodes.iter().flat_map(|node| chunk(1, node)).collect();
    chunk(1, &graph).into()
}
