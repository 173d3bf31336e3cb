//! The node-local sidecar: unmodified processes talk to it over loopback, it talks to the server,
//! and they do not notice when the server is away for a while.
//!
//! It knows of a call only what it must: whether it may be repeated, and which task registers,
//! beats or leaves. Everything else is bytes. What must not happen twice is marked with a number
//! ([`crate::stamp::Stamp`]), so that it can be sent again when nobody knows whether it arrived.
//!
//! Nothing of it is durable: the connections of its clients die with it, and so do the clients.
//! A relay that is started again has another number, and its sequence begins anew.

mod calls;
mod clients;
mod config;
mod invariants;
mod lanes;
mod machine;
mod refusal;
mod sending;
mod types;
mod upstream;

pub use config::{Config, Host};
pub(crate) use invariants::RELAY_INVARIANTS;
pub use machine::{Relay, Wake};
pub use types::{Answer, Asked, Effect, Event, Forwarding, Input, Kind, Link, Refused, Task, Who};
