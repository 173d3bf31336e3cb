//! A dataset: a pipeline, and what its files held when it was registered.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use arrow::datatypes::SchemaRef;
use bytes::Bytes;
use rondo_core::element::Spec;
use rondo_core::status::{Code, Status};
use rondo_proto::admin as wire;
use rondo_proto::dataset::{DATASET_VERSION, decode_definition, encode_definition};

use crate::error::DataError;
use crate::ipc::schema_to_ipc;
use crate::limits::DEFINITION_BYTES_MAX;
use crate::manifest::{FileEntry, Manifest};
use crate::operation::schema_after;
use crate::pipeline::{Operation, Pipeline, Repeat};
use crate::random::Random;
use crate::source::Footers;
use crate::steps::{Passes, Steps};
use crate::tensor::spec_of;

/// What TensorFlow says for endless elements.
const CARDINALITY_INFINITE: i64 = -1;
/// What TensorFlow says for a number of elements that nobody knows.
const CARDINALITY_UNKNOWN: i64 = -2;

/// A dataset of Rondo's own, as it is registered. Clones are the same.
#[derive(Clone)]
pub struct Dataset {
    inner: Arc<Inner>,
}

struct Inner {
    pipeline: Pipeline,
    steps: Steps,
    manifest: Manifest,
    schema: SchemaRef,
    /// The order of the splits in the pass that was last asked for.
    order: Mutex<Option<(u64, Arc<[u32]>)>>,
    footers: Arc<Footers>,
}

impl fmt::Debug for Dataset {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (files, splits) = (self.inner.manifest.files.len(), self.splits());
        let pipeline = &self.inner.pipeline;
        write!(out, "Dataset({files} files, {splits} splits, {pipeline:?})")
    }
}

impl FileEntry {
    /// What stands for the file of a source that has none.
    pub(crate) const fn none() -> Self {
        Self { location: String::new(), size: 0, version: String::new(), records: 0 }
    }
}

impl Dataset {
    /// A dataset, if its pipeline can be applied to records like those of its files.
    pub(crate) fn new(
        pipeline: Pipeline,
        steps: Steps,
        manifest: Manifest,
    ) -> Result<Self, DataError> {
        let schema = schema_after(&steps, &manifest.schema)?;
        let (order, footers) = (Mutex::new(None), Arc::default());
        Ok(Self { inner: Arc::new(Inner { pipeline, steps, manifest, schema, order, footers }) })
    }

    /// The dataset as a serialized `tensorflow.data.DatasetDef`, as it is registered.
    ///
    /// # Errors
    /// When it is larger than definitions may be.
    pub fn to_definition(&self) -> Result<Bytes, DataError> {
        let dataset = wire::Dataset {
            version: DATASET_VERSION,
            splits: self.splits(),
            passes: self.passes(),
            unsplittable: self.unsplittable().unwrap_or_default(),
            pipeline: self.inner.pipeline.to_bytes(),
            manifest: self.inner.manifest.to_bytes()?,
            schema: schema_to_ipc(&self.inner.schema)?,
        };
        let definition = encode_definition(&dataset);
        let (found, bound) = (definition.len() as u64, DEFINITION_BYTES_MAX);
        if found > bound {
            let (files, splits) = (self.inner.manifest.files.len(), self.splits());
            return Err(DataError::Bound {
                what: format!("the bytes of a definition with {files} files and {splits} splits"),
                found,
                bound,
                setting: "DEFINITION_BYTES_MAX; see split_records and split_bytes",
            });
        }
        Ok(definition)
    }

    /// The dataset in a serialized `DatasetDef`; `None` if it is a graph of TensorFlow's.
    ///
    /// # Errors
    /// When the bytes are not those of a dataset, or of a newer version's.
    pub fn from_definition(definition: &Bytes) -> Result<Option<Self>, DataError> {
        let decoded = decode_definition(definition);
        let decoded = decoded.map_err(|status| not_ours(definition, status))?;
        let Some(dataset) = decoded else {
            return Ok(None);
        };
        let pipeline = Pipeline::from_bytes(&dataset.pipeline)?;
        let steps = Steps::of(&pipeline)?;
        let manifest = Manifest::from_bytes(dataset.manifest)?;
        Self::new(pipeline, steps, manifest).map(Some)
    }

