//! Values that stand in a `TensorProto`'s field for their type instead of in its content.

use bytes::Bytes;
use rondo_core::element::Dtype;
use rondo_core::status::Status;

use super::budget::Budget;
use super::refusal::{broken, malformed};
use crate::graph::wire::{Message, Value};

/// How values, or the parts of complex ones, stand in a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// A varint, of which the lower bytes count.
    Integer,
    /// A varint that is 0 or not.
    Bool,
    /// As in memory, of this many bytes.
    Memory(usize),
}

/// The field of a type that has a width.
const fn field_of(dtype: Dtype) -> (u64, Form) {
    match dtype {
        Dtype::Float => (5, Form::Memory(4)),
        Dtype::Double => (6, Form::Memory(8)),
        Dtype::Complex64 => (9, Form::Memory(4)),
        Dtype::Int64 => (10, Form::Integer),
        Dtype::Bool => (11, Form::Bool),
        Dtype::Complex128 => (12, Form::Memory(8)),
        Dtype::Half | Dtype::Bfloat16 => (13, Form::Integer),
        Dtype::Uint32 => (16, Form::Integer),
        Dtype::Uint64 => (17, Form::Integer),
        Dtype::Float8E5m2
        | Dtype::Float8E4m3fn
        | Dtype::Float8E4m3fnuz
        | Dtype::Float8E4m3b11fnuz
        | Dtype::Float8E5m2fnuz
        | Dtype::Float4E2m1fn => (18, Form::Memory(1)),
        _ => (7, Form::Integer),
    }
}

/// The bytes of `elements` values: what is missing repeats the last value there is, or is zero if
/// there is none; what is too much is left out.
pub(super) fn read(
    proto: Message<'_>,
    dtype: Dtype,
    elements: u64,
    budget: &mut Budget,
) -> Result<Bytes, Status> {
    let (number, form) = field_of(dtype);
    let width = dtype.width().unwrap_or(1);
    let needed = budget.take(elements.saturating_mul(width))?;
    let width = usize::try_from(width).unwrap_or(1);
    let mut values = Out { bytes: Vec::with_capacity(needed), needed, width };
    for field in proto.fields() {
        let field = field.map_err(malformed)?;
        if field.number == number {
            values.push(form, field.value)?;
        }
    }
    values.padded()
}

/// Values up to the number needed.
struct Out {
    bytes: Vec<u8>,
    needed: usize,
    width: usize,
}

impl Out {
    /// Takes one value, or a packed list of them.
    fn push(&mut self, form: Form, value: Value<'_>) -> Result<(), Status> {
        match (form, value) {
            (Form::Integer | Form::Bool, Value::Varint(value)) => self.integer(form, value),
            (Form::Integer | Form::Bool, Value::Chunk(packed)) => {
                for value in packed.packed_varints() {
                    self.integer(form, value.map_err(malformed)?);
                }
            }
            (Form::Memory(4), Value::Fixed32(part)) => self.memory(&part),
            (Form::Memory(8), Value::Fixed64(part)) => self.memory(&part),
            (Form::Memory(part), Value::Chunk(packed)) => {
                let found = packed.bytes.len();
                if !found.is_multiple_of(part) {
                    return Err(broken(format_args!(
                        "{found} bytes are no list of values of {part} bytes"
                    )));
                }
                self.memory(packed.bytes);
            }
            // Another wire type: an unknown field, for protobuf.
            _ => {}
        }
        Ok(())
    }

    fn integer(&mut self, form: Form, value: u64) {
        let value = if form == Form::Bool { u64::from(value != 0) } else { value };
        let bytes = value.to_le_bytes();
        self.memory(bytes.get(..self.width).unwrap_or(&bytes));
    }

    fn memory(&mut self, bytes: &[u8]) {
        let room = self.needed.saturating_sub(self.bytes.len());
        self.bytes.extend_from_slice(bytes.get(..room).unwrap_or(bytes));
    }

    fn padded(mut self) -> Result<Bytes, Status> {
        if !self.bytes.len().is_multiple_of(self.width) {
            let found = self.bytes.len();
            return Err(broken(format_args!(
                "the last of its complex numbers has one part only, after {found} bytes"
            )));
        }
        if self.bytes.is_empty() {
            self.bytes.resize(self.needed, 0);
        }
        let last = self.bytes.len().saturating_sub(self.width);
        while self.bytes.len() < self.needed {
            // The repetitions so far are repeated, which doubles them.
            let missing = self.needed.saturating_sub(self.bytes.len());
            let more = self.bytes.len().saturating_sub(last).min(missing);
            self.bytes.extend_from_within(last..last.saturating_add(more));
        }
        Ok(self.bytes.into())
    }
}
