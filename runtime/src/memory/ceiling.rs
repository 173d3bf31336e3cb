//! A ceiling for the memory of the process. A server that has reached it refuses work that takes more.
//!
//! A thread reads how many bytes the process has resident. So everything counts that clients can make grow:
//! messages, state, calls that wait, connections, and the allocator's free lists.

use std::sync::Arc;
#[cfg(not(madsim))]
use std::sync::Weak;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use rondo_core::status::{Code, Status};
use tokio::sync::watch;

/// A bound on the memory that the process has resident. Cheap to clone; clones are the same ceiling.
#[derive(Clone, Debug)]
pub struct Ceiling(Arc<Memory>);

/// The bound and the counts of a ceiling.
#[derive(Debug)]
pub(super) struct Memory {
    bytes_max: u64,
    /// The bytes that the process had resident at the last look.
    resident: AtomicU64,
    /// The bytes that the ceiling has granted since. Messages may not have filled them yet.
    granted: AtomicU64,
    /// The bytes that it granted between the last two looks.
    granted_before: AtomicU64,
    is_reached: watch::Sender<bool>,
    /// Work has been refused since the process looked last.
    has_refused: AtomicBool,
}

impl Ceiling {
    /// A ceiling of `bytes_max` bytes that nobody watches: it counts nothing until [`Ceiling::see`] is
    /// called.
    pub fn new(bytes_max: u64) -> Self {
        Self(Arc::new(Memory {
            bytes_max,
            resident: AtomicU64::new(0),
            granted: AtomicU64::new(0),
            granted_before: AtomicU64::new(0),
            is_reached: watch::Sender::new(false),
            has_refused: AtomicBool::new(false),
        }))
    }

    /// No ceiling.
    pub fn none() -> Self {
        Self::new(u64::MAX)
    }

    /// The ceiling as long as anybody else has it.
    #[cfg(not(madsim))]
    pub(super) fn downgrade(&self) -> Weak<Memory> {
        Arc::downgrade(&self.0)
    }

    /// The ceiling, if anybody has it.
    #[cfg(not(madsim))]
    pub(super) fn upgrade(memory: &Weak<Memory>) -> Option<Self> {
        memory.upgrade().map(Self)
    }

    /// The bound, in bytes.
    pub fn bytes_max(&self) -> u64 {
        self.0.bytes_max
    }

    /// How large the state may become, in bytes, while no snapshot is built: five eighths of the bound. The
    /// state and a snapshot of it then take a quarter more than the bound.
    pub(super) fn state_bytes_max(&self) -> u64 {
        self.0.bytes_max / 8 * 5
    }

    /// The bytes that the process had resident at the last look.
    pub fn resident_bytes(&self) -> u64 {
        self.0.resident.load(Ordering::Relaxed)
    }

    /// Whether the process has as much memory as it may.
    pub fn is_reached(&self) -> bool {
        self.used() >= self.0.bytes_max
    }

    /// Refuses work at the ceiling.
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED with the bound.
    pub fn check(&self) -> Result<(), Status> {
        match self.is_reached() {
            true => Err(self.refusal()),
            false => Ok(()),
        }
    }

    /// Refuses work that makes the state larger. Building a snapshot takes as much memory as the state.
    /// So the state may grow up to five eighths of the bound only, and up to the bound while one is built.
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED with the bound.
    pub fn check_state(&self, builds_snapshot: bool) -> Result<(), Status> {
        self.check()?;
        let most = self.state_bytes_max();
        if builds_snapshot || self.used() < most {
            return Ok(());
        }
        let text = format!(
            "the server has {} bytes of memory in use. Its state may grow up to {most} bytes, five eighths \
             of {} (--memory-max), because a snapshot takes as much again. Delete keys to make room",
            self.used(),
            self.0.bytes_max
        );
        Err(self.refused(text))
    }

    /// Grants so many bytes.
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED with the bound when they do not fit below the ceiling.
    pub fn grant(&self, bytes: u64) -> Result<(), Status> {
        if self.used().saturating_add(bytes) > self.0.bytes_max {
            return Err(self.refusal());
        }
        self.0.granted.fetch_add(bytes, Ordering::Relaxed);
        Ok(())
    }

    /// Takes back bytes that a message was granted and needs no more.
    pub fn take_back(&self, bytes: u64) {
        let less = |granted: u64| Some(granted.saturating_sub(bytes));
        // A message may give back older grants, which count no more. Then the count is too low until the
        // next look.
        let _before = self.0.granted.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
    }

