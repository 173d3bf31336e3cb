//! Durable appends a second, to be run by hand on a quiet machine:
//! `cargo test --release -p rondo --test store rates -- --ignored --nocapture`.

use std::time::{Duration, Instant};

use bytes::Bytes;
use rondo::store::{StoreConfig, StoreKind};
use rondo_core::ids::Lsn;

use super::world::{World, group};

const RECORD_BYTES: usize = 200;
const RUN: Duration = Duration::from_secs(3);

/// Appends groups of `records` records, each group synced before the next, as a node does whose
/// clients wait; gives records a second.
async fn rate(kind: StoreKind, records: u64) -> f64 {
    let mut world = World::new(kind);
    world.config = StoreConfig::default();
    let mut store = world.open().await;
    let start = Instant::now();
    let mut lsn = 1;
    while start.elapsed() < RUN {
        let frame: Bytes = group(lsn, records, &payload(lsn, records));
        store.append(Lsn::new(lsn), frame).await.unwrap();
        store.sync().await.unwrap();
        lsn += records;
        if store.segments().last().unwrap().size_bytes > world.config.segment_bytes_max {
            store.rotate(Lsn::new(lsn)).await.unwrap();
        }
    }
    lsn as f64 / start.elapsed().as_secs_f64()
}

fn payload(lsn: u64, records: u64) -> Vec<u8> {
    (0..records * RECORD_BYTES as u64).map(|n| (n ^ lsn) as u8).collect()
}

#[tokio::test]
#[ignore = "a measurement, not a test"]
async fn print_rates() {
    for kind in [StoreKind::Segment, StoreKind::Sled] {
        for records in [1, 64, 512] {
            println!("{kind:>8}, sync after {records:>3}: {:>9.0}/s", rate(kind, records).await);
        }
    }
}
