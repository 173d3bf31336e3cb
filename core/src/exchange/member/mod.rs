//! A process of an exchange as the scheduler sees it: it registers, shows that it lives, comes back
//! after its connection broke, knows who takes part, waits at barriers, and leaves.
//!
//! Tensors pass without the scheduler: while that is away only barriers and changes of who takes part
//! wait for it, and no longer than the settings say.

mod barriers;
mod calls;
mod connecting;
mod invariants;
mod joining;
mod machine;
mod refusal;
mod types;

#[cfg(test)]
pub(crate) use invariants::MEMBER_INVARIANTS;
pub use invariants::check;
pub use machine::Member;
pub use types::{Ask, Effect, Event, Identity, Input, Reply, Settings, Standing};
