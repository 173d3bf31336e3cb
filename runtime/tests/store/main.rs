//! The stores of a data directory, each behaviour over every store that must have it.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
#![allow(clippy::print_stdout)]

mod blobs;
mod conformance;
mod damage;
mod descriptors;
mod differential;
mod directory;
#[path = "../disks/faulty.rs"]
mod faulty_disk;
mod full_disk;
#[allow(dead_code, reason = "these tests need less of it")]
#[path = "../disks/model.rs"]
mod model_disk;
mod rates;
mod snapshot;
mod world;
