//! Large definitions of a running node: there as long as a dataset or a registration needs them.

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use rondo::service::NodePort;
use rondo::store::blobs::{Blob, Blobs, FileBlobs, digest};
use rondo::store::{Disk, StoreConfig, StoreKind};
use rondo_core::status::Code;

use rondo_core::dispatcher;
use rondo_core::ids::DatasetId;

use super::calls::{call, register};
use super::model_disk::{Left, ModelDisk};
use super::world::{Life, World, eventually};

fn large(fill: u8) -> Bytes {
    vec![fill; 100_000].into()
}

#[test]
fn a_refused_registration_leaves_no_definition_behind() {
    let world = World::new(StoreKind::Segment);
    let life = Life::begin(&world);
    life.run(async {
        let node = &life.node;
        register(node, "data", large(1), 3).await.unwrap();
        // Another cardinality under the same id.
        let refused = register(node, "data", large(2), 4).await.unwrap_err();
        assert_eq!(refused.code, Code::InvalidArgument);
        eventually("the removal", || node.journal_status().blobs == 1).await;
        assert_eq!(node.get_blob(digest(&large(1))).await.unwrap(), large(1));
    });
}

#[test]
fn a_definition_put_for_nothing_goes_when_its_pin_does() {
    let world = World::new(StoreKind::Segment);
    let life = Life::begin(&world);
    life.run(async {
        let node = &life.node;
        let pin = node.put_blob(Blob::of(large(1))).await.unwrap();
        assert_eq!(node.journal_status().blobs, 1);
        drop(pin);
        eventually("the removal", || node.journal_status().blobs == 0).await;
        let gone = async || node.get_blob(digest(&large(1))).await.is_err();
        while !gone().await {
            tokio::time::sleep(std::time::Duration::from_millis(1)).await;
        }
        register(node, "data", large(1), 3).await.unwrap();
        assert_eq!(node.get_blob(digest(&large(1))).await.unwrap(), large(1));
    });
    life.stop();
    let life = Life::begin(&world);
    assert_eq!(life.run(life.node.get_blob(digest(&large(1)))).unwrap(), large(1));
}

/// Registrations that succeed and fail race for one definition: while some are refused, and their
/// ends take the definition away, the one that is taken must find it in place.
#[test]
fn a_definition_that_is_registered_is_never_taken_away_by_those_that_were_refused() {
    let world = World::new(StoreKind::Segment);
    for round in 0..20 {
        let life = Life::begin(&world);
        life.run(async {
            let node = &life.node;
            let taken = format!("taken{round}");
            register(node, &taken, Bytes::from_static(b"small"), 3).await.unwrap();
            let blob = large(round);
            let refused = async |pause: u8| {
                for _ in 0..pause {
                    tokio::task::yield_now().await;
                }
                for _ in 0..5 {
                    register(node, &taken, blob.clone(), 4).await.unwrap_err();
                }
            };
            let accepted = async {
                tokio::time::sleep(std::time::Duration::from_millis(u64::from(round))).await;
                register(node, &format!("data{round}"), blob.clone(), 3).await.unwrap();
                assert_eq!(node.get_blob(digest(&blob)).await.unwrap(), blob);
            };
            tokio::join!(refused(0), refused(3), accepted, refused(9));
            assert_eq!(node.get_blob(digest(&blob)).await.unwrap(), blob);
        });
        // A start over the directory misses nothing.
        life.stop();
    }
}

async fn files(disk: &ModelDisk) -> FileBlobs {
    let disk: Arc<dyn Disk> = Arc::new(disk.clone());
    let config = StoreConfig { free_space_reserve_bytes: 0, ..StoreConfig::default() };
    FileBlobs::open(disk, Path::new("/"), &config).await.unwrap()
}

/// Opens the blobs on a disk and puts one, unless the disk stops before. Whether it is kept.
async fn put(disk: &ModelDisk) -> bool {
    let put = async {
        let blobs = files(disk).await;
        blobs.put(Blob::of(large(1))).await.unwrap();
        blobs
    };
    tokio::select! {
        biased;
        blobs = put => blobs.get(digest(&large(1))).await.unwrap().is_some(),
        () = disk.stopped() => false,
    }
}

/// A process dies anywhere while it keeps a blob, the next one is told that it is kept, and then the power
/// goes.
#[tokio::test]
async fn a_blob_that_a_dead_process_left_is_durable_when_it_is_kept_again() {
    let mut is_kept = false;
    let mut operations = 0;
    while !is_kept {
        let disk = ModelDisk::new();
        disk.stop_after(operations);
        is_kept = put(&disk).await;
        let next = disk.after_the_cut(Left::Everything);
        assert!(put(&next).await);
        let after = next.after_the_cut(Left::Synced);
        let blob = files(&after).await.get(digest(&large(1))).await.unwrap();
        assert_eq!(blob, Some(large(1)), "the first process died after {operations} operations");
        operations += 1;
    }
    assert!(operations > 4, "{operations} operations");
}

#[test]
fn a_definition_that_nothing_named_at_a_crash_goes_at_the_next_start() {
    let world = World::new(StoreKind::Segment);
    let life = Life::begin(&world);
    let pin = life.run(life.node.put_blob(Blob::of(large(1)))).unwrap();
    life.crash();
    drop(pin);
    let life = Life::begin(&world);
    assert_eq!(life.node.journal_status().blobs, 0);
    assert!(life.run(life.node.get_blob(digest(&large(1)))).is_err());
}

#[test]
fn a_definition_goes_with_the_last_dataset_that_has_it() {
    let world = World::new(StoreKind::Segment);
    let life = Life::begin(&world);
    life.run(async {
        let node = &life.node;
        for id in ["a", "b"] {
            register(node, id, large(1), 3).await.unwrap();
        }
        for (id, left) in [("a", 1), ("b", 0)] {
            let dataset = DatasetId::new(id);
            call(node, dispatcher::Request::DeleteDataset { dataset }).await.unwrap();
            eventually("the removal", || node.journal_status().blobs == left).await;
        }
    });
}