    /// Waits until the ceiling is reached. Returns the refusal of work that waits for memory.
    pub async fn reached(&self) -> Status {
        let mut is_reached = self.0.is_reached.subscribe();
        if is_reached.wait_for(|is_reached| *is_reached).await.is_err() {
            // The sender lives as long as `self`.
            std::future::pending::<()>().await;
        }
        self.refusal()
    }

    /// Learns how many bytes the process has resident.
    pub fn see(&self, resident: u64) {
        self.0.resident.store(resident, Ordering::Relaxed);
        let granted = self.0.granted.swap(0, Ordering::Relaxed);
        self.0.granted_before.store(granted, Ordering::Relaxed);
        let now = resident >= self.0.bytes_max;
        self.0.is_reached.send_if_modified(|is_reached| std::mem::replace(is_reached, now) != now);
    }

    /// Whether work has been refused since this was asked last.
    #[cfg(not(madsim))]
    pub(super) fn has_refused(&self) -> bool {
        self.0.has_refused.swap(false, Ordering::Relaxed)
    }

    fn used(&self) -> u64 {
        let granted = self.0.granted.load(Ordering::Relaxed);
        let before = self.0.granted_before.load(Ordering::Relaxed);
        self.resident_bytes().saturating_add(granted).saturating_add(before)
    }

    fn refusal(&self) -> Status {
        let text = format!(
            "the server has {} bytes of memory in use, and its bound is {} (--memory-max): it takes no more \
             work until memory is free; heartbeats, deletions and reads of short things go on",
            self.used(),
            self.0.bytes_max
        );
        self.refused(text)
    }

    fn refused(&self, text: String) -> Status {
        self.0.has_refused.store(true, Ordering::Relaxed);
        Status::new(Code::ResourceExhausted, text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn work_is_refused_at_the_ceiling_and_goes_on_below_it() {
        let ceiling = Ceiling::new(100 * MIB);
        ceiling.check().unwrap();
        ceiling.see(100 * MIB);
        let refused = ceiling.check().unwrap_err();
        assert_eq!(refused.code, Code::ResourceExhausted);
        for part in ["104857600", "--memory-max"] {
            assert!(refused.message.contains(part), "{refused}");
        }
        ceiling.see(100 * MIB - 1);
        ceiling.check().unwrap();
    }

    #[test]
    fn the_state_leaves_memory_for_a_snapshot_of_it() {
        let ceiling = Ceiling::new(80 * MIB);
        ceiling.see(50 * MIB - 1);
        ceiling.check_state(false).unwrap();
        ceiling.see(50 * MIB);
        let refused = ceiling.check_state(false).unwrap_err();
        assert!(refused.message.contains("52428800") && refused.message.contains("--memory-max"));
        ceiling.check().unwrap();
        // Then a part of the memory is the snapshot's.
        ceiling.check_state(true).unwrap();
        ceiling.see(80 * MIB);
        assert!(ceiling.check_state(true).is_err());
        Ceiling::none().check_state(false).unwrap();
    }

    #[test]
    fn what_is_granted_counts_until_it_must_be_resident() {
        let ceiling = Ceiling::new(100 * MIB);
        ceiling.see(40 * MIB);
        ceiling.grant(50 * MIB).unwrap();
        assert!(ceiling.grant(11 * MIB).is_err());
        assert!(!ceiling.is_reached());
        ceiling.grant(10 * MIB).unwrap();
        assert!(ceiling.is_reached());
        ceiling.see(40 * MIB);
        assert!(ceiling.is_reached(), "not all of it may be resident yet");
        ceiling.see(60 * MIB);
        ceiling.grant(40 * MIB).unwrap();
    }

    #[tokio::test]
    async fn who_waits_hears_of_the_ceiling() {
        let ceiling = Ceiling::new(100 * MIB);
        let waiting = tokio::spawn({
            let ceiling = ceiling.clone();
            async move { ceiling.reached().await }
        });
        tokio::task::yield_now().await;
        ceiling.see(99 * MIB);
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        ceiling.see(101 * MIB);
        assert_eq!(waiting.await.unwrap().code, Code::ResourceExhausted);
    }

    #[test]
    fn without_a_ceiling_nothing_is_refused() {
        let ceiling = Ceiling::none();
        ceiling.see(u64::MAX - 1);
        ceiling.check().unwrap();
    }
}
