//! Protocol buffers by hand: fields in the numbers of the public tables, independent of any
//! generated code.

/// A field's value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
    /// int32, int64, bool, enum.
    Int(i64),
    /// fixed64.
    Fixed(u64),
    /// string, bytes, message.
    Bytes(Vec<u8>),
}
use Value::{Bytes, Fixed, Int};

/// The bytes of a message with these fields.
pub(crate) fn message(fields: &[(u64, Value)]) -> Vec<u8> {
    let mut out = Vec::new();
    for (number, value) in fields {
        let key = number << 3;
        match value {
            Int(value) => {
                varint(key, &mut out);
                varint(value.cast_unsigned(), &mut out);
            }
            Fixed(value) => {
                varint(key | 1, &mut out);
                out.extend(value.to_le_bytes());
            }
            Bytes(value) => {
                varint(key | 2, &mut out);
                varint(value.len() as u64, &mut out);
                out.extend(value);
            }
        }
    }
    out
}

fn varint(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(value.to_le_bytes()[0] | 0x80);
        value >>= 7;
    }
    out.push(value.to_le_bytes()[0]);
}

/// The fields of a message.
pub(crate) fn fields(mut bytes: &[u8]) -> Vec<(u64, Value)> {
    let mut found = Vec::new();
    while !bytes.is_empty() {
        let key = take_varint(&mut bytes);
        let value = match key & 7 {
            0 => Int(take_varint(&mut bytes).cast_signed()),
            1 => Fixed(u64::from_le_bytes(take(&mut bytes, 8).try_into().unwrap())),
            2 => {
                let length = take_varint(&mut bytes);
                Bytes(take(&mut bytes, usize::try_from(length).unwrap()).to_vec())
            }
            other => panic!("wire type {other}"),
        };
        found.push((key >> 3, value));
    }
    found
}

fn take<'a>(bytes: &mut &'a [u8], count: usize) -> &'a [u8] {
    let (taken, rest) = bytes.split_at(count);
    *bytes = rest;
    taken
}

fn take_varint(bytes: &mut &[u8]) -> u64 {
    let mut value = 0;
    for shift in (0..70).step_by(7) {
        let byte = take(bytes, 1)[0];
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return value;
        }
    }
    panic!("a varint without end");
}

/// A text.
pub(crate) fn text(value: &str) -> Value {
    Bytes(value.into())
}

/// A message within a message.
pub(crate) fn sub(fields: &[(u64, Value)]) -> Value {
    Bytes(message(fields))
}
