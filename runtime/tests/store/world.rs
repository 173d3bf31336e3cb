//! A journal directory with a store over it that can be closed and opened again.

use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use rondo::store::{Disk, RealDisk, SegmentStore, SledStore, Store, StoreConfig, StoreKind};
use rondo_core::ids::Lsn;
use rondo_core::journal::{End, GroupHeader, RecoverError, Scan};
use rondo_proto::frame::{decode, encode};
use tempfile::TempDir;

use super::faulty_disk::FaultyDisk;

/// A journal directory and how to open it.
pub(crate) struct World {
    pub(crate) dir: TempDir,
    pub(crate) kind: StoreKind,
    pub(crate) disk: Arc<FaultyDisk>,
    pub(crate) config: StoreConfig,
}

impl World {
    pub(crate) fn new(kind: StoreKind) -> Self {
        let config = StoreConfig {
            preallocate_bytes: 64 << 10,
            free_space_reserve_bytes: 1 << 20,
            ..StoreConfig::default()
        };
        let disk = Arc::new(FaultyDisk::over(RealDisk::shared()));
        Self { dir: tempfile::tempdir().unwrap(), kind, disk, config }
    }

    pub(crate) async fn open(&self) -> Box<dyn Store> {
        let disk = Arc::clone(&self.disk) as Arc<dyn Disk>;
        match self.kind {
            StoreKind::Segment => {
                Box::new(SegmentStore::open(disk, self.dir.path(), &self.config).await.unwrap())
            }
            StoreKind::Sled => {
                Box::new(SledStore::open(disk, self.dir.path(), &self.config).await.unwrap())
            }
        }
    }

    /// Where a segment is.
    pub(crate) fn path(&self, first: u64) -> PathBuf {
        let suffix = if self.kind == StoreKind::Sled { "sled" } else { "seg" };
        self.dir.path().join(format!("{first:020}.{suffix}"))
    }
}

/// Makes each named behaviour a test of each store.
macro_rules! for_each_store {
    ($($name:ident),* $(,)?) => {
        mod segment {
            $(#[tokio::test] async fn $name() {
                super::$name($crate::world::World::new(rondo::store::StoreKind::Segment)).await;
            })*
        }
        mod sled {
            $(#[tokio::test] async fn $name() {
                super::$name($crate::world::World::new(rondo::store::StoreKind::Sled)).await;
            })*
        }
    };
}
pub(crate) use for_each_store;

/// A group of `count` records from `first` on, everything before it being durable.
pub(crate) fn group(first: u64, count: u64, payload: &[u8]) -> Bytes {
    let durable_upto = Lsn::new(first - 1);
    encode(&GroupHeader { first: Lsn::new(first), count, durable_upto }, payload).unwrap()
}

/// A group whose writer did not know of anything being durable.
pub(crate) fn unsure_group(first: u64, payload: &[u8]) -> Bytes {
    let header = GroupHeader { first: Lsn::new(first), count: 1, durable_upto: Lsn::NONE };
    encode(&header, payload).unwrap()
}

/// Appends groups of one record each, from record `first` on.
pub(crate) async fn append_all(store: &mut dyn Store, first: u64, frames: &[Bytes]) {
    for (lsn, frame) in (first..).zip(frames) {
        store.append(Lsn::new(lsn), frame.clone()).await.unwrap();
    }
}

/// All frames of all segments, damage being an error.
pub(crate) async fn all_frames(store: &dyn Store) -> Vec<Result<Bytes, String>> {
    let mut all = Vec::new();
    for segment in store.segments() {
        let found = store.read(segment.first).await.unwrap();
        all.extend(found.into_iter().map(|found| found.frame));
    }
    all
}

/// All frames of all segments, none damaged.
pub(crate) async fn good_frames(store: &dyn Store) -> Vec<Bytes> {
    all_frames(store).await.into_iter().map(Result::unwrap).collect()
}

/// Recovers as the runtime does.
pub(crate) async fn recover(store: &dyn Store) -> Result<End, RecoverError> {
    let mut scan = Scan::starting_at(Lsn::new(1));
    let segments = store.segments();
    for (n, segment) in segments.iter().enumerate() {
        if n > 0 {
            scan.durable(Lsn::new(segment.first.get() - 1));
        }
        for found in store.read(segment.first).await.unwrap() {
            match found.frame {
                Ok(frame) => drop(scan.group(&decode(&frame).unwrap().0, &found.place)?),
                Err(reason) => scan.damaged(&found.place, &reason),
            }
        }
    }
    scan.finish()
}
