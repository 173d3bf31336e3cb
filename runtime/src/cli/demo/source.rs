//! The records that the demo reads: the table shipped with Rondo, or the user's own file.

use std::path::{Path, PathBuf};

use rondo_data::{DataError, Dataset, Pipeline, Stores, plan};

use super::super::exit::{Exit, Failure, of_data};
use super::ledger::Checksum;

/// Seed of the order in which records come.
const SEED: u64 = 20;
/// Records that are mixed with each other.
const SHUFFLED: u64 = 256;
/// Records of a split, so that there are enough of them to change hands.
const SPLIT_RECORDS: u64 = 128;

/// A file of records.
pub(super) struct Origin {
    name: String,
    path: PathBuf,
}

impl Origin {
    /// The user's file, or else the table that is shipped, written into `folder`.
    ///
    /// # Errors
    /// When there is no such file, or no room.
    pub(super) fn find(data: Option<&Path>, folder: &Path) -> Result<Self, Failure> {
        if let Some(path) = data {
            let found = path.canonicalize().map_err(|error| {
                Failure::new(Exit::Usage, format!("--data {}: {error}", path.display()))
            })?;
            return Ok(Self { name: path.display().to_string(), path: found });
        }
        let (name, bytes) = rondo_data::DEMO_TABLE;
        let path = folder.join(name);
        std::fs::write(&path, bytes).map_err(|error| Failure::new(Exit::Other, error))?;
        Ok(Self { name: name.to_owned(), path })
    }

    /// What to call it.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Over all records in their own order, read without a service.
    ///
    /// # Errors
    /// When they cannot be read.
    pub(super) async fn checksum(&self, stores: &Stores) -> Result<Checksum, Failure> {
        let dataset = self.planned(self.pipeline()?, stores).await?;
        let mut sum = Checksum::default();
        for split in 0..dataset.splits() {
            let number = i64::try_from(split).unwrap_or(i64::MAX);
            let mut reader = dataset.read_split(stores, number, 0, 1024);
            while let Some(batch) = reader.next().await.map_err(|error| self.failed(&error))? {
                sum.add(&batch.records).map_err(|error| Failure::new(Exit::Other, error))?;
            }
        }
        match sum.records {
            0 => Err(Failure::new(Exit::Usage, format!("{} has no records", self.name))),
            _ => Ok(sum),
        }
    }

    /// The dataset of the demo: the records shuffled, in batches, in so many passes.
    ///
    /// # Errors
    /// When they cannot be read.
    pub(super) async fn dataset(
        &self,
        stores: &Stores,
        passes: u64,
        batch: u64,
    ) -> Result<Dataset, Failure> {
        let pipeline = self.pipeline()?.shuffle(SEED, SHUFFLED).batch(batch, false).repeat(passes);
        self.planned(pipeline, stores).await
    }

    async fn planned(&self, pipeline: Pipeline, stores: &Stores) -> Result<Dataset, Failure> {
        plan(&pipeline, stores).await.map_err(|error| self.failed(&error))
    }

    fn pipeline(&self) -> Result<Pipeline, Failure> {
        let file = [self.path.display().to_string()];
        let extension = self.path.extension().and_then(|it| it.to_str()).unwrap_or_default();
        let mut pipeline = match extension {
            "parquet" => Pipeline::parquet(file),
            "arrow" | "ipc" | "feather" => Pipeline::arrow(file),
            "tfrecord" | "tfrecords" => Pipeline::tfrecord(file),
            "csv" => Pipeline::csv(file),
            "jsonl" | "ndjson" => Pipeline::json_lines(file),
            "txt" => Pipeline::text(file),
            other => {
                let text = format!(
                    "--data {}: the extension {other:?} names no kind of file; known are parquet, \
                     arrow, tfrecord, csv, jsonl and txt",
                    self.name
                );
                return Err(Failure::new(Exit::Usage, text));
            }
        };
        pipeline.split_records = Some(SPLIT_RECORDS);
        Ok(pipeline)
    }

    fn failed(&self, error: &DataError) -> Failure {
        Failure::new(of_data(error), format!("{}: {error}", self.name))
    }
}
