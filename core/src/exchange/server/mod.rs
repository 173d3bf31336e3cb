//! A server's side of the exchange: units of each worker in queues of their own, batches of one unit of
//! each, answers kept until they have arrived, and the memory where pushes land.
//!
//! A driver that sees the beginning of a request asks [`Server::land`] where its tensors go, reads them
//! there, and hands the request in with those payloads; if they have no place it drops them and says so
//! ([`Input::NotTaken`]). It reports each connection's end when nothing is read from it any more.

mod answering;
mod arriving;
mod batches;
mod greeting;
mod hearing;
mod losing;
mod machine;
mod membership;
mod peer;
mod releasing;
mod report;
mod rows;
mod slots;
mod telling;
mod types;

pub use machine::Server;
pub use report::Report;
pub use rows::RowsOf;
pub use types::{Answering, Effect, Event, Input, Landing, Partial, Place, Unit};

pub(in crate::exchange) use machine::Due;
pub(in crate::exchange) use peer::{Peer, Phase};
pub(in crate::exchange) use releasing::EXCUSED_MAX;
