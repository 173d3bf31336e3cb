//! Values that stand in a pipeline.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A value that stands in a pipeline.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Value {
    /// True or false.
    Flag(bool),
    /// A whole number.
    Integer(i64),
    /// Any number.
    Number(f64),
    /// Text.
    Text(String),
}

impl fmt::Display for Value {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flag(flag) => write!(out, "{flag}"),
            Self::Integer(integer) => write!(out, "{integer}"),
            Self::Number(number) => write!(out, "{number}"),
            Self::Text(text) => write!(out, "{text:?}"),
        }
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
