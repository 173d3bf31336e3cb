//! The rendezvous: where a tensor that one device produces meets the device that wants it, whoever comes
//! first.
//!
//! A rendezvous is the table of one step, of keys and what was sent under each; a worker has one for
//! each of its steps. Producers never wait. A consumer of another worker asks the worker of the
//! source device. What each call does is what TensorFlow's `RendezvousMgr` and `RecvTensor` do, and
//! differs where those lose tensors or keep callers waiting for ever:
//!
//! - Keys are the same if their whole texts are, not only hashes of them.
//! - Who gives up a receive takes away that one receive, and no tensor with it.
//! - What is asked of a step before it is initialised is carried out then, or told when the step ends.
//! - Everything is bounded: tensors and bytes of a step and of all, steps, calls, requests.
//! - A step that nobody cleans up is given up after a while.
//! - A request that may be repeated is answered again as the first time.
//!
//! Nothing of it is durable: tensors are gone when their worker is, and its devices then have other
//! incarnations, so that nobody takes a later tensor for an earlier one.

mod calls;
mod config;
mod device;
mod ending;
mod fetching;
mod initialising;
mod invariants;
mod key;
mod line;
mod machine;
mod receiving;
mod refusal;
mod report;
mod requests;
mod room;
mod sending;
mod step;
mod table;
mod types;
mod waiting;

pub use config::Config;
pub use device::{Device, Local, Worker};
pub use invariants::check;
#[cfg(test)]
pub(crate) use invariants::invariants;
pub use key::{FrameAndIter, Key};
pub use machine::Rendezvous;
pub use report::{Report, StepReport};
pub use room::Held;
pub use types::{
    Args, Asked, Delivery, Effect, Event, Failure, Input, Session, Value, derived, is_derived,
    merged,
};
