//! Starting a node over its data directory, or over nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rondo_core::control::{self, Durability, Node, Recovered};
use rondo_core::ids::Digest;

use super::blob_keeper::BlobKeeper;
use super::compaction::{Built, CompactionError, Snapshots};
use super::config::NodeConfig;
use super::driver::{Parts, spawn};
use super::journal::{Journal, JournalBounds};
use super::port::RunningNode;
use super::recovery::{ReplayError, replay};
#[cfg(madsim)]
use super::watch::Watch;
use crate::clock::Clock;
use crate::entropy::Entropy;
use crate::memory::Ceiling;
use crate::store::blobs::{BlobError, Blobs, FileBlobs, MemoryBlobs};
use crate::store::{DataDirectory, StoreConfig, StoreError};
use crate::transport::Transport;

/// Large definitions that a node without a directory keeps, in bytes.
const MEMORY_BLOBS_BYTES_MAX: u64 = 8 << 30;

/// A node does not start.
#[derive(Debug, thiserror::Error)]
pub enum NodeStartError {
    /// The snapshot cannot be read.
    #[error(transparent)]
    Snapshot(#[from] CompactionError),
    /// The journal cannot be replayed.
    #[error(transparent)]
    Replay(#[from] ReplayError),
    /// Files cannot be used.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Large definitions cannot be used.
    #[error(transparent)]
    Blobs(#[from] BlobError),
    /// The definition of a dataset is gone.
    #[error(
        "the definition of dataset {dataset} (blob {digest}) is missing from the data directory; \
         restore the directory from a copy"
    )]
    DefinitionMissing {
        /// The dataset's id.
        dataset: String,
        /// Hash of the definition.
        digest: Digest,
    },
    /// The value of a key is gone.
    #[error(
        "the value of a key (blob {0}) is missing from the data directory; restore the directory \
         from a copy"
    )]
    ValueMissing(Digest),
    /// The operating system gives no randomness.
    #[error("cannot get random numbers: {0}")]
    Entropy(#[from] getrandom::Error),
}

impl NodeStartError {
    /// Whether something that was acknowledged cannot be read any more.
    pub const fn is_damage(&self) -> bool {
        match self {
            Self::Snapshot(error) => error.is_damage(),
            Self::Replay(error) => error.is_damage(),
            Self::Blobs(error) => matches!(error, BlobError::Damaged { .. }),
            Self::DefinitionMissing { .. } | Self::ValueMissing(_) => true,
            Self::Store(error) => error.is_damage,
            Self::Entropy(_) => false,
        }
    }

    /// Whether a later release wrote the data directory: it is whole.
    pub const fn is_of_later_release(&self) -> bool {
        match self {
            Self::Snapshot(error) => error.is_of_later_release(),
            Self::Replay(error) => error.is_of_later_release(),
            _ => false,
        }
    }
}

/// What every node needs, whatever it keeps its state in.
pub struct Surroundings {
    /// The settings of its machines.
    pub machines: control::Config,
    /// Its bounds.
    pub node: NodeConfig,
    /// Its way to workers.
    pub transport: Arc<dyn Transport>,
    /// Its clock.
    pub clock: Clock,
    /// The bound on the process's memory.
    pub ceiling: Ceiling,
    /// Who watches it.
    #[cfg(madsim)]
    pub watch: Arc<dyn Watch>,
}

/// Starts a node that keeps everything in memory.
///
/// # Errors
/// When there is no randomness.
pub fn start_in_memory(surroundings: Surroundings) -> Result<RunningNode, NodeStartError> {
    let blobs = Arc::new(MemoryBlobs::new(MEMORY_BLOBS_BYTES_MAX));
    let blobs = BlobKeeper::new(blobs, BTreeSet::new());
    run(surroundings, Durability::MemoryOnly, Recovered::default(), None, blobs)
}

