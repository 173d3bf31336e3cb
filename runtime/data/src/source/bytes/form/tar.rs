//! Samples of WebDataset: a name, and bytes by extension.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use arrow::array::{ArrayRef, BinaryArray, StringArray};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use arrow::record_batch::RecordBatch;
use bytes::Bytes;

use super::super::framing::{members, split_name};

/// The column of a sample's name.
const KEY: &str = "__key__";

/// The columns of samples that have these extensions; those that not each of them has may be null.
pub(in super::super) fn schema(
    extensions: &BTreeSet<String>,
    in_each: &BTreeSet<String>,
) -> SchemaRef {
    let key = Field::new(KEY, DataType::Utf8, false);
    let column = |name: &String| Field::new(name, DataType::Binary, !in_each.contains(name));
    let columns = extensions.iter().map(column);
    Arc::new(Schema::new(std::iter::once(key).chain(columns).collect::<Vec<_>>()))
}

pub(super) fn read(records: &[Bytes], schema: &SchemaRef) -> Result<RecordBatch, String> {
    let samples = records.iter().map(sample).collect::<Result<Vec<Sample>, String>>()?;
    let column = |field: &Arc<Field>| -> ArrayRef {
        if field.name() == KEY {
            return Arc::new(StringArray::from_iter_values(samples.iter().map(|it| &it.key)));
        }
        let values = samples.iter().map(|sample| sample.parts.get(field.name()));
        Arc::new(BinaryArray::from_iter(values))
    };
    if let Some((key, other)) = samples.iter().find_map(|sample| {
        let other = sample.parts.keys().find(|name| schema.index_of(name).is_err())?;
        Some((&sample.key, other))
    }) {
        return Err(format!("the sample {key:?} has {other:?}, which no other has"));
    }
    let columns = schema.fields().iter().map(column).collect();
    RecordBatch::try_new(schema.clone(), columns).map_err(|error| error.to_string())
}

struct Sample {
    key: String,
    parts: BTreeMap<String, Bytes>,
}

fn sample(record: &Bytes) -> Result<Sample, String> {
    let mut found = Sample { key: String::new(), parts: BTreeMap::new() };
    for member in members(record)? {
        let Some((key, extension)) = split_name(&member.name) else {
            continue;
        };
        if found.key.is_empty() {
            key.clone_into(&mut found.key);
        }
        let twice = found.parts.insert(extension.to_lowercase(), record.slice(member.content));
        if twice.is_some() {
            return Err(format!("the sample {key:?} has {extension:?} twice"));
        }
    }
    Ok(found)
}
