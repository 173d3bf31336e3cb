//! How much memory the process has, how much it may have, and how much the machine has.

pub mod ceiling;
#[cfg(not(madsim))]
pub mod machine;
#[cfg(not(madsim))]
pub mod watching;

pub use self::ceiling::{Ceiling, Level, SnapshotPlan};

/// The bytes that the process has resident; 0 where the system does not tell.
pub fn resident_bytes() -> u64 {
    #[cfg(not(madsim))]
    return watching::resident_bytes().unwrap_or(0);
    #[cfg(madsim)]
    0
}
