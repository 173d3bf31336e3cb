//! Reads a registered `tensorflow.data.DatasetDef` without TensorFlow: cleans it for any worker,
//! finds what can be split in it, and hashes the structure of its elements. A dataset of Rondo's
//! own says itself how it is split.
//!
//! Everything works on the wire format in place, so constants of any size are neither decoded
//! nor copied needlessly, and no schema of TensorFlow's has to be complete.

mod clean;
mod error;
pub(crate) mod fields;
mod ops;
mod plan;
mod refusal;
mod schema;
mod structure;
mod view;
mod warning;
pub(crate) mod wire;

use bytes::Bytes;
use rondo_core::dispatcher::SplitPlan;

use crate::dataset;

pub use self::error::GraphError;
pub use self::structure::structure_digest;
pub use self::warning::Warning;

/// A definition as the dispatcher keeps it, with what was learnt from it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prepared {
    /// The serialized `DatasetDef` without device placements and with shared hash tables; shares
    /// its bytes with the input where nothing had to change.
    pub cleaned: Bytes,
    /// What can be split, or the refusal for whoever asks for dynamic sharding.
    pub plan: SplitPlan,
    /// What to tell the user when the dataset is sharded dynamically.
    pub warnings: Vec<Warning>,
}

/// Whether a serialized `DatasetDef` holds a dataset of Rondo's own, after it was read as [`prepare`] reads
/// it. Copies nothing.
///
/// # Errors
///
/// Exactly those of [`prepare`].
pub fn check(dataset_def: &Bytes) -> Result<bool, GraphError> {
    if dataset::read(dataset_def)?.is_some() {
        return Ok(true);
    }
    clean::check(dataset_def)?;
    plan::plan(dataset_def)?;
    Ok(false)
}

/// Prepares a serialized `DatasetDef` for registration.
///
/// Takes time linear in its size at worst, and only skips over constants.
///
/// # Errors
///
/// If the bytes are not a protobuf message, or hold a dataset of Rondo's own that is not as it
/// should be. A message whose graph cannot be split, or holds no dataset at all, is no error: the
/// plan says so.
pub fn prepare(dataset_def: &Bytes) -> Result<Prepared, GraphError> {
    if let Some(own) = dataset::read(dataset_def)? {
        let plan = dataset::plan(&own);
        return Ok(Prepared { cleaned: dataset_def.clone(), plan, warnings: Vec::new() });
    }
    let cleaned = clean::clean(dataset_def)?;
    let (plan, warnings) = plan::plan(dataset_def)?;
    Ok(Prepared { cleaned, plan, warnings })
}
