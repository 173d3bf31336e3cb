//! Columns that a pipeline makes of others.

use serde::{Deserialize, Serialize};

use super::{ColumnType, Value};

/// A column made of others; it takes the place of one that has its name.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Form", into = "Form")]
pub struct Map {
    /// Its name.
    pub column: String,
    /// How it is made.
    pub made: Made,
}

/// How a column is made.
#[derive(Clone, Debug, PartialEq)]
pub enum Made {
    /// It is another one, which goes away.
    Rename(String),
    /// It is another one, which stays.
    Copy(String),
    /// It is the same for every record.
    Value(Value),
    /// It is another one, of another type.
    Cast {
        /// The other one.
        column: String,
        /// The type.
        to: ColumnType,
    },
    /// It is computed from two operands.
    Arithmetic {
        /// The operation.
        operator: Arithmetic,
        /// The first operand.
        left: Operand,
        /// The second operand.
        right: Operand,
    },
    /// The length of the strings of a column in bytes, or of its lists in values.
    Length(String),
}

/// An operation on two numbers. With integers it is exact: a result that the type does not have is an error.
/// With floating-point numbers it rounds as IEEE 754 says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arithmetic {
    /// Their sum.
    Add,
    /// Their difference.
    Subtract,
    /// Their product.
    Multiply,
    /// Their quotient. The quotient of integers is rounded towards zero.
    Divide,
    /// The remainder of a division.
    Remainder,
}

/// An operand of a computation: a column by its name, or a number.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(
    untagged,
    expecting = "an operand is a column or a number, and an integer is at most 2^64 - 1"
)]
pub enum Operand {
    /// A whole number below 2^63.
    Integer(i64),
    /// A whole number from 2^63 on.
    Unsigned(u64),
    /// A number with a point or an exponent.
    Number(f64),
    /// A column.
    Column(String),
}

/// A map as it is written: one key beside the column says how it is made.
#[derive(Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Form {
    column: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    rename: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    copy: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cast: Option<CastForm>,
    #[serde(skip_serializing_if = "Option::is_none")]
    add: Option<(Operand, Operand)>,
    #[serde(skip_serializing_if = "Option::is_none")]
    subtract: Option<(Operand, Operand)>,
    #[serde(skip_serializing_if = "Option::is_none")]
    multiply: Option<(Operand, Operand)>,
    #[serde(skip_serializing_if = "Option::is_none")]
    divide: Option<(Operand, Operand)>,
    #[serde(skip_serializing_if = "Option::is_none")]
    remainder: Option<(Operand, Operand)>,
    #[serde(skip_serializing_if = "Option::is_none")]
    length: Option<String>,
}

#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct CastForm {
    column: String,
    to: ColumnType,
}

/// The error for a map without exactly one way to make the column.
const ONE_WAY: &str = "a map has, beside `column`, exactly one of `rename`, `copy`, `value`, \
     `cast`, `add`, `subtract`, `multiply`, `divide`, `remainder`, `length`";

impl TryFrom<Form> for Map {
    type Error = &'static str;

    fn try_from(form: Form) -> Result<Self, Self::Error> {
        let compute = |operator| {
            move |(left, right): (Operand, Operand)| Made::Arithmetic { operator, left, right }
        };
        let ways = [
            form.rename.map(Made::Rename),
            form.copy.map(Made::Copy),
            form.value.map(Made::Value),
            form.cast.map(|cast| Made::Cast { column: cast.column, to: cast.to }),
            form.add.map(compute(Arithmetic::Add)),
            form.subtract.map(compute(Arithmetic::Subtract)),
            form.multiply.map(compute(Arithmetic::Multiply)),
            form.divide.map(compute(Arithmetic::Divide)),
            form.remainder.map(compute(Arithmetic::Remainder)),
            form.length.map(Made::Length),
        ];
        let mut ways = ways.into_iter().flatten();
        match (ways.next(), ways.next()) {
            (Some(made), None) => Ok(Self { column: form.column, made }),
            (_, _) => Err(ONE_WAY),
        }
    }
}

impl From<Map> for Form {
    fn from(map: Map) -> Self {
        let empty = Self { column: map.column, ..Self::default() };
        match map.made {
            Made::Rename(column) => Self { rename: Some(column), ..empty },
            Made::Copy(column) => Self { copy: Some(column), ..empty },
            Made::Value(value) => Self { value: Some(value), ..empty },
            Made::Cast { column, to } => Self { cast: Some(CastForm { column, to }), ..empty },
            Made::Length(column) => Self { length: Some(column), ..empty },
            Made::Arithmetic { operator, left, right } => {
                let operands = Some((left, right));
                match operator {
                    Arithmetic::Add => Self { add: operands, ..empty },
                    Arithmetic::Subtract => Self { subtract: operands, ..empty },
                    Arithmetic::Multiply => Self { multiply: operands, ..empty },
                    Arithmetic::Divide => Self { divide: operands, ..empty },
                    Arithmetic::Remainder => Self { remainder: operands, ..empty },
                }
            }
        }
    }
}
