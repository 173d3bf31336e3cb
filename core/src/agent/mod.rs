//! A task's own side of the coordination service: it registers, shows that it lives, hears of
//! errors, and shares keys.
//!
//! ```text
//!               Initialize               Connect           SetError
//! UNINITIALIZED ──────────▶ DISCONNECTED ───────▶ RUNNING ──────────▶ ERROR
//!                                ▲                                      │
//!                                └──────────────── Reset ───────────────┘
//! ```
//!
//! The way to the server is the driver's: behind a relay, or with one within the same process, it
//! outlives the server's absence; without one, a call that fails has failed.

mod barriers;
mod calls;
mod config;
mod connecting;
mod errors;
mod living;
mod machine;
mod types;
mod watching;

pub use config::Config;
pub use machine::{Agent, Wake};
pub use types::{
    Ask, Effect, Input, JobStatus, KeyChange, PutCondition, Reply, Request, RpcId, State,
    TaskStatus,
};
