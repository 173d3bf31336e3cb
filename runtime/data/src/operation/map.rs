//! Columns that a pipeline makes of others.

use arrow::array::{Array, ArrayRef, Datum, Scalar};
use arrow::compute::cast;
use arrow::compute::kernels::length::length;
use arrow::compute::kernels::numeric;
use arrow::datatypes::{DataType, Field};
use arrow::error::ArrowError;
use arrow::record_batch::RecordBatch;

use super::cast::exactly;
use super::fill::with_column;
use super::place;
use super::value::{arrow_type, natural, of_type, repeated};
use crate::error::DataError;
use crate::pipeline::{Arithmetic, Made, Map, Operand, Value};

pub(super) fn apply(map: &Map, records: &RecordBatch) -> Result<RecordBatch, DataError> {
    let (values, is_nullable) = match &map.made {
        Made::Rename(column) => return renamed(column, &map.column, records),
        Made::Copy(column) => {
            let at = place("map", column, records)?;
            (records.column(at).clone(), is_nullable(records, at))
        }
        Made::Value(value) => (repeated(&natural(value), records.num_rows())?, false),
        Made::Cast { column, to } => {
            let at = place("map", column, records)?;
            (exactly(column, records.column(at), &arrow_type(*to))?, is_nullable(records, at))
        }
        Made::Arithmetic { operator, left, right } => {
            let (left, right) = (term(left, map, records)?, term(right, map, records)?);
            computed(*operator, left, right, records.num_rows())?
        }
        Made::Length(column) => {
            let at = place("map", column, records)?;
            (lengths(column, records.column(at))?, is_nullable(records, at))
        }
    };
    let at = records.schema_ref().index_of(&map.column).unwrap_or(usize::MAX);
    let field = Field::new(&map.column, values.data_type().clone(), is_nullable);
    with_column(records, at, field, values)
}

fn is_nullable(records: &RecordBatch, at: usize) -> bool {
    records.schema_ref().fields().get(at).is_none_or(|field| field.is_nullable())
}

fn renamed(from: &str, to: &str, records: &RecordBatch) -> Result<RecordBatch, DataError> {
    let at = place("map", from, records)?;
    if from != to && records.schema_ref().index_of(to).is_ok() {
        return Err(DataError::column(to, "map renames another column to it, but it is there"));
    }
    let values = records.column(at).clone();
    let field = Field::new(to, values.data_type().clone(), is_nullable(records, at));
    with_column(records, at, field, values)
}

fn lengths(column: &str, values: &ArrayRef) -> Result<ArrayRef, DataError> {
    let unfit = |error: ArrowError| DataError::column(column, error.to_string());
    let lengths = length(values.as_ref()).map_err(unfit)?;
    cast(&lengths, &DataType::Int64).map_err(unfit)
}

/// A constant or a column, as one of the two terms of a computation.
struct Term {
    /// The column that an error names. A constant is of no column: its name is that of the column made.
    name: String,
    values: ArrayRef,
    /// The number, if it is a constant.
    number: Option<Value>,
    is_nullable: bool,
}

impl Term {
    const fn is_one(&self) -> bool {
        self.number.is_some()
    }

    /// Whether it has no sign, by its type or as a constant.
    fn is_unsigned(&self) -> bool {
        let is_positive = matches!(self.number, Some(Value::Integer(integer)) if integer >= 0);
        is_positive || self.values.data_type().is_unsigned_integer()
    }

    /// The values in the type of the computation. `other` is the other term.
    fn converted(&self, kind: &DataType, other: &Self) -> Result<ArrayRef, DataError> {
        match &self.number {
            Some(number) => of_type(&other.name, number, kind),
            None => exactly(&self.name, &self.values, kind),
        }
    }
}

