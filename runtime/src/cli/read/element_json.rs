//! Elements as lines of JSON.

use std::fmt::Write;

use rondo_core::element::{Dtype, Element, Spec, Tensor, Values};
use serde_json::{Map, Value, json};

use super::json_floats::text_of;

/// An element as JSON: by the names of its tensors if its structure is known, else a list. A lone
/// tensor stands for itself.
pub(super) fn line_of(element: &Element, spec: Option<&Spec>) -> String {
    let values: Vec<Value> = element.components.iter().map(tensor).collect();
    let components = spec.map(Spec::components).unwrap_or_default();
    let is_named = components.len() == values.len()
        && components.iter().all(|component| !component.path.is_empty());
    if is_named {
        let named = components.into_iter().map(|component| component.path).zip(values);
        return Value::Object(named.collect::<Map<_, _>>()).to_string();
    }
    match <[Value; 1]>::try_from(values) {
        Ok([only]) => only.to_string(),
        Err(values) => Value::Array(values).to_string(),
    }
}

/// A tensor as nested lists of its values.
fn tensor(tensor: &Tensor) -> Value {
    let values = match tensor.values() {
        Values::Fixed(bytes) => {
            let width = usize::try_from(tensor.dtype().width().unwrap_or(1)).unwrap_or(1).max(1);
            bytes.chunks_exact(width).map(|value| number(tensor.dtype(), value)).collect()
        }
        Values::Strings { .. } => tensor.each_string().map(|text| string(&text)).collect(),
        Values::Encoded(bytes) => vec![json!({ "encoded": hex(bytes) })],
    };
    nested(&mut values.into_iter(), tensor.shape().sizes())
}

fn nested(values: &mut impl Iterator<Item = Value>, sizes: &[u64]) -> Value {
    match sizes.split_first() {
        None => values.next().unwrap_or(Value::Null),
        Some((size, inner)) => (0..*size).map(|_| nested(values, inner)).collect(),
    }
}

fn string(bytes: &[u8]) -> Value {
    match std::str::from_utf8(bytes) {
        Ok(text) => text.into(),
        Err(_) => json!({ "bytes": hex(bytes) }),
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        // A string takes whatever is written.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// A value of a type that JSON knows; else its bytes.
fn number(dtype: Dtype, value: &[u8]) -> Value {
    fn array<const N: usize>(value: &[u8]) -> [u8; N] {
        value.try_into().unwrap_or([0; N])
    }
    match dtype {
        Dtype::Bool => (value != [0]).into(),
        Dtype::Int8 | Dtype::Qint8 => i8::from_le_bytes(array(value)).into(),
        Dtype::Uint8 | Dtype::Quint8 => u8::from_le_bytes(array(value)).into(),
        Dtype::Int16 | Dtype::Qint16 => i16::from_le_bytes(array(value)).into(),
        Dtype::Uint16 | Dtype::Quint16 => u16::from_le_bytes(array(value)).into(),
        Dtype::Int32 | Dtype::Qint32 => i32::from_le_bytes(array(value)).into(),
        Dtype::Uint32 => u32::from_le_bytes(array(value)).into(),
        Dtype::Int64 => i64::from_le_bytes(array(value)).into(),
        Dtype::Uint64 => u64::from_le_bytes(array(value)).into(),
        Dtype::Double => float(f64::from_le_bytes(array(value))),
        Dtype::Float => float(f64::from(f32::from_le_bytes(array(value)))),
        Dtype::Bfloat16 => {
            let [low, high] = array(value);
            float(f64::from(f32::from_le_bytes([0, 0, low, high])))
        }
        _ => json!({ "bytes": hex(value) }),
    }
}

/// A floating-point number: text if JSON does not have it.
fn float(number: f64) -> Value {
    text_of(number).map_or_else(|| number.into(), Value::from)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use bytes::Bytes;
    use rondo_core::element::{PartialShape, Shape, TensorSpec};

    use super::*;

    fn element() -> Element {
        let numbers: Vec<u8> = [1_i64, -2, 3, 4].iter().flat_map(|it| it.to_le_bytes()).collect();
        let numbers = Tensor::fixed(Dtype::Int64, Shape::of([2, 2]).unwrap(), numbers.into());
        let text = Bytes::from_static(b"ab\xff");
        let text = Tensor::strings(Shape::list(2).unwrap(), text, [2, 3].into());
        Element { components: vec![numbers.unwrap(), text.unwrap()] }
    }

    fn leaf(dtype: Dtype) -> Spec {
        let tensor = TensorSpec { dtype, shape: PartialShape::UnknownRank };
        Spec::Tensor { tensor, name: String::new() }
    }

    #[test]
    fn tensors_are_nested_lists_under_their_names() {
        let spec = Spec::Dict(BTreeMap::from([
            ("a".to_owned(), leaf(Dtype::Int64)),
            ("b".to_owned(), leaf(Dtype::String)),
        ]));
        let named = r#"{"a":[[1,-2],[3,4]],"b":["ab",{"bytes":"ff"}]}"#;
        assert_eq!(line_of(&element(), Some(&spec)), named);
        let unnamed = r#"[[[1,-2],[3,4]],["ab",{"bytes":"ff"}]]"#;
        assert_eq!(line_of(&element(), None), unnamed);
        assert_eq!(line_of(&element(), Some(&leaf(Dtype::Int64))), unnamed, "of something else");
    }

    #[test]
    fn a_lone_scalar_is_a_number() {
        for (dtype, bytes, line) in [
            (Dtype::Float, &1.5_f32.to_le_bytes()[..], "1.5"),
            (Dtype::Bfloat16, &[0xc0, 0x3f], "1.5"),
            (Dtype::Float, &f32::NAN.to_le_bytes(), "\"NaN\""),
            (Dtype::Double, &f64::INFINITY.to_le_bytes(), "\"Infinity\""),
            (Dtype::Bfloat16, &[0x80, 0xff], "\"-Infinity\""),
            (Dtype::Bool, &[1], "true"),
            (Dtype::Int8, &[0xff], "-1"),
            (Dtype::Half, &[1, 2], r#"{"bytes":"0102"}"#),
        ] {
            let tensor = Tensor::fixed(dtype, Shape::scalar(), Bytes::copy_from_slice(bytes));
            let element = Element { components: vec![tensor.unwrap()] };
            assert_eq!(line_of(&element, None), line, "{dtype}");
        }
    }
}
