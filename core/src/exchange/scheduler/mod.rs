//! The scheduler of an exchange: who takes part, in which run, and who has come to which barrier. No
//! tensor passes through it.
//!
//! - All workers and servers register; when the last one has, everybody is told who takes part.
//! - A process that is silent, or whose connection breaks and does not return, is lost, and everybody is
//!   told. Another run of it may take its place, and so may one of a process that left.
//! - A barrier releases those who wait when everybody of its mask that takes part has come. It fails
//!   while somebody of its mask is lost, unless the settings say that it goes on without.
//! - Nothing is durable. A scheduler that was restarted learns from the processes that come back who takes
//!   part and which barriers were passed, and gives the others a while to come back, too.
//! - Who only looks on is told who takes part, and what processes know of their requests, one page at a
//!   time.
//! - When nobody takes part any more the exchange is over, and another one may begin.

mod barriers;
mod gathering;
mod invariants;
mod leaving;
mod links;
mod machine;
mod observing;
mod placing;
mod rebuilding;
mod refusal;
mod registering;
mod report;
mod seat;
mod telling;
mod types;

#[cfg(test)]
pub(crate) use invariants::SCHEDULER_INVARIANTS;
pub use invariants::check;
pub use machine::Scheduler;
pub use report::{Phase, Report};
pub use types::{Ask, Effect, Event, Input, Settings};