fn computed(
    operator: Arithmetic,
    mut left: Term,
    mut right: Term,
    rows: usize,
) -> Result<(ArrayRef, bool), DataError> {
    let kind = common(&left, &right)?;
    (left.values, right.values) = (left.converted(&kind, &right)?, right.converted(&kind, &left)?);
    let how = match operator {
        Arithmetic::Add => numeric::add,
        Arithmetic::Subtract => numeric::sub,
        Arithmetic::Multiply => numeric::mul,
        Arithmetic::Divide => numeric::div,
        Arithmetic::Remainder => numeric::rem,
    };
    let found = both(&left, &right, how);
    let found = found.map_err(|error| unfit_row(&left, &right, how, &error))?;
    let found = if left.is_one() && right.is_one() { repeated(&found, rows)? } else { found };
    Ok((found, left.is_nullable || right.is_nullable))
}

type Compute = fn(&dyn Datum, &dyn Datum) -> Result<ArrayRef, ArrowError>;

fn both(left: &Term, right: &Term, how: Compute) -> Result<ArrayRef, ArrowError> {
    let one = |term: &Term| Scalar::new(term.values.clone());
    match (left.is_one(), right.is_one()) {
        (false, true) => how(&left.values, &one(right)),
        (true, false) => how(&one(left), &right.values),
        (_, _) => how(&left.values, &right.values),
    }
}

/// The error of a computation, with its row. A computation with constants alone has no row.
fn unfit_row(left: &Term, right: &Term, how: Compute, error: &ArrowError) -> DataError {
    let column = if left.is_one() { &right.name } else { &left.name };
    if left.is_one() && right.is_one() {
        return DataError::column(column, error.to_string());
    }
    let rows = if left.is_one() { right.values.len() } else { left.values.len() };
    let at = |term: &Term, row: usize| Term {
        name: String::new(),
        values: if term.is_one() { term.values.clone() } else { term.values.slice(row, 1) },
        number: None,
        is_nullable: term.is_nullable,
    };
    let fails = |row: &usize| both(&at(left, *row), &at(right, *row), how).is_err();
    match (0..rows).find(fails) {
        Some(row) => DataError::Value { column: column.clone(), row, what: error.to_string() },
        None => DataError::column(column, error.to_string()),
    }
}

fn term(operand: &Operand, map: &Map, records: &RecordBatch) -> Result<Term, DataError> {
    let number = |value: Value| Term {
        name: map.column.clone(),
        values: natural(&value),
        number: Some(value),
        is_nullable: false,
    };
    Ok(match operand {
        Operand::Integer(integer) => number(Value::Integer(*integer)),
        Operand::Unsigned(integer) => number(Value::Unsigned(*integer)),
        Operand::Number(fraction) => number(Value::Number(*fraction)),
        Operand::Column(column) => {
            let at = place("map", column, records)?;
            let values = records.column(at).clone();
            let is_nullable = is_nullable(records, at);
            Term { name: column.clone(), values, number: None, is_nullable }
        }
    })
}

/// The type of a computation with two terms: the column's type beside a constant, else the widest of their
/// kind. It has no sign where a term has 64 bits without one, and the other term has none either. An
/// integer column beside a constant with a fraction becomes floating-point numbers.
fn common(left: &Term, right: &Term) -> Result<DataType, DataError> {
    for term in [left, right] {
        let kind = term.values.data_type();
        if !(kind.is_integer() || kind.is_floating()) {
            return Err(DataError::column(&term.name, format!("{kind} is no type of numbers")));
        }
    }
    let (one, other) = (left.values.data_type(), right.values.data_type());
    Ok(match (left.is_one(), right.is_one()) {
        _ if one == other => one.clone(),
        (false, true) if one.is_floating() || other.is_integer() => one.clone(),
        (true, false) if other.is_floating() || one.is_integer() => other.clone(),
        _ if one.is_integer() && other.is_integer() => {
            let is_widest = [one, other].contains(&&DataType::UInt64);
            let is_unsigned = left.is_unsigned() && right.is_unsigned();
            if is_widest && is_unsigned { DataType::UInt64 } else { DataType::Int64 }
        }
        _ => DataType::Float64,
    })
}
