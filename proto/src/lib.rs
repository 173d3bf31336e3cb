//! Rondo's wire formats: generated messages, checked conversions between bytes and core types,
//! graphs, and journal frames.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod convert;
pub mod dataset;
pub mod element;
pub mod frame;
pub mod graph;
mod messages;
pub mod pieces;

pub use messages::{admin, health, journal, tf, xla};
/// As generated code of other packages calls it.
use tf as tensorflow;
