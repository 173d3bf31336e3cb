//! Datasets of Rondo's own, read from real files.

use std::collections::VecDeque;

use arrow::record_batch::RecordBatch;
use bytes::Bytes;
use rondo_core::element::Element;
use rondo_core::limits::ELEMENT_BYTES_MAX;
use rondo_core::status::{Code, Status};
use rondo_core::worker::{From, Part, ShardBy, Then};
use rondo_data::{
    Batch, DataError, Dataset, Rebatcher, Shard, SplitReader, Stores, WholeReader, elements,
};
use rondo_proto::convert::ReadSplit;
use rondo_proto::element::{COMPRESSIBLE_BYTES_MAX, encode_compressed, encode_uncompressed};

use super::datasets::{Datasets, Elements, Opened, Records};
use super::known_datasets::KnownDatasets;
use super::split_records::SplitBatches;
use crate::transport::BoxFuture;

/// Elements that are encoded at once, in bytes of their records, about: they are ready together.
const AT_ONCE_BYTES: u64 = 1 << 20;

/// Opens datasets whose files are where the environment says.
pub struct Pipelines {
    stores: Stores,
    known: KnownDatasets,
}

impl Pipelines {
    /// Object stores are configured by this process's environment.
    pub fn from_environment() -> Self {
        Self { stores: Stores::from_env(), known: KnownDatasets::new() }
    }
}

impl Datasets for Pipelines {
    fn open(
        &self,
        definition: Bytes,
        part: Part,
        compressed: bool,
    ) -> BoxFuture<'static, Result<Opened, Status>> {
        let (stores, known) = (self.stores.clone(), self.known.clone());
        Box::pin(async move {
            let dataset = known.find(definition).await?;
            let cardinality = dataset.cardinality();
            let elements = Made::new(dataset, stores, part, compressed);
            Ok(Opened { cardinality, elements: Box::new(elements) })
        })
    }

    fn read_split(
        &self,
        definition: Bytes,
        split: ReadSplit,
    ) -> BoxFuture<'static, Result<Box<dyn Records>, Status>> {
        let (stores, known) = (self.stores.clone(), self.known.clone());
        Box::pin(async move {
            let dataset = known.find(definition).await?;
            let records = usize::try_from(split.batch_records).unwrap_or(usize::MAX);
            let reader = dataset.read_split(&stores, split.split, split.skip, records);
            Ok(Box::new(SplitBatches::new(reader, split.skip)) as Box<dyn Records>)
        })
    }
}

/// Does something that takes long, with what is named, on a thread that may.
pub(super) async fn apart<T: Send + 'static>(
    what: String,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Status> {
    tokio::task::spawn_blocking(work).await.map_err(|error| {
        let text = format!("working on {what} failed on a bug in Rondo: {error}");
        Status::new(Code::Internal, text)
    })
}

/// Makes the elements of a part of a dataset.
struct Made {
    dataset: Dataset,
    stores: Stores,
    part: Part,
    compressed: bool,
    reader: Reader,
    /// Makes batches of the records of splits; a whole stream comes in batches already.
    batches: Option<Rebatcher>,
    is_batched: bool,
    /// Records, or whole batches, that are to be encoded.
    ready: VecDeque<RecordBatch>,
}

/// What is read now.
enum Reader {
    Nothing,
    Split(i64, Box<SplitReader>),
    Stream(Box<WholeReader>),
}

impl Made {
    fn new(dataset: Dataset, stores: Stores, part: Part, compressed: bool) -> Self {
        let batches = dataset.rebatcher(batch_bytes_max(compressed));
        let is_batched = dataset.batch().is_some();
        let (reader, ready) = (Reader::Nothing, VecDeque::new());
        Self { dataset, stores, part, compressed, reader, batches, is_batched, ready }
    }

    async fn make(&mut self, from: From, room_bytes: u64) -> Result<(Vec<Bytes>, Then), Status> {
        loop {
            if let Some(records) = self.take(room_bytes) {
                let (is_batched, compressed) = (self.is_batched, self.compressed);
                let what = format!("elements of {from:?}");
                let encoded = apart(what, move || encode(&records, is_batched, compressed));
                let encoded = encoded.await??;
                return Ok((encoded, Then::More));
            }
            let read = match self.read(from).await {
                Ok(Some(batch)) => self.add(from, batch),
                Ok(None) => self.end(from),
                Err(error) => Err(error),
            };
            let is_over = !read.map_err(|error| error.status())?;
            if is_over && self.ready.is_empty() {
                return Ok((Vec::new(), Then::End));
            }
        }
    }

    /// The records, or the batch, that are encoded next: about as many bytes as there is room for.
    fn take(&mut self, room_bytes: u64) -> Option<RecordBatch> {
        let records = self.ready.pop_front()?;
        let rows = records.num_rows();
        if self.is_batched || rows < 2 {
            return Some(records);
        }
        let bytes = room_bytes.min(AT_ONCE_BYTES);
        let each = (records.get_array_memory_size() / rows).max(1) as u64;
        let fitting = usize::try_from(bytes / each).unwrap_or(usize::MAX).clamp(1, rows);
        if fitting < rows {
            self.ready.push_front(records.slice(fitting, rows.saturating_sub(fitting)));
        }
        Some(records.slice(0, fitting))
    }

