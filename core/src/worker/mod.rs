//! A worker of the tf.data service: it registers, holds tasks, has their elements made ahead of the
//! consumers who ask for them, and hands them out.
//!
//! ```text
//!      Start           version          first heartbeat          Drain
//! NEW ───────▶ VERSION ───────▶ FIRST HEARTBEAT ───────▶ REGISTERED ───────▶ STOPPED
//! ```
//!
//! Elements are bytes here: its driver makes them, by [`Effect::Produce`], no more at once than
//! there is room for. An element belongs to the call it was given to only when the driver says that
//! it has left; until then a call that is taken back gives it back.

mod asking;
mod buffer;
mod cache;
mod calls;
mod completions;
mod config;
mod consumers;
mod draining;
mod first_come;
mod invariants;
mod machine;
mod opening;
mod refusal;
mod registration;
mod retry;
mod rounds;
mod runner;
mod supply;
mod task;
mod tasks;
mod types;

pub use config::Config;
pub(crate) use invariants::WORKER_INVARIANTS;
pub use machine::{Wake, Worker};
pub use types::{
    Answer, Ask, Effect, ElementAsk, Event, From, Input, Part, Reply, Request, RpcId, RunId,
    ShardBy, TaskDef, Then,
};
