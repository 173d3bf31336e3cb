//! Walks through a JSON object beside its decoder. It checks that the columns keep the values, and that no
//! key stands there twice.

use std::fmt;

use arrow::datatypes::{DataType, Field, Fields, SchemaRef};
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use crate::exact;

/// Checks that the columns keep the values of an object.
///
/// # Errors
/// The column, the value, the type, and the reason.
pub(super) fn check(record: &[u8], schema: &SchemaRef) -> Result<(), String> {
    let mut values = serde_json::Deserializer::from_slice(record.trim_ascii());
    let checked = Members(schema.fields()).deserialize(&mut values);
    checked.map_err(|error| {
        let text = error.to_string();
        // The place in the line says nothing: the error names the column.
        text.rsplit_once(" at line ").map_or_else(|| text.clone(), |(what, _)| what.to_owned())
    })
}

/// A value of a column.
struct Member<'a>(&'a Field);

impl<'de> DeserializeSeed<'de> for Member<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, values: D) -> Result<(), D::Error> {
        let Self(field) = self;
        match field.data_type() {
            DataType::Struct(fields) => Members(fields).deserialize(values),
            DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) => {
                values.deserialize_any(Items { item, of: field })
            }
            kind if exact::is_checked(kind) => {
                let value: &RawValue = serde::Deserialize::deserialize(values)?;
                check_leaf(field, value.get()).map_err(D::Error::custom)
            }
            DataType::Binary => {
                let value: &RawValue = serde::Deserialize::deserialize(values)?;
                check_binary(field, value.get()).map_err(D::Error::custom)
            }
            _ => serde::Deserialize::deserialize(values).map(|IgnoredAny| ()),
        }
    }
}

/// A number, or the text of a number or a time.
fn check_leaf(field: &Field, value: &str) -> Result<(), String> {
    let kept = match value.starts_with('"') {
        true => {
            let text = serde_json::from_str::<String>(value).map_err(|error| error.to_string())?;
            exact::check(&text, field.data_type())
        }
        false => exact::check_number(value, field.data_type()),
    };
    kept.map_err(|what| {
        let name = field.name();
        format!("column {name:?}: {what}; if its type is another one, give the source `columns`")
    })
}

/// Refuses text with a single hexadecimal digit behind its last pair: the decoder makes a byte of it.
/// The decoder itself refuses values that are no text.
fn check_binary(field: &Field, value: &str) -> Result<(), String> {
    // Escapes such as `\u0030` are digits, too.
    let Ok(digits) = serde_json::from_str::<String>(value) else {
        return Ok(());
    };
    if digits.len().is_multiple_of(2) {
        return Ok(());
    }
    let (name, kind) = (field.name(), field.data_type());
    Err(format!(
        "column {name:?}: {digits:?} does not fit the type {kind}: it ends with half a byte"
    ))
}

/// The members of an object.
struct Members<'a>(&'a Fields);

impl<'de> DeserializeSeed<'de> for Members<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, values: D) -> Result<(), D::Error> {
        values.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Members<'_> {
    type Value = ();

    fn expecting(&self, text: &mut fmt::Formatter<'_>) -> fmt::Result {
        text.write_str("an object")
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<(), A::Error> {
        let mut seen = vec![false; self.0.len()];
        while let Some(name) = members.next_key::<String>()? {
            match self.0.find(&name) {
                Some((place, field)) => {
                    if seen.get_mut(place).is_some_and(|seen| std::mem::replace(seen, true)) {
                        let what = format!("the key {name:?} stands twice in an object");
                        return Err(A::Error::custom(what));
                    }
                    members.next_value_seed(Member(field))?;
                }
                None => members.next_value::<IgnoredAny>().map(|IgnoredAny| ())?,
            }
        }
        Ok(())
    }
}

/// The items of a list.
struct Items<'a> {
    item: &'a Field,
    /// The column that an error names.
    of: &'a Field,
}

impl<'de> Visitor<'de> for Items<'_> {
    type Value = ();

    fn expecting(&self, text: &mut fmt::Formatter<'_>) -> fmt::Result {
        text.write_str("a list")
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        let item = self.item.clone().with_name(self.of.name());
        while items.next_element_seed(Member(&item))?.is_some() {}
        Ok(())
    }
}
