//! Values that stand in a pipeline.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Numbers from here on are written with an exponent.
const LONG: f64 = 1e17;
/// Numbers up to here, too.
const SHORT: f64 = 1e-7;

/// A value that stands in a pipeline.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(
    untagged,
    expecting = "a value is true or false, a text or a number, and an integer is at most 2^64 - 1"
)]
pub enum Value {
    /// True or false.
    Flag(bool),
    /// A whole number below 2^63.
    Integer(i64),
    /// A whole number from 2^63 on.
    Unsigned(u64),
    /// A number with a point or an exponent.
    Number(f64),
    /// Text.
    Text(String),
}

impl fmt::Display for Value {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flag(flag) => write!(out, "{flag}"),
            Self::Integer(integer) => write!(out, "{integer}"),
            Self::Unsigned(integer) => write!(out, "{integer}"),
            Self::Number(number) if (SHORT..LONG).contains(&number.abs()) || *number == 0.0 => {
                write!(out, "{number}")
            }
            Self::Number(number) => write!(out, "{number:e}"),
            Self::Text(text) => write!(out, "{text:?}"),
        }
    }
}

impl From<u64> for Value {
    fn from(integer: u64) -> Self {
        i64::try_from(integer).map_or(Self::Unsigned(integer), Self::Integer)
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
