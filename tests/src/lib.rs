//! What the whole-system tests share: the rules of the house as a check, the real binary as a
//! process, a raw gRPC client, and real TensorFlow programs.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "all of this crate is test code: a failed unwrap is a failed test"
)]

pub mod bed;
pub mod binary;
pub mod datasets;
pub mod debian;
pub mod dispatcher;
pub mod graph;
pub mod host;
pub mod jax;
pub mod keys;
pub mod kubernetes;
pub mod launchers;
pub mod ledger;
pub mod load;
pub mod neighbour;
pub mod peer;
pub mod process;
pub mod python;
pub mod python_module;
pub mod random;
pub mod recorder;
pub mod records;
pub mod relay;
pub mod rendezvous;
pub mod samples;
pub mod server;
pub mod skip;
pub mod slurm;
pub mod stranger;
pub mod tensorflow;
pub mod tfrecord;
pub mod tidy;
pub mod torch;
pub mod worker;
