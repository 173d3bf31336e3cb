//! A worker's side of the exchange: requests by handlers, sent to all servers as these have room for
//! them; answers, to where they are to go; who waits, and what becomes of it when a server is lost.
//!
//! A driver that sees the beginning of an answer asks [`Worker::land`] where its tensors go, reads them
//! there, and hands the answer in with those payloads. It reports each connection's end when nothing is
//! read from it any more, not before: until then nobody is told that memory is free which may be written.

mod asking;
mod batch;
mod connecting;
mod ending;
mod greeting;
mod hearing;
mod landing;
mod losing;
mod machine;
mod peer;
mod report;
mod sending;
mod types;
mod waiting;

pub use machine::Worker;
pub use report::Report;
pub use types::{Complete, Effect, Event, Input, Landing, Since};

pub(in crate::exchange) use batch::{Batch, Part};
pub(in crate::exchange) use machine::Due;
pub(in crate::exchange) use peer::{Link, Peer};