    /// The next records of what is read; `None` at its end.
    async fn read(&mut self, from: From) -> Result<Option<Batch>, DataError> {
        let is_open = match (&self.reader, from) {
            (Reader::Split(open, _), From::Split(split)) => *open == split,
            (Reader::Stream(_), From::Stream) => true,
            _ => false,
        };
        if !is_open {
            self.reader = self.open(from);
        }
        let batch = match &mut self.reader {
            Reader::Nothing => None,
            Reader::Split(_, reader) => reader.next().await?,
            Reader::Stream(reader) => reader.next().await?,
        };
        for what in batch.iter().flat_map(|batch| &batch.skipped) {
            tracing::warn!(what, "passed over, as the dataset asks");
        }
        Ok(batch)
    }

    fn open(&self, from: From) -> Reader {
        match from {
            From::Split(split) => {
                let reader = self.dataset.read_split(&self.stores, split, 0, 0);
                Reader::Split(split, Box::new(reader))
            }
            From::Stream => {
                let shard = match self.part {
                    Part::Whole | Part::Splits => Shard::Off,
                    Part::Shard { by: ShardBy::File, index, of } => {
                        Shard::File { index, count: of }
                    }
                    Part::Shard { by: ShardBy::Data, index, of } => {
                        Shard::Data { index, count: of }
                    }
                    Part::Shard { by: ShardBy::FileOrData, index, of } => {
                        Shard::FileOrData { index, count: of }
                    }
                };
                let bytes_max = batch_bytes_max(self.compressed);
                let reader = self.dataset.read_all_within(&self.stores, shard, bytes_max);
                Reader::Stream(Box::new(reader))
            }
            From::Rest => Reader::Nothing,
        }
    }
}

impl Made {
    /// Takes records in: as they are, or into batches. Says that there may be more.
    fn add(&mut self, from: From, batch: Batch) -> Result<bool, DataError> {
        match (&mut self.batches, from) {
            (Some(batches), From::Split(split)) => {
                let place = u64::try_from(split).unwrap_or(0);
                batches.push(place, self.dataset.pass_of(split), batch)?;
                self.ready.extend(std::iter::from_fn(|| batches.pop()).map(|made| made.records));
            }
            _ if batch.records.num_rows() > 0 => self.ready.push_back(batch.records),
            _ => {}
        }
        Ok(true)
    }

    /// What was asked for has been read: there is no more of it. Of splits, the next one's records
    /// may fill the batch.
    fn end(&mut self, from: From) -> Result<bool, DataError> {
        self.reader = Reader::Nothing;
        if let (Some(batches), From::Rest) = (&mut self.batches, from) {
            batches.end()?;
            self.ready.extend(std::iter::from_fn(|| batches.pop()).map(|made| made.records));
        }
        Ok(false)
    }
}

impl Elements for Made {
    fn make(&mut self, from: From, room_bytes: u64) -> BoxFuture<'_, (Vec<Bytes>, Then)> {
        Box::pin(async move {
            let made = Self::make(self, from, room_bytes).await;
            made.unwrap_or_else(|status| (Vec::new(), Then::Failed(status)))
        })
    }
}

/// Bytes of values from which on no element can be made of a batch.
const fn batch_bytes_max(compressed: bool) -> u64 {
    if compressed { COMPRESSIBLE_BYTES_MAX } else { ELEMENT_BYTES_MAX }
}

/// The records' elements, as consumers get them.
fn encode(records: &RecordBatch, is_batched: bool, compressed: bool) -> Result<Vec<Bytes>, Status> {
    let made = elements(records, is_batched).map_err(|error| error.status())?;
    let encode = |element: &Element| match compressed {
        true => encode_compressed(element),
        false => encode_uncompressed(element),
    };
    made.iter().map(encode).collect()
}

#[cfg(test)]
mod tests {
    use rondo_core::ids::TaskId;
    use rondo_data::{Pipeline, plan};

    use super::*;

    #[tokio::test]
    async fn readers_of_splits_and_consumers_share_a_dataset() {
        let pipelines = Pipelines::from_environment();
        let dataset = plan(&Pipeline::range(0, 10), &pipelines.stores).await.unwrap();
        let definition = dataset.to_definition().unwrap();
        let split = ReadSplit { task: TaskId::new(1), split: 0, skip: 0, batch_records: 0 };
        for _ in 0..2 {
            pipelines.read_split(definition.clone(), split).await.map(drop).unwrap();
        }
        pipelines.open(definition, Part::Whole, false).await.map(drop).unwrap();
        assert_eq!(pipelines.known.count(), 1);
    }
}
