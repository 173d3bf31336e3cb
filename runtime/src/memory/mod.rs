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

/// The ceiling, which a thread watches from now on. Without a ceiling that can be watched there is none.
#[cfg(not(madsim))]
pub fn watched(ceiling: Ceiling) -> Ceiling {
    if ceiling.bytes_max() == u64::MAX {
        return ceiling;
    }
    match watching::watch(&ceiling) {
        Ok(()) => ceiling,
        Err(error) => {
            tracing::warn!(%error, "the process's memory cannot be watched: --memory-max has no effect");
            Ceiling::none()
        }
    }
}

/// The ceiling, which nothing reaches: simulated processes have no memory of their own.
#[cfg(madsim)]
pub fn watched(ceiling: Ceiling) -> Ceiling {
    ceiling
}
