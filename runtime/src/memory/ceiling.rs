//! A ceiling for the memory of the process. A server that has reached it refuses work that takes more.
//!
//! A thread reads how many bytes the process has resident, without shared memory, which has a bound of its
//! own. So everything counts that clients can make grow: messages, state, calls that wait,
//! connections, and the allocator's free lists.

use std::sync::Arc;
#[cfg(not(madsim))]
use std::sync::Weak;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};

use rondo_core::memory::Memory as Left;
use rondo_core::status::{Code, Status};
use tokio::sync::watch;

/// Looks for which the bound stays raised after a snapshot was built: half a second or more.
const RAISED_LOOKS: u8 = 50;

/// Whether a snapshot takes memory beside the state. Building one takes as much memory as the state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SnapshotPlan {
    /// None: the state is nowhere but in memory. It may grow up to seven eighths of the bound.
    Never,
    /// The node will build one, which takes as much memory as the state. The state may grow up to half of the
    /// bound.
    Planned,
    /// The node builds one. The state and the snapshot may take the bound together, and the process an eighth
    /// more.
    UnderWay,
}

/// How much memory is left, in three steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// Enough.
    Enough,
    /// None for more state.
    Short,
    /// None at all.
    None,
}

/// A bound on the memory that the process has resident. Cheap to clone; clones are the same ceiling.
#[derive(Clone, Debug)]
pub struct Ceiling(Arc<Memory>);

/// The bound and the counts of a ceiling.
#[derive(Debug)]
pub(super) struct Memory {
    /// The process, as its refusals call it.
    owner: &'static str,
    bytes_max: u64,
    /// The bytes that the process had resident before it served anybody.
    base: AtomicU64,
    /// The bytes that the process had resident at the last look.
    resident: AtomicU64,
    /// The bytes that the ceiling has granted since. Messages may not have filled them yet.
    granted: AtomicU64,
    /// The bytes that it granted between the last two looks.
    granted_before: AtomicU64,
    /// The bytes that messages under way and tensors of the rendezvous hold.
    messages: AtomicU64,
    /// A snapshot is being built.
    builds_snapshot: AtomicBool,
    /// Looks for which the bound stays raised for a snapshot. Its memory is resident when it is built.
    raised_looks: AtomicU8,
    is_reached: watch::Sender<bool>,
    /// The node refuses what makes the state larger.
    refuses_state: AtomicBool,
    /// Work has been refused since the process looked last.
    has_refused: AtomicBool,
}

impl Ceiling {
    /// A ceiling of `bytes_max` bytes that nobody watches: it counts nothing until [`Ceiling::see`] is
    /// called.
    pub fn new(bytes_max: u64) -> Self {
        Self::of("the server", bytes_max)
    }

