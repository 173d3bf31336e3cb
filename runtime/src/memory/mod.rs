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

/// A ceiling of `bytes_max` bytes for a process that refusals call `owner`. A thread watches it from now on.
/// Without a bound, and where the system does not show the process's memory, there is no ceiling.
pub fn watched(owner: &'static str, bytes_max: Option<u64>) -> Ceiling {
    let Some(bytes_max) = bytes_max else { return Ceiling::none() };
    let ceiling = Ceiling::of(owner, bytes_max);
    // Simulated processes have no memory of their own.
    #[cfg(not(madsim))]
    if let Err(error) = watching::watch(&ceiling) {
        tracing::warn!(%error, "the process's memory cannot be watched: --memory-max has no effect");
        return Ceiling::none();
    }
    ceiling
}
