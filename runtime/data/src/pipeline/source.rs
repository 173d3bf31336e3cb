//! Where records are.

use serde::{Deserialize, Serialize};

/// Where records are. Files are paths and URLs, in which `*`, `?`, `[…]` and `**` stand for what
/// they do in shells.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// Integers.
    Range(RangeSource),
    /// Lines of text.
    Text(TextSource),
    /// Fields of text, one record a line.
    Csv(CsvSource),
    /// JSON objects, one a line.
    JsonLines(JsonLinesSource),
    /// Parquet files.
    Parquet(ParquetSource),
    /// Arrow IPC files.
    Arrow(ArrowSource),
    /// TFRecord files.
    Tfrecord(TfrecordSource),
    /// Tar files.
    Webdataset(WebdatasetSource),
}

/// Integers from `start` on, below (or, with a negative step, above) `end`, in the column `value`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RangeSource {
    /// The first.
    #[serde(default)]
    pub start: i64,
    /// Where it ends; not part of it.
    pub end: i64,
    /// From one to the next; not 0.
    #[serde(default = "one")]
    pub step: i64,
}

/// Lines of text, in the column `line`, without what ends them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TextSource {
    /// The files.
    pub files: Vec<String>,
    /// How they are compressed.
    #[serde(default)]
    pub compression: Compression,
}

/// Fields of text, one record a line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CsvSource {
    /// The files.
    pub files: Vec<String>,
    /// How they are compressed.
    #[serde(default)]
    pub compression: Compression,
    /// Whether the first line of each file names the columns.
    #[serde(default = "yes")]
    pub header: bool,
    /// What stands between fields: a single ASCII character.
    #[serde(default = "comma")]
    pub delimiter: char,
    /// The columns; found by looking at the first records if there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub columns: Vec<Column>,
}

/// JSON objects, one a line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JsonLinesSource {
    /// The files.
    pub files: Vec<String>,
    /// How they are compressed.
    #[serde(default)]
    pub compression: Compression,
    /// The columns; found by looking at the first records if there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub columns: Vec<Column>,
}

/// Parquet files.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ParquetSource {
    /// The files.
    pub files: Vec<String>,
}

/// Arrow IPC files.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ArrowSource {
    /// The files.
    pub files: Vec<String>,
}

/// TFRecord files.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TfrecordSource {
    /// The files.
    pub files: Vec<String>,
    /// How they are compressed.
    #[serde(default)]
    pub compression: Compression,
    /// Features of the `tensorflow.Example` that each record is. If there are none, a record is
    /// bytes in the column `record`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub example: Vec<Column>,
}

/// Tar files, in which successive members whose names agree up to the first dot are a record: its
/// name in the column `__key__`, the members' bytes in columns named by what follows the dot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WebdatasetSource {
    /// The files.
    pub files: Vec<String>,
    /// How they are compressed.
    #[serde(default)]
    pub compression: Compression,
}

/// How a file is compressed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Compression {
    /// As its name ends: `.gz`, `.zz`, `.zst`, anything else not at all.
    #[default]
    ByName,
    /// Not at all.
    None,
    /// RFC 1952, of one or more members.
    Gzip,
    /// RFC 1950.
    Zlib,
    /// RFC 8878.
    Zstd,
}

/// A column that a source is told to have.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Column {
    /// Its name.
    pub name: String,
    /// The type of its values.
    #[serde(rename = "type")]
    pub kind: ColumnType,
    /// The sizes of the tensor that each record has in it; none for a single value.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub shape: Vec<u64>,
    /// Whether each record has a list of any length in it.
    #[serde(default)]
    pub list: bool,
}

/// The type of a column's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs, reason = "their names say it")]
pub enum ColumnType {
    Bool,
    Int8,
    Int16,
    Int32,
    Int64,
    Uint8,
    Uint16,
    Uint32,
    Uint64,
    Float32,
    Float64,
    /// UTF-8.
    String,
    /// Bytes.
    Binary,
    /// Days since 1970-01-01.
    Date,
    /// Microseconds since 1970-01-01, without a time zone.
    Timestamp,
}

const fn one() -> i64 {
    1
}

const fn yes() -> bool {
    true
}

const fn comma() -> char {
    ','
}

impl Column {
    /// A column of single values.
    pub fn new(name: impl Into<String>, kind: ColumnType) -> Self {
        Self { name: name.into(), kind, shape: Vec::new(), list: false }
    }
}

impl Source {
    /// Its files; none for a range.
    pub fn files(&self) -> &[String] {
        match self {
            Self::Range(_) => &[],
            Self::Text(text) => &text.files,
            Self::Csv(csv) => &csv.files,
            Self::JsonLines(json) => &json.files,
            Self::Parquet(parquet) => &parquet.files,
            Self::Arrow(arrow) => &arrow.files,
            Self::Tfrecord(tfrecord) => &tfrecord.files,
            Self::Webdataset(tar) => &tar.files,
        }
    }

    /// How its files are compressed, as far as it says so.
    pub const fn compression(&self) -> Compression {
        match self {
            Self::Range(_) | Self::Parquet(_) | Self::Arrow(_) => Compression::None,
            Self::Text(text) => text.compression,
            Self::Csv(csv) => csv.compression,
            Self::JsonLines(json) => json.compression,
            Self::Tfrecord(tfrecord) => tfrecord.compression,
            Self::Webdataset(tar) => tar.compression,
        }
    }
}
