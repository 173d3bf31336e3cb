//! Values that stand in a pipeline.

use std::fmt;

use serde::de::{Deserializer, Error, Visitor};
use serde::{Deserialize, Serialize};

/// Numbers from here on are written with an exponent.
const LONG: f64 = 1e17;
/// Numbers up to here, too.
const SHORT: f64 = 1e-7;

/// A value that stands in a pipeline.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(
    untagged,
    expecting = "a value is true or false, a text or a number, and an integer is at most 2^63 - 1"
)]
pub enum Value {
    /// True or false.
    Flag(bool),
    /// A whole number.
    Integer(i64),
    /// Any number.
    Number(#[serde(deserialize_with = "number")] f64),
    /// Text.
    Text(String),
}

impl fmt::Display for Value {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flag(flag) => write!(out, "{flag}"),
            Self::Integer(integer) => write!(out, "{integer}"),
            Self::Number(number) if (SHORT..LONG).contains(&number.abs()) || *number == 0.0 => {
                write!(out, "{number}")
            }
            Self::Number(number) => write!(out, "{number:e}"),
            Self::Text(text) => write!(out, "{text:?}"),
        }
    }
}

/// Reads a number that is no integer of 64 bits with a sign. A larger integer must be one of floating point.
pub(super) fn number<'de, D: Deserializer<'de>>(from: D) -> Result<f64, D::Error> {
    from.deserialize_f64(Number)
}

struct Number;

impl Visitor<'_> for Number {
    type Value = f64;

    fn expecting(&self, text: &mut fmt::Formatter<'_>) -> fmt::Result {
        text.write_str("a number")
    }

    fn visit_f64<E>(self, number: f64) -> Result<f64, E> {
        Ok(number)
    }

    fn visit_u64<E: Error>(self, integer: u64) -> Result<f64, E> {
        let number = integer as f64;
        let is_exact = number as u128 == u128::from(integer);
        is_exact.then_some(number).ok_or_else(|| E::custom("an integer is at most 2^63 - 1"))
    }
}

macro_rules! from {
    ($($type:ty => $variant:ident),*) => {$(
        impl From<$type> for Value {
            fn from(value: $type) -> Self {
                Self::$variant(value.into())
            }
        }
    )*};
}

from!(bool => Flag, i64 => Integer, i32 => Integer, f64 => Number, &str => Text, String => Text);
