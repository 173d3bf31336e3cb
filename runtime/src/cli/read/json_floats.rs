//! Floating-point numbers as JSON. JSON has no NaN and no infinity: these become texts, as in the JSON of
//! protobuf, so that no value of a column turns into null.

use std::sync::LazyLock;

use arrow::array::{Array, AsArray, Float64Array};
use arrow::compute::cast;
use arrow::datatypes::{DataType, FieldRef, Float64Type};
use arrow::error::ArrowError;
use arrow::json::writer::{NullableEncoder, make_encoder};
use arrow::json::{Encoder, EncoderFactory, EncoderOptions};

/// The text for a number that JSON does not have.
pub(super) const fn text_of(number: f64) -> Option<&'static str> {
    if number.is_nan() {
        Some("NaN")
    } else if number == f64::INFINITY {
        Some("Infinity")
    } else if number == f64::NEG_INFINITY {
        Some("-Infinity")
    } else {
        None
    }
}

/// Encodes the numbers that JSON does not have as texts, at any depth of a record. Leaves everything else to
/// Arrow.
#[derive(Debug)]
pub(super) struct Floats;

impl EncoderFactory for Floats {
    fn make_default_encoder<'a>(
        &self,
        field: &'a FieldRef,
        array: &'a dyn Array,
        _options: &'a EncoderOptions,
    ) -> Result<Option<NullableEncoder<'a>>, ArrowError> {
        static USUAL: LazyLock<EncoderOptions> = LazyLock::new(EncoderOptions::default);
        if !array.data_type().is_floating() {
            return Ok(None);
        }
        let wide = cast(array, &DataType::Float64)?;
        let numbers = wide.as_primitive::<Float64Type>().clone();
        let encoder = FloatEncoder { numbers, usual: make_encoder(field, array, &USUAL)? };
        Ok(Some(NullableEncoder::new(Box::new(encoder), array.nulls().cloned())))
    }
}

struct FloatEncoder<'a> {
    numbers: Float64Array,
    /// Encodes the numbers that JSON has.
    usual: NullableEncoder<'a>,
}

impl Encoder for FloatEncoder<'_> {
    fn encode(&mut self, index: usize, out: &mut Vec<u8>) {
        match self.numbers.values().get(index).copied().and_then(text_of) {
            Some(text) => out.extend_from_slice(format!("{text:?}").as_bytes()),
            None => self.usual.encode(index, out),
        }
    }
}
