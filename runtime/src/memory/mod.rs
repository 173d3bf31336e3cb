//! How much memory the process has, how much it may have, and how much the machine has.

pub mod ceiling;
#[cfg(not(madsim))]
pub mod machine;
#[cfg(not(madsim))]
pub mod watching;

pub use self::ceiling::Ceiling;
