//! The columns of records: what they become, and whether those of two files are the same.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Fields, Schema, SchemaRef};

use crate::error::DataError;
use crate::limits::COLUMNS_MAX;

/// The type of the values that a type only stores in another way: in a dictionary, or as runs of equal ones.
pub(crate) fn packed(kind: &DataType) -> Option<&DataType> {
    match kind {
        DataType::Dictionary(_, values) => Some(values),
        DataType::RunEndEncoded(_, values) => Some(values.data_type()),
        _ => None,
    }
}

/// The columns as readers see them: without the metadata of the files, and dictionaries and runs as their
/// values.
pub(crate) fn plain(schema: &Schema) -> Result<SchemaRef, DataError> {
    let found = schema.fields().len();
    if found > COLUMNS_MAX {
        return Err(DataError::Bound {
            what: "columns of a record".to_owned(),
            found: found as u64,
            bound: COLUMNS_MAX as u64,
            setting: "COLUMNS_MAX",
        });
    }
    let mut names = std::collections::BTreeSet::new();
    if let Some(twice) = schema.fields().iter().find(|field| !names.insert(field.name())) {
        return Err(DataError::column(twice.name(), "there are two of this name"));
    }
    let field = |field: &Arc<Field>| {
        let kind = field.data_type();
        let values = packed(kind).unwrap_or(kind);
        Field::new(field.name(), values.clone(), field.is_nullable())
    };
    Ok(Arc::new(Schema::new(schema.fields().iter().map(field).collect::<Vec<_>>())))
}

/// The columns of two files together: the same names and types, null where one of them has it.
///
/// # Errors
/// What is different.
pub(crate) fn merged(first: &SchemaRef, other: &SchemaRef) -> Result<SchemaRef, String> {
    if first == other {
        return Ok(Arc::clone(first));
    }
    let (wanted, found) = (first.fields().len(), other.fields().len());
    if wanted != found {
        return Err(format!("{found} ({}) instead of {wanted} ({})", names(other), names(first)));
    }
    let both = |(field, other): (&Arc<Field>, &Arc<Field>)| {
        let (name, found) = (field.name(), other.name());
        if name != found {
            return Err(format!("{found:?} stands where {name:?} stands there"));
        }
        let (wanted, found) = (field.data_type(), other.data_type());
        if !is_same(wanted, found) {
            return Err(format!("{name:?} is of type {found}, there of type {wanted}"));
        }
        let is_nullable = field.is_nullable() || other.is_nullable();
        Ok(field.as_ref().clone().with_nullable(is_nullable))
    };
    let fields = first.fields().iter().zip(other.fields()).map(both);
    Ok(Arc::new(Schema::new(fields.collect::<Result<Vec<_>, String>>()?)))
}

/// Whether two types have the same values, of the same names within structs, whatever their order there. The
/// names of a list's items and of a map's keys and values do not count.
pub(crate) fn is_same(one: &DataType, other: &DataType) -> bool {
    let is_same_field = |one: &Field, other: &Field| {
        one.is_nullable() == other.is_nullable() && is_same(one.data_type(), other.data_type())
    };
    match (one, other) {
        _ if one == other => true,
        (DataType::Struct(one), DataType::Struct(other)) => {
            one.len() == other.len() && is_within(one, other) && is_within(other, one)
        }
        (DataType::List(one), DataType::List(other))
        | (DataType::LargeList(one), DataType::LargeList(other))
        | (DataType::ListView(one), DataType::ListView(other))
        | (DataType::LargeListView(one), DataType::LargeListView(other)) => {
            is_same_field(one, other)
        }
        (DataType::FixedSizeList(one, size), DataType::FixedSizeList(other, other_size)) => {
            size == other_size && is_same_field(one, other)
        }
        (DataType::Map(one, is_sorted), DataType::Map(other, is_other_sorted)) => {
            is_sorted == is_other_sorted
                && one.is_nullable() == other.is_nullable()
                && match (one.data_type(), other.data_type()) {
                    (DataType::Struct(one), DataType::Struct(other)) => {
                        one.len() == other.len()
                            && one.iter().zip(other).all(|(one, other)| is_same_field(one, other))
                    }
                    _ => false,
                }
        }
        (DataType::Dictionary(keys, one), DataType::Dictionary(other_keys, other)) => {
            keys == other_keys && is_same(one, other)
        }
        _ => one.equals_datatype(other),
    }
}

/// Whether each of these fields is among the others, once.
fn is_within(fields: &Fields, others: &Fields) -> bool {
    fields.iter().all(|field| {
        let mut found = others.iter().filter(|other| other.name() == field.name());
        let is_like = found.next().is_some_and(|other| {
            field.is_nullable() == other.is_nullable()
                && is_same(field.data_type(), other.data_type())
        });
        is_like && found.next().is_none()
    })
}

/// The names of the columns, for people.
pub(crate) fn names(schema: &Schema) -> String {
    let names: Vec<String> = schema.fields().iter().map(|it| format!("{:?}", it.name())).collect();
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}