    /// The same of another process, which refusals call `owner`.
    pub fn of(owner: &'static str, bytes_max: u64) -> Self {
        Self(Arc::new(Memory {
            owner,
            bytes_max,
            base: AtomicU64::new(0),
            resident: AtomicU64::new(0),
            granted: AtomicU64::new(0),
            granted_before: AtomicU64::new(0),
            messages: AtomicU64::new(0),
            builds_snapshot: AtomicBool::new(false),
            raised_looks: AtomicU8::new(0),
            is_reached: watch::Sender::new(false),
            refuses_state: AtomicBool::new(false),
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

    /// How large the state may become, in bytes. What the process had before it served anybody is no state.
    pub fn state_bytes_max(&self, snapshots: SnapshotPlan) -> u64 {
        let bytes = self.0.bytes_max.saturating_sub(self.0.base.load(Ordering::Relaxed));
        match snapshots {
            SnapshotPlan::Planned => bytes / 2,
            SnapshotPlan::UnderWay => bytes,
            SnapshotPlan::Never => bytes / 8 * 7,
        }
    }

    /// About how large the state is, in bytes. Half of what messages hold is none: at least the other half of
    /// a request is resident. So messages of others do not keep everybody from new state. The same holds for
    /// tensors of the rendezvous: no snapshot needs memory for them.
    fn state_bytes(&self) -> u64 {
        let messages = self.0.messages.load(Ordering::Relaxed) / 2;
        let others = self.0.base.load(Ordering::Relaxed).saturating_add(messages);
        self.resident_bytes().saturating_sub(others)
    }

    /// The plan by which the state is judged.
    fn plan(&self, snapshots: SnapshotPlan) -> SnapshotPlan {
        let is_raised = self.0.raised_looks.load(Ordering::Relaxed) > 0;
        match snapshots {
            SnapshotPlan::Planned if is_raised => SnapshotPlan::UnderWay,
            other => other,
        }
    }

    /// The bytes that the process had resident at the last look.
    pub fn resident_bytes(&self) -> u64 {
        self.0.resident.load(Ordering::Relaxed)
    }

    /// Whether the process has as much memory as it may.
    pub fn is_reached(&self) -> bool {
        self.used() >= self.bytes_max_now()
    }

    /// How many bytes the process may have at present.
    fn bytes_max_now(&self) -> u64 {
        match self.0.raised_looks.load(Ordering::Relaxed) > 0 {
            true => self.0.bytes_max.saturating_add(self.0.bytes_max / 8),
            false => self.0.bytes_max,
        }
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

    /// How much memory is left for a node with this plan, which goes by it from now on. Memory that was
    /// short is so until there is a sixteenth to spare. What was granted and is not resident yet counts for
    /// messages only.
    pub fn level(&self, snapshots: SnapshotPlan) -> Level {
        let is_under_way = snapshots == SnapshotPlan::UnderWay;
        self.0.builds_snapshot.store(is_under_way, Ordering::Relaxed);
        if is_under_way {
            self.0.raised_looks.store(RAISED_LOOKS, Ordering::Relaxed);
        }
        let most = self.state_bytes_max(self.plan(snapshots));
        let most = if self.refuses_state() { most / 16 * 15 } else { most };
        let level = if self.resident_bytes() >= self.bytes_max_now() {
            Level::None
        } else if self.state_bytes() >= most {
            Level::Short
        } else {
            Level::Enough
        };
        self.0.refuses_state.store(level != Level::Enough, Ordering::Relaxed);
        level
    }

    /// Whether the node refuses what makes the state larger.
    pub fn refuses_state(&self) -> bool {
        self.0.refuses_state.load(Ordering::Relaxed)
    }

    /// The memory that is left at this level, as the driver tells the node.
    pub fn left(&self, level: Level, snapshots: SnapshotPlan) -> Left {
        match level {
            Level::Enough => Left::Enough,
            Level::Short => Left::Short(self.why_short(snapshots).into()),
            Level::None => Left::None(self.refusal().message.into()),
        }
    }

    fn why_short(&self, snapshots: SnapshotPlan) -> String {
        let plan = self.plan(snapshots);
        let (bytes, bound) = (self.state_bytes(), self.0.bytes_max);
        let most = self.state_bytes_max(plan);
        let reason = match plan {
            SnapshotPlan::Planned => ", because a snapshot of it takes as much memory",
            SnapshotPlan::UnderWay | SnapshotPlan::Never => "",
        };
        format!(
            "the server's state takes about {bytes} bytes and may take {most} of the {bound} that the server \
             may have (--memory-max){reason}; delete keys, jobs or datasets to make room"
        )
    }

    /// Grants so many bytes.
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED with the bound when they do not fit below the ceiling.
    pub fn grant(&self, bytes: u64) -> Result<(), Status> {
        if self.used().saturating_add(bytes) > self.bytes_max_now() {
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

    /// Messages, or tensors of the rendezvous, hold so many bytes more.
    pub fn hold(&self, bytes: u64) {
        self.0.messages.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Messages, or tensors of the rendezvous, hold so many bytes less.
    pub fn let_go(&self, bytes: u64) {
        self.0.messages.fetch_sub(bytes, Ordering::Relaxed);
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

    /// Learns how many bytes the process has resident before it serves anybody.
    #[cfg(not(madsim))]
    pub(super) fn begin_with(&self, resident: u64) {
        self.0.base.store(resident.min(self.0.bytes_max / 2), Ordering::Relaxed);
        self.see(resident);
    }

    /// Learns how many bytes the process has resident.
    pub fn see(&self, resident: u64) {
        if !self.0.builds_snapshot.load(Ordering::Relaxed) {
            let less = |looks: u8| Some(looks.saturating_sub(1));
            let _before =
                self.0.raised_looks.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
        }
        self.0.resident.store(resident, Ordering::Relaxed);
        let granted = self.0.granted.swap(0, Ordering::Relaxed);
        self.0.granted_before.store(granted, Ordering::Relaxed);
        let now = resident >= self.bytes_max_now();
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
            "{} has {} bytes of memory in use, and its bound is {} (--memory-max); heartbeats, deletions and \
             reads of short things go on",
            self.0.owner,
            self.used(),
            self.0.bytes_max
        );
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
        for part in ["the server has", "104857600", "--memory-max"] {
            assert!(refused.message.contains(part), "{refused}");
        }
        ceiling.see(100 * MIB - 1);
        ceiling.check().unwrap();
        let of_relay = Ceiling::of("the relay", MIB);
        of_relay.see(MIB);
        let refused = of_relay.check().unwrap_err();
        assert!(refused.message.starts_with("the relay has"), "{refused}");
    }

    #[test]
    fn the_state_leaves_memory_for_a_snapshot_of_it() {
        let ceiling = Ceiling::new(80 * MIB);
        let level = |snapshots| ceiling.level(snapshots);
        ceiling.see(40 * MIB - 1);
        assert_eq!(level(SnapshotPlan::Planned), Level::Enough);
        assert!(!ceiling.refuses_state());
        ceiling.see(40 * MIB);
        assert_eq!(level(SnapshotPlan::Planned), Level::Short);
        assert!(ceiling.refuses_state());
        let Left::Short(why) = ceiling.left(Level::Short, SnapshotPlan::Planned) else {
            panic!("the memory is not short");
        };
        assert!(why.contains("41943040") && why.contains("--memory-max"), "{why}");
        ceiling.check().unwrap();
        ceiling.see(80 * MIB);
        assert_eq!(level(SnapshotPlan::Planned), Level::None);
        let left = ceiling.left(Level::None, SnapshotPlan::Planned);
        assert!(matches!(left, Left::None(why) if why.contains("--memory-max")));
        assert_eq!(Ceiling::none().level(SnapshotPlan::Planned), Level::Enough);
    }

    #[test]
    fn state_that_is_kept_in_memory_only_leaves_an_eighth() {
        let ceiling = Ceiling::new(80 * MIB);
        ceiling.see(70 * MIB - 1);
        assert_eq!(ceiling.level(SnapshotPlan::Never), Level::Enough);
        ceiling.see(70 * MIB);
        assert_eq!(ceiling.level(SnapshotPlan::Never), Level::Short);
    }

    #[test]
    fn a_snapshot_raises_the_bound_until_its_memory_is_free() {
        let ceiling = Ceiling::new(80 * MIB);
        ceiling.see(80 * MIB - 1);
        assert_eq!(ceiling.level(SnapshotPlan::UnderWay), Level::Enough);
        ceiling.see(80 * MIB);
        assert_eq!(ceiling.level(SnapshotPlan::UnderWay), Level::Short);
        ceiling.check().unwrap();
        ceiling.see(90 * MIB);
        assert_eq!(ceiling.level(SnapshotPlan::UnderWay), Level::None);
        assert!(ceiling.check().is_err());
        // Then it is built.
        ceiling.see(60 * MIB);
        assert_eq!(ceiling.level(SnapshotPlan::Planned), Level::Enough);
        for _ in 0..RAISED_LOOKS {
            ceiling.see(60 * MIB);
        }
        assert_eq!(ceiling.level(SnapshotPlan::Planned), Level::Short);
        ceiling.see(80 * MIB);
        assert!(ceiling.check().is_err());
    }

    #[test]
    fn memory_that_was_short_is_so_until_there_is_some_to_spare() {
        let ceiling = Ceiling::new(64 * MIB);
        let level = |resident| {
            ceiling.see(resident);
            ceiling.level(SnapshotPlan::Planned)
        };
        assert_eq!(level(31 * MIB), Level::Enough);
        assert_eq!(level(32 * MIB), Level::Short);
        assert_eq!(level(30 * MIB), Level::Short);
        assert_eq!(level(30 * MIB - 1), Level::Enough);
        assert_eq!(level(31 * MIB), Level::Enough);
    }

    #[cfg(not(madsim))]
    #[test]
    fn what_the_process_has_at_first_is_no_state() {
        let ceiling = Ceiling::new(100 * MIB);
        ceiling.begin_with(20 * MIB);
        ceiling.see(60 * MIB - 1);
        assert_eq!(ceiling.level(SnapshotPlan::Planned), Level::Enough);
        ceiling.see(60 * MIB);
        assert_eq!(ceiling.level(SnapshotPlan::Planned), Level::Short);
    }

    #[test]
    fn half_of_what_messages_hold_leaves_room_for_state() {
        let ceiling = Ceiling::new(80 * MIB);
        let level = || ceiling.level(SnapshotPlan::Planned);
        ceiling.see(44 * MIB);
        assert_eq!(level(), Level::Short);
        ceiling.hold(20 * MIB);
        assert_eq!(level(), Level::Enough);
        ceiling.let_go(14 * MIB);
        assert_eq!(level(), Level::Short);
        // A grant that no message holds yet is no state.
        ceiling.see(30 * MIB);
        ceiling.grant(49 * MIB).unwrap();
        assert_eq!(level(), Level::Enough);
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
