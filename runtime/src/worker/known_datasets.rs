//! Datasets of the definitions that were decoded last: each reader of a split names a definition, and a
//! large one takes long to decode.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use rondo_core::status::{Code, Status};
use rondo_data::Dataset;
use tokio::sync::OnceCell;

use super::pipelines::apart;

/// Definitions that are kept.
const KNOWN_MAX: usize = 16;
/// Bytes of all definitions that are kept; a single one may have more.
const KNOWN_BYTES_MAX: u64 = 64 << 20;

/// A dataset, once it is decoded.
type Decoded = Arc<OnceCell<Dataset>>;

/// Datasets by their definitions; the one used last stands first. Clones are the same.
///
/// A task hands out clones of one definition, so its place in memory identifies it: no other bytes can be
/// there while it is kept. A dataset keeps footers of its files, which it read in the version that was
/// registered; each reader compares the files' versions itself when it reads the rest of them.
#[derive(Clone)]
pub(super) struct KnownDatasets {
    kept: Arc<Mutex<VecDeque<(Bytes, Decoded)>>>,
    bytes_max: u64,
}

impl KnownDatasets {
    /// None yet.
    pub(super) fn new() -> Self {
        Self::with_bound(KNOWN_BYTES_MAX)
    }

    fn with_bound(bytes_max: u64) -> Self {
        Self { kept: Arc::default(), bytes_max }
    }

    /// The dataset in a definition. Calls that ask for the same one at once share one decoding.
    ///
    /// # Errors
    /// When the definition is damaged, of a newer Rondo, or a graph of TensorFlow's. The next call decodes
    /// it again.
    pub(super) async fn find(&self, definition: Bytes) -> Result<Dataset, Status> {
        let decoded = self.decoded(&definition);
        let found = decoded.get_or_try_init(|| decode(definition)).await.cloned();
        if found.is_err() {
            self.lock().retain(|(_, kept)| !Arc::ptr_eq(kept, &decoded));
        }
        found
    }

    /// Where the dataset of a definition is, or will be.
    fn decoded(&self, definition: &Bytes) -> Decoded {
        let mut kept = self.lock();
        let at = kept.iter().position(|(known, _)| is_same(known, definition));
        let found = at.and_then(|at| kept.remove(at));
        let (known, decoded) = found.unwrap_or_else(|| (definition.clone(), Decoded::default()));
        kept.push_front((known, Arc::clone(&decoded)));
        let mut left = Vec::new();
        while kept.len() > 1 && (kept.len() > KNOWN_MAX || bytes_of(&kept) > self.bytes_max) {
            left.extend(kept.pop_back());
        }
        // Large datasets are freed when nobody waits for the lock.
        drop(kept);
        drop(left);
        decoded
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<(Bytes, Decoded)>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many definitions are kept.
    #[cfg(test)]
    pub(super) fn count(&self) -> usize {
        self.lock().len()
    }
}

/// Whether these are the same bytes at the same place in memory.
fn is_same(one: &Bytes, other: &Bytes) -> bool {
    (one.as_ptr(), one.len()) == (other.as_ptr(), other.len())
}

fn bytes_of(kept: &VecDeque<(Bytes, Decoded)>) -> u64 {
    kept.iter().fold(0, |sum, (definition, _)| sum.saturating_add(definition.len() as u64))
}

/// The dataset in a definition, which may be large.
async fn decode(definition: Bytes) -> Result<Dataset, Status> {
    let read =
        apart("the definition".to_owned(), move || Dataset::from_definition(&definition)).await?;
    read.map_err(|error| error.status())?.ok_or_else(|| {
        let text = "this worker runs datasets of Rondo's own (`rondo dataset register`); the \
                    dataset is a TensorFlow graph, which needs a TensorFlow worker";
        Status::new(Code::FailedPrecondition, text)
    })
}

#[cfg(test)]
mod tests {
    use rondo_data::{Pipeline, Stores, plan};

    use super::*;

    async fn definition(records: i64) -> Bytes {
        let dataset = plan(&Pipeline::range(0, records), &Stores::from_env()).await.unwrap();
        dataset.to_definition().unwrap()
    }

    #[tokio::test]
    async fn a_definition_is_decoded_once_for_all_that_have_it() {
        let (known, definition) = (KnownDatasets::new(), definition(10).await);
        let at_once = (known.find(definition.clone()), known.find(definition.clone()));
        let (one, other) = tokio::join!(at_once.0, at_once.1);
        let (one, other) = (one.unwrap(), other.unwrap());
        let later = known.clone().find(definition.clone()).await.unwrap();
        assert!(one.is(&other) && one.is(&later));
        let elsewhere = known.find(Bytes::copy_from_slice(&definition)).await.unwrap();
        assert!(!one.is(&elsewhere), "bytes at another place may be another task's");
        assert_eq!(known.count(), 2);
    }

    #[tokio::test]
    async fn the_definitions_used_last_are_kept_within_the_bounds() {
        let known = KnownDatasets::new();
        let mut all = Vec::new();
        for records in 1..=KNOWN_MAX as i64 {
            let definition = definition(records).await;
            all.push((known.find(definition.clone()).await.unwrap(), definition));
        }
        // The first one is used again, so that the second one goes for one more.
        assert!(all[0].0.is(&known.find(all[0].1.clone()).await.unwrap()));
        known.find(definition(100).await).await.unwrap();
        assert_eq!(known.count(), KNOWN_MAX);
        assert!(all[0].0.is(&known.find(all[0].1.clone()).await.unwrap()));
        assert!(!all[1].0.is(&known.find(all[1].1.clone()).await.unwrap()));

        let (first, second) = (definition(10).await, definition(20).await);
        let known = KnownDatasets::with_bound(first.len() as u64);
        let one = known.find(first.clone()).await.unwrap();
        assert!(one.is(&known.find(first.clone()).await.unwrap()));
        known.find(second).await.unwrap();
        assert_eq!(known.count(), 1, "the second one has the bytes for itself");
        assert!(!one.is(&known.find(first).await.unwrap()));
    }

    #[tokio::test]
    async fn one_larger_than_the_bound_is_kept_and_what_is_no_dataset_is_not() {
        let (known, large) = (KnownDatasets::with_bound(1), definition(10).await);
        let one = known.find(large.clone()).await.unwrap();
        assert!(one.is(&known.find(large).await.unwrap()));
        let error = known.find(Bytes::from_static(b"no definition")).await.unwrap_err();
        assert_eq!(error.code, Code::DataLoss, "{error}");
        assert_eq!(known.count(), 0);
    }
}