/// Starts a node over a data directory: snapshot, then journal, then serving.
///
/// # Errors
/// When something acknowledged cannot be read, and when files cannot be used.
pub async fn start_over(
    directory: DataDirectory,
    config: &StoreConfig,
    surroundings: Surroundings,
) -> Result<RunningNode, NodeStartError> {
    let snapshots = Snapshots::of(&directory, config);
    snapshots.clear_unfinished().await?;
    let snapshot = snapshots.load().await?;
    let upto = snapshot.applied();
    let snapshot_built = Built { upto, size_bytes: snapshots.size_bytes(upto).await? };
    let mut store = directory.open_journal(config).await?;
    let (acknowledged, known) = directory.acknowledged().await?;
    let replayed = match replay(&mut *store, snapshot, known).await {
        Err(stale) if stale.is_of_stale_note() => {
            tracing::warn!(%stale, "the note does not count: every record is kept");
            replay(&mut *store, snapshots.load().await?, None).await?
        }
        replayed => replayed?,
    };
    let recovered = replayed.recovered;
    // What a killed process wrote may not be on the disk yet, and is about to be answered from.
    store.sync().await?;
    acknowledged.note(recovered.applied).await?;
    let blobs = FileBlobs::open(directory.disk().clone(), &directory.blobs(), config).await?;
    let named = tidy_blobs(&blobs, &recovered).await?;
    let blobs = BlobKeeper::new(Arc::new(blobs), named);
    tracing::info!(records = recovered.applied.get(), snapshot = upto.get(), "state recovered");
    let bounds = JournalBounds {
        store: config.clone(),
        compaction_retry: surroundings.node.compaction_retry,
    };
    let last = recovered.applied;
    let journal = Journal::new(store, directory, acknowledged, bounds, last, snapshot_built);
    run(surroundings, Durability::Journal, recovered, Some(journal), blobs)
}

fn run(
    surroundings: Surroundings,
    durability: Durability,
    recovered: Recovered,
    journal: Option<Journal>,
    blobs: BlobKeeper,
) -> Result<RunningNode, NodeStartError> {
    let clock = surroundings.clock;
    #[cfg(madsim)]
    surroundings.watch.recovered(clock.now(), &recovered);
    let node = Node::start(durability, surroundings.machines, recovered, clock.now());
    let entropy = Entropy::from_system()?;
    let parts = Parts {
        node,
        journal,
        clock,
        entropy,
        transport: surroundings.transport,
        blobs: blobs.clone(),
        ceiling: surroundings.ceiling,
        #[cfg(madsim)]
        watch: surroundings.watch,
    };
    let (handle, task) = spawn(parts, surroundings.node);
    Ok(RunningNode::new(handle, task, blobs))
}

/// Makes sure that no definition and no value is missing or cut short, and removes blobs that
/// nothing names: what a request left behind that was refused, or never answered. Says which are
/// named.
async fn tidy_blobs(
    blobs: &dyn Blobs,
    recovered: &Recovered,
) -> Result<BTreeSet<Digest>, NodeStartError> {
    let kept: BTreeMap<Digest, u64> = blobs.list().await?.into_iter().collect();
    let mut named = BTreeSet::new();
    for dataset in recovered.dispatcher.datasets().values() {
        let definition = &dataset.definition;
        if definition.inline.is_some() {
            continue;
        }
        let digest = definition.digest;
        match kept.get(&digest) {
            Some(size_bytes) if *size_bytes == definition.size_bytes => {}
            // Reading it says what is wrong with it.
            Some(_) => drop(blobs.get(digest).await?),
            None => {
                let dataset = dataset.id.to_string();
                return Err(NodeStartError::DefinitionMissing { dataset, digest });
            }
        }
        named.insert(digest);
    }
    for (digest, size_bytes) in recovered.coordination.blobs() {
        match kept.get(&digest) {
            Some(kept) if *kept == size_bytes => {}
            Some(_) => drop(blobs.get(digest).await?),
            None => return Err(NodeStartError::ValueMissing(digest)),
        }
        named.insert(digest);
    }
    for digest in kept.keys().filter(|digest| !named.contains(digest)) {
        blobs.remove(*digest).await?;
    }
    Ok(named)
}