    /// Whether these are clones of one dataset.
    pub fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner)
    }

    /// The pipeline.
    pub fn pipeline(&self) -> &Pipeline {
        &self.inner.pipeline
    }

    /// The columns of the records it yields.
    pub fn schema(&self) -> SchemaRef {
        Arc::clone(&self.inner.schema)
    }

    /// Splits of one pass.
    pub fn splits(&self) -> u64 {
        self.inner.manifest.splits.len() as u64
    }

    /// Passes; 0 for endless ones.
    pub fn passes(&self) -> u64 {
        match self.inner.steps.passes() {
            Passes::Endless => 0,
            Passes::Count(count) => count,
        }
    }

    /// Why it cannot be divided into splits, if it cannot.
    pub fn unsplittable(&self) -> Option<String> {
        self.inner.steps.unsplittable()
    }

    /// Its files.
    pub fn files(&self) -> impl Iterator<Item = &str> {
        let files = self.inner.manifest.files.iter().map(|file| file.location.as_str());
        files.filter(|location| !location.is_empty())
    }

    /// Records that splits have in one pass; `None` if nobody knows: some are filtered out, or
    /// passed over where they cannot be read.
    pub fn records_per_pass(&self) -> Option<u64> {
        let is_known = self.inner.steps.keeps_every_record() && !self.inner.pipeline.skip_corrupt;
        is_known.then(|| self.inner.manifest.records())
    }

    /// Elements altogether, as TensorFlow says it: -1 for endless ones, -2 if nobody knows.
    pub fn cardinality(&self) -> i64 {
        let mut count = self.records_per_pass();
        for operation in &self.inner.steps.tail {
            count = match operation {
                Operation::Repeat(Repeat::Endless) => return self.endless(),
                Operation::Filter(_) => None,
                operation => count.map(|count| counted(operation, count)),
            };
        }
        count.map_or(CARDINALITY_UNKNOWN, |count| i64::try_from(count).unwrap_or(i64::MAX))
    }

    /// The cardinality when passes have no end: what is taken of them may have one.
    fn endless(&self) -> i64 {
        let mut count = CARDINALITY_INFINITE;
        for operation in &self.inner.steps.tail {
            match operation {
                Operation::Take(taken) if count == CARDINALITY_INFINITE => {
                    count = i64::try_from(*taken).unwrap_or(i64::MAX);
                }
                Operation::Repeat(Repeat::Endless) => count = CARDINALITY_INFINITE,
                Operation::Filter(_) if count != CARDINALITY_INFINITE => {
                    return CARDINALITY_UNKNOWN;
                }
                operation if count >= 0 => {
                    let counted = counted(operation, count.unsigned_abs());
                    count = i64::try_from(counted).unwrap_or(i64::MAX);
                }
                _ => {}
            }
        }
        count
    }

    /// How many records make an element, and whether fewer are left out at the end; `None` if each
    /// record is one.
    pub fn batch(&self) -> Option<(u64, bool)> {
        self.inner.steps.batch().map(|batch| (batch.size, batch.drop_remainder))
    }

    /// Batches that are made ahead, if the pipeline says so.
    pub fn prefetch(&self) -> Option<u64> {
        self.inner.steps.prefetch
    }

    /// The structure of its elements: a dict of the columns. With batches there is a dimension more.
    ///
    /// # Errors
    /// When a column has no tensors.
    pub fn element_spec(&self) -> Result<Spec, DataError> {
        spec_of(&self.inner.schema, self.batch())
    }

    pub(crate) fn footers(&self) -> Arc<Footers> {
        Arc::clone(&self.inner.footers)
    }

    pub(crate) fn steps(&self) -> &Steps {
        &self.inner.steps
    }

    pub(crate) fn manifest(&self) -> &Manifest {
        &self.inner.manifest
    }

    /// Which split stands at this place of a pass.
    pub(crate) fn split_at(&self, pass: u64, place: u64) -> Option<u64> {
        if place >= self.splits() {
            return None;
        }
        let Some(shuffle) = self.inner.steps.shuffle else {
            return Some(place);
        };
        let mut kept = self.inner.order.lock().unwrap_or_else(PoisonError::into_inner);
        let order = match &*kept {
            Some((kept_pass, order)) if *kept_pass == pass => Arc::clone(order),
            _ => {
                let count = u32::try_from(self.splits()).ok()?;
                let order: Arc<[u32]> = Random::of(&[shuffle.seed, pass]).permutation(count).into();
                *kept = Some((pass, Arc::clone(&order)));
                order
            }
        };
        order.get(usize::try_from(place).ok()?).map(|split| u64::from(*split))
    }
}

/// Why a definition is not understood.
fn not_ours(definition: &Bytes, status: Status) -> DataError {
    let what = status.message;
    match status.code {
        Code::FailedPrecondition => DataError::Unfit { what },
        _ => DataError::definition(format!("{what} ({} bytes)", definition.len())),
    }
}

/// What an operation leaves of so many elements.
fn counted(operation: &Operation, count: u64) -> u64 {
    match operation {
        Operation::Batch(batch) if batch.drop_remainder => count / batch.size.max(1),
        Operation::Batch(batch) => count.div_ceil(batch.size.max(1)),
        Operation::Repeat(Repeat::Count(passes)) => count.saturating_mul(*passes),
        Operation::Take(taken) => count.min(*taken),
        Operation::Skip(skipped) => count.saturating_sub(*skipped),
        Operation::Shard(it) => count.saturating_sub(it.index).div_ceil(it.count.max(1)),
        _ => count,
    }
}
