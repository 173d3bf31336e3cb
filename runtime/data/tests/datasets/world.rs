//! Files to read, and all that is in them.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::{ArrayRef, Float64Array, Int64Array, StringArray};
use arrow::compute::concat_batches;
use arrow::record_batch::RecordBatch;
use parquet::arrow::ArrowWriter;
use parquet::file::properties::WriterProperties;
use rondo_data::{DataError, Dataset, Pipeline, Stores, plan};

/// A folder of files, and the stores that read them.
pub(crate) struct World {
    pub(crate) folder: tempfile::TempDir,
    pub(crate) stores: Stores,
}

impl World {
    pub(crate) fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap(), stores: Stores::from_env() }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The path, or pattern, as a pipeline has it.
    pub(crate) fn files(&self, name: &str) -> Vec<String> {
        vec![self.path(name).to_str().unwrap().to_owned()]
    }

    /// Writes a Parquet file with row groups of so many rows.
    pub(crate) fn parquet(&self, name: &str, records: &RecordBatch, rows: usize) -> PathBuf {
        let path = self.path(name);
        write_parquet(&path, records, rows);
        path
    }

    pub(crate) async fn plan(&self, pipeline: &Pipeline) -> Dataset {
        plan(pipeline, &self.stores).await.unwrap()
    }

    pub(crate) async fn refusal(&self, pipeline: &Pipeline) -> DataError {
        plan(pipeline, &self.stores).await.unwrap_err()
    }

    /// The records of a split from this one on.
    pub(crate) async fn read(&self, dataset: &Dataset, split: i64, skip: u64) -> RecordBatch {
        self.try_read(dataset, split, skip).await.unwrap()
    }

    pub(crate) async fn try_read(
        &self,
        dataset: &Dataset,
        split: i64,
        skip: u64,
    ) -> Result<RecordBatch, DataError> {
        let mut reader = dataset.read_split(&self.stores, split, skip, 7);
        let (mut batches, mut next) = (Vec::new(), skip);
        while let Some(batch) = reader.next().await? {
            let rows = batch.records.num_rows();
            assert!(rows <= 7, "a batch of {rows} records");
            assert_eq!(batch.first, next, "batches follow each other");
            next += rows as u64;
            batches.push(batch.records);
        }
        assert_eq!(reader.next().await?, None, "an end is an end");
        Ok(concat_batches(&dataset.schema(), &batches).unwrap())
    }

    /// The records of all splits of so many passes, by split.
    pub(crate) async fn read_splits(&self, dataset: &Dataset, passes: u64) -> Vec<RecordBatch> {
        let mut all = Vec::new();
        for split in 0..dataset.splits() * passes {
            all.push(self.read(dataset, split as i64, 0).await);
        }
        all
    }
}

pub(crate) fn write_parquet(path: &Path, records: &RecordBatch, rows: usize) {
    let file = std::fs::File::create(path).unwrap();
    let properties = WriterProperties::builder().set_max_row_group_row_count(Some(rows)).build();
    let mut writer = ArrowWriter::try_new(file, records.schema(), Some(properties)).unwrap();
    writer.write(records).unwrap();
    writer.close().unwrap();
}

/// A TFRecord file of records with these contents.
pub(crate) fn framed(contents: impl IntoIterator<Item = impl AsRef<[u8]>>) -> Vec<u8> {
    let mask = |sum: u32| sum.rotate_right(15).wrapping_add(0xA282_EAD8);
    let mut all = Vec::new();
    for content in contents {
        let content = content.as_ref();
        let length = (content.len() as u64).to_le_bytes();
        all.extend(length);
        all.extend(mask(crc32c::crc32c(&length)).to_le_bytes());
        all.extend(content);
        all.extend(mask(crc32c::crc32c(content)).to_le_bytes());
    }
    all
}

/// Records with these numbers, and with columns that depend on them.
pub(crate) fn numbered(numbers: impl IntoIterator<Item = i64>) -> RecordBatch {
    let numbers: Vec<i64> = numbers.into_iter().collect();
    let halves = numbers.iter().map(|number| *number as f64 / 2.0);
    let halves: ArrayRef = Arc::new(Float64Array::from_iter_values(halves));
    let names = numbers.iter().map(|number| format!("record {number}"));
    let names: ArrayRef = Arc::new(StringArray::from_iter_values(names));
    let numbers: ArrayRef = Arc::new(Int64Array::from(numbers));
    RecordBatch::try_from_iter([("number", numbers), ("half", halves), ("name", names)]).unwrap()
}

/// The numbers in the first column.
pub(crate) fn numbers(records: &RecordBatch) -> Vec<i64> {
    let column = records.column(0).as_any().downcast_ref::<Int64Array>();
    column.unwrap().values().to_vec()
}

/// The numbers of several, one after the other.
pub(crate) fn all_numbers(batches: &[RecordBatch]) -> Vec<i64> {
    batches.iter().flat_map(numbers).collect()
}
