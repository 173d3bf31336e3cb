//! A consumer of a dataset: it becomes a client of an iteration, learns of the workers that have
//! tasks of it, reads from many of them at once, and hands on what they send.
//!
//! Two ways to read:
//!
//! * **By split** ([`BySplit`]): the dispatcher gives the reader splits to hold, any worker reads
//!   them for it, and what the application has consumed is acknowledged to the dispatcher, which
//!   never forgets it. So every record is delivered once, whatever crashes: a worker that is gone
//!   costs a new stream elsewhere from the first record that is missing, and a record that comes
//!   again is known by its split's place and its own place in the split. Splits are delivered in the
//!   order of their places, one after the other.
//! * **By element** ([`ByElement`]): the protocol of TensorFlow's workers and clients. Workers keep
//!   the position; elements come in the order in which workers answer, or, in coordinated reads,
//!   round by round in the order of the tasks.
//!
//! What fails with a code of the way (UNAVAILABLE, ABORTED, CANCELLED, DEADLINE_EXCEEDED) is tried
//! again, for ever; the reader says meanwhile why it stalls. Any other code ends it with that error.

mod config;
mod elements;
mod invariants;
mod leaving;
mod machine;
mod membership;
mod report;
mod retry;
mod shared;
mod splits;
mod types;

pub use config::{ByElement, BySplit, Config, Way};
pub(crate) use invariants::READER_INVARIANTS;
pub use machine::Reader;
pub use report::{Counts, Report, Stall, WorkerCounts, WorkerReport};
pub use types::{
    Answer, Batch, Delivery, Effect, FetchElement, Fetched, HeartbeatAnswer, HeldSplit, Input,
    Member, ReadSplit, Records, Request, RpcId, SplitProgress, SplitsAnswer, Task,
};
