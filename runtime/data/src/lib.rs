//! Pipelines over real files: what a dataset of Rondo's own is, and how its records are read.
//!
//! ```no_run
//! # async fn example() -> Result<(), rondo_data::DataError> {
//! use rondo_data::{Condition, Pipeline, Stores, Test, plan};
//!
//! let stores = Stores::from_env();
//! let pipeline = Pipeline::parquet(["data/*.parquet"])
//!     .filter(Condition::column("magnitude", Test::AtLeast(4.5.into())))
//!     .shuffle(7, 1024)
//!     .batch(32, true);
//! let dataset = plan(&pipeline, &stores).await?;
//! let mut split = dataset.read_split(&stores, 0, 0, 1024);
//! while let Some(batch) = split.next().await? {
//!     println!("{} records from {} on", batch.records.num_rows(), batch.first);
//! }
//! # Ok(())
//! # }
//! ```
//!
//! A dataset is planned once, by whoever registers it: files are found and looked into, and their
//! records divided into splits. From then on it is a function of what was found: the records of a
//! split are the same whoever reads them, whenever, from whichever of them on.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod choice;
mod dataset;
mod error;
mod exact;
mod guard;
mod ipc;
mod limits;
mod manifest;
mod operation;
mod pipeline;
mod plan;
mod random;
mod read;
mod rebatch;
mod schema;
mod size;
mod source;
mod steps;
mod stores;
mod tensor;
mod yaml;

pub use dataset::Dataset;
pub use error::DataError;
pub use ipc::{from_ipc, to_ipc, to_ipc_pieces};
pub use limits::{
    BATCH_BYTES_MAX, COLUMNS_MAX, CONDITION_DEPTH_MAX, DEFINITION_BYTES_MAX, FILES_MAX, Limits,
    SKIPPED_PLACES_MAX, SPLITS_MAX,
};
pub use pipeline::{
    Arithmetic, ArrowSource, BatchOf, Column, ColumnType, Compression, Condition, CsvSource,
    FillNull, Interleave, JsonLinesSource, Made, Map, Operand, Operation, PIPELINE_VERSION,
    ParquetSource, Pipeline, RangeSource, Repeat, SPLIT_BYTES, SPLIT_RECORDS, ShardOf, Shuffle,
    Source, Test, TextSource, TfrecordSource, Value, WebdatasetSource,
};
pub use plan::plan;
pub use read::{BATCH_RECORDS, Batch, Shard, SplitReader, WholeReader};
pub use rebatch::{Origin, Rebatched, Rebatcher};
pub use size::in_parts;
pub use stores::{Patience, Stores};
pub use tensor::elements;
pub use yaml::from_yaml;

/// A genuine table in the public domain, for demonstrations: a Parquet file's name and bytes. Where
/// it is from, and in which other forms it is there, stands beside it in `demo/README.md`.
pub const DEMO_TABLE: (&str, &[u8]) =
    ("weather.parquet", include_bytes!("../demo/weather.parquet"));
