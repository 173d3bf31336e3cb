//! Pipelines: where a dataset's records are, and what is done to them.
//!
//! The same pipeline is a Rust value, a YAML or JSON document, and a `rondo.v1.Pipeline`.

mod build;
mod condition;
mod expression;
mod message;
mod source;
mod text;
mod value;

use serde::{Deserialize, Serialize};

pub use condition::{Condition, Test};
pub use expression::{Arithmetic, Made, Map, Operand};
pub use source::{
    ArrowSource, Column, ColumnType, Compression, CsvSource, JsonLinesSource, ParquetSource,
    RangeSource, Source, TextSource, TfrecordSource, WebdatasetSource,
};
pub use value::Value;

/// The version of pipelines that this Rondo knows.
pub const PIPELINE_VERSION: u32 = 1;

/// Records of one split, about, unless the pipeline says something else.
pub const SPLIT_RECORDS: u64 = 1 << 16;

/// Bytes of files in one split, about, unless the pipeline says something else.
pub const SPLIT_BYTES: u64 = 16 << 20;

/// Where a dataset's records are, and what is done to them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pipeline {
    /// What the rest means: [`PIPELINE_VERSION`].
    #[serde(default = "this_version")]
    pub version: u32,
    /// Where the records are.
    pub source: Source,
    /// What is done to them, in this order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub operations: Vec<Operation>,
    /// Whether records that cannot be read are passed over and counted; else they are errors.
    #[serde(default)]
    pub skip_corrupt: bool,
    /// Records of one split, about; [`SPLIT_RECORDS`] if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub split_records: Option<u64>,
    /// Bytes of files in one split, about; [`SPLIT_BYTES`] if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub split_bytes: Option<u64>,
}

const fn this_version() -> u32 {
    PIPELINE_VERSION
}

/// What is done to records.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Operation {
    /// Another order, the same for the same seed.
    Shuffle(Shuffle),
    /// Successive records together.
    Batch(BatchOf),
    /// Passes over the records.
    Repeat(Repeat),
    /// The first so many.
    Take(u64),
    /// All but the first so many.
    Skip(u64),
    /// Some of each so many.
    Shard(ShardOf),
    /// Several files in turn.
    Interleave(Interleave),
    /// These columns only, in this order.
    Select(Vec<String>),
    /// The records of which something is true.
    Filter(Condition),
    /// A column made of others.
    Map(Map),
    /// Batches that are made ahead.
    Prefetch(u64),
    /// A value where a column has none.
    FillNull(FillNull),
}

impl Operation {
    /// What it is called.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Shuffle(_) => "shuffle",
            Self::Batch(_) => "batch",
            Self::Repeat(_) => "repeat",
            Self::Take(_) => "take",
            Self::Skip(_) => "skip",
            Self::Shard(_) => "shard",
            Self::Interleave(_) => "interleave",
            Self::Select(_) => "select",
            Self::Filter(_) => "filter",
            Self::Map(_) => "map",
            Self::Prefetch(_) => "prefetch",
            Self::FillNull(_) => "fill_null",
        }
    }
}

/// Another order: splits of a pass, and the records within a split.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shuffle {
    /// What the order depends on.
    pub seed: u64,
    /// Records among which the next one is drawn.
    pub buffer: u64,
}

/// Successive records together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BatchOf {
    /// Records in a batch.
    pub size: u64,
    /// Whether fewer of them, at the end, are left out.
    #[serde(default)]
    pub drop_remainder: bool,
}

/// Passes over the records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Repeat {
    /// One pass after the other, without end.
    Endless,
    /// So many passes.
    Count(u64),
}

/// Every `count`th, from the `index`th on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ShardOf {
    /// The first, from 0 on.
    pub index: u64,
    /// How many there are.
    pub count: u64,
}

/// Several files in turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Interleave {
    /// Files.
    pub cycle: u64,
    /// Successive records of a file.
    #[serde(default = "one")]
    pub block: u64,
}

const fn one() -> u64 {
    1
}

/// A value where a column has none.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FillNull {
    /// The column.
    pub column: String,
    /// The value, of the column's type.
    pub value: Value,
}

impl Pipeline {
    /// The target of records in a split.
    pub fn records_per_split(&self) -> u64 {
        self.split_records.unwrap_or(SPLIT_RECORDS).max(1)
    }

    /// The target of bytes in a split.
    pub fn bytes_per_split(&self) -> u64 {
        self.split_bytes.unwrap_or(SPLIT_BYTES).max(1)
    }
}
