//! The running node over real and faulty disks, one behaviour a file.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod blobs;
mod calls;
mod cancellation;
mod damage;
mod durability;
mod failing_sync;
#[path = "../disks/faulty.rs"]
mod faulty_disk;
mod full_disk;
mod listings;
#[path = "../disks/model.rs"]
mod model_disk;
mod note;
mod power_cut;
mod pushes;
mod random;
mod restart;
mod snapshots;
mod stop;
mod turns;
mod world;
