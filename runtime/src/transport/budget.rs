//! A bound on the memory that large messages take while they are under way.
//!
//! A message that arrives takes memory as its bytes arrive, never for bytes that it only announces. When
//! several messages together need more than there is, each could wait for the others for ever. So the budget
//! has two parts: a pool that all messages share, and room for one whole message. One message at a time may
//! use that room: it has the turn, needs nothing more, and so it always ends.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use rondo_core::status::Status;
use tokio::sync::{AcquireError, OwnedSemaphorePermit, Semaphore};

use crate::memory::Ceiling;

/// Messages up to this size are not counted, in bytes.
pub const UNCOUNTED_BYTES_MAX: u64 = 64 << 10;

/// One permit of the semaphore stands for this many bytes.
const UNIT_BYTES: u64 = 1 << 10;

/// Bytes that may be in memory at once on behalf of large messages. A message that needs more waits in order
/// of arrival. A small message never waits. At the ceiling of the process's memory, messages that would wait
/// or take more are refused.
#[derive(Clone, Debug)]
pub struct Budget {
    memory: Arc<Memory>,
    /// The places of one connection's answers; `None` for who is no connection.
    places: Option<Arc<Semaphore>>,
    /// The connection's requests that have begun and are not whole.
    arriving: Arc<AtomicUsize>,
}

/// Large answers of one connection that may have memory, or wait for it, at a time. The others of the
/// connection wait for these, and not in the queue that all connections share. Requests need no such bound:
/// the connection's window has room for few that wait.
const PLACES: usize = 16;

/// Requests of one connection that are not whole, and are few.
const ARRIVING_FEW: usize = 4;

#[derive(Debug)]
struct Memory {
    bytes_max: u64,
    pool: Arc<Semaphore>,
    pool_units: u32,
    /// Has one permit: the turn.
    turn: Arc<Semaphore>,
    /// Messages that wait for memory.
    waiting: AtomicUsize,
    ceiling: Ceiling,
}

/// A share of a [`Budget`]. Dropping it gives the memory back.
#[derive(Debug)]
pub struct Share {
    memory: Arc<Memory>,
    places: Option<Arc<Semaphore>>,
    place: Option<OwnedSemaphorePermit>,
    held: Option<OwnedSemaphorePermit>,
    turn: Option<OwnedSemaphorePermit>,
    /// What the ceiling has granted, in bytes.
    granted: u64,
    /// The bytes that the share may hold. The ceiling counts them as those of a message.
    size_bytes: u64,
    /// Whether the ceiling counts.
    is_below: bool,
}

impl Budget {
    /// A budget of `bytes_max` bytes for messages of up to `message_bytes_max` bytes. The room for one
    /// message is part of it. A message may be longer than the budget: then it has the turn alone.
    pub fn new(bytes_max: u64, message_bytes_max: u64) -> Self {
        Self::below(Ceiling::none(), bytes_max, message_bytes_max)
    }

    /// The same below a ceiling of all memory.
    pub fn below(ceiling: Ceiling, bytes_max: u64, message_bytes_max: u64) -> Self {
        let units_max = Semaphore::MAX_PERMITS.try_into().unwrap_or(u32::MAX);
        let pool_units = units_of(bytes_max.saturating_sub(message_bytes_max)).min(units_max);
        let memory = Memory {
            bytes_max,
            pool: Arc::new(Semaphore::new(usize::try_from(pool_units).unwrap_or(usize::MAX))),
            pool_units,
            turn: Arc::new(Semaphore::new(1)),
            waiting: AtomicUsize::new(0),
            ceiling,
        };
        Self { memory: Arc::new(memory), places: None, arriving: Arc::default() }
    }

    /// The same memory for the messages of one connection more.
    pub fn of_connection(&self) -> Self {
        let places = Some(Arc::new(Semaphore::new(PLACES)));
        Self { memory: Arc::clone(&self.memory), places, arriving: Arc::default() }
    }

    /// The same memory for what several connections wait for: none of them has a place for it.
    pub fn of_all(&self) -> Self {
        Self { memory: Arc::clone(&self.memory), places: None, arriving: Arc::default() }
    }

    /// The whole budget, in bytes.
    pub fn bytes_max(&self) -> u64 {
        self.memory.bytes_max
    }

    /// The ceiling of all memory.
    pub fn ceiling(&self) -> &Ceiling {
        &self.memory.ceiling
    }

    /// Counts a request of the connection that is not whole.
    pub fn arriving(&self) -> Arriving {
        let before = self.arriving.fetch_add(1, Ordering::Relaxed);
        // A budget without places is that of bulk connections, and each of these sends one request at a time.
        let is_of_first = before < ARRIVING_FEW || self.places.is_none();
        Arriving { all: Arc::clone(&self.arriving), is_of_first }
    }

    /// An empty share, for a request. It can grow.
    pub fn share(&self) -> Share {
        self.share_with(None)
    }

    fn share_with(&self, places: Option<Arc<Semaphore>>) -> Share {
        let memory = Arc::clone(&self.memory);
        Share {
            memory,
            places,
            place: None,
            held: None,
            turn: None,
            granted: 0,
            size_bytes: 0,
            is_below: true,
        }
    }

    /// Waits until `size_bytes` are free, and takes them, for an answer.
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED at the ceiling of all memory.
    pub async fn acquire(&self, size_bytes: u64) -> Result<Share, Status> {
        let mut share = self.share_with(self.places.clone());
        share.grow_to(size_bytes).await?;
        Ok(share)
    }
}

impl Share {
    /// The same share, which grows at the ceiling too: for what operators ask. There must be few of them.
    pub fn for_operators(mut self) -> Self {
        self.is_below = false;
        self
    }

    /// Refuses work at the ceiling of all memory.
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED with the bound.
    pub fn check_ceiling(&self) -> Result<(), Status> {
        if self.is_below { self.memory.ceiling.check() } else { Ok(()) }
    }

    /// Waits until the share may hold `size_bytes`. A share that has the turn never waits.
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED at the ceiling of all memory.
    pub async fn grow_to(&mut self, size_bytes: u64) -> Result<(), Status> {
        let missing = match size_bytes {
            0..=UNCOUNTED_BYTES_MAX => 0,
            _ => units_of(size_bytes).saturating_sub(self.units()),
        };
        if missing == 0 {
            return Ok(());
        }
        self.take_place().await?;
        let more = size_bytes.saturating_sub(self.granted);
        if self.is_below && more > 0 {
            self.memory.ceiling.grant(more)?;
            self.granted = size_bytes;
        }
        if self.turn.is_none() {
            match Arc::clone(&self.memory.pool).try_acquire_many_owned(missing) {
                Ok(permit) => self.hold(permit),
                Err(_) => self.wait_for(missing).await?,
            }
        }
        self.memory.ceiling.hold(size_bytes.saturating_sub(self.size_bytes));
        self.size_bytes = self.size_bytes.max(size_bytes);
        Ok(())
    }

    /// Waits for one of the connection's places.
    async fn take_place(&mut self) -> Result<(), Status> {
        let Some(places) = self.places.as_ref().filter(|_| self.place.is_none()) else {
            return Ok(());
        };
        if let Ok(place) = Arc::clone(places).try_acquire_owned() {
            self.place = Some(place);
            return Ok(());
        }
        let (ceiling, places) = (self.memory.ceiling.clone(), Arc::clone(places));
        tokio::select! {
            biased;
            refusal = ceiling.reached(), if self.is_below => Err(refusal),
            place = places.acquire_owned() => {
                // The semaphore is never closed.
                self.place = place.ok();
                Ok(())
            }
        }
    }

    /// Waits for memory of the pool or for the turn.
    async fn wait_for(&mut self, missing: u32) -> Result<(), Status> {
        let _waiting = Waiting::new(&self.memory);
        let pool = from_pool(&self.memory, missing);
        let turn = Arc::clone(&self.memory.turn).acquire_owned();
        let (ceiling, is_below) = (self.memory.ceiling.clone(), self.is_below);
        tokio::select! {
            biased;
            refusal = ceiling.reached(), if is_below => return Err(refusal),
            Ok(permit) = pool => self.hold(permit),
            Ok(permit) = turn => self.turn = Some(permit),
            // The semaphores are never closed.
            else => {}
        }
        Ok(())
    }

    /// Gives back what is above `size_bytes`.
    pub fn shrink_to(&mut self, size_bytes: u64) {
        let granted = self.granted.min(size_bytes);
        self.memory.ceiling.take_back(self.granted.saturating_sub(granted));
        self.granted = granted;
        self.memory.ceiling.let_go(self.size_bytes.saturating_sub(size_bytes));
        self.size_bytes = self.size_bytes.min(size_bytes);
        let kept = match size_bytes {
            0..=UNCOUNTED_BYTES_MAX => 0,
            _ => units_of(size_bytes),
        };
        if kept == 0 {
            self.place = None;
        }
        let above = self.units().saturating_sub(kept);
        if let Some(held) = &mut self.held {
            drop(held.split(usize::try_from(above).unwrap_or(usize::MAX)));
        }
        self.held = self.held.take().filter(|held| held.num_permits() > 0);
        if self.turn.is_none() {
            return;
        }
        // The turn goes on to the next message as soon as the pool holds this one.
        let missing = kept.saturating_sub(self.units());
        if let Ok(permit) = Arc::clone(&self.memory.pool).try_acquire_many_owned(missing) {
            self.hold(permit);
            self.turn = None;
        }
    }

    /// Whether the share holds memory that other messages wait for.
    pub fn holds_up_others(&self) -> bool {
        let holds = self.held.is_some() || self.turn.is_some();
        holds && self.memory.waiting.load(Ordering::Relaxed) > 0
    }

    /// The message with its share. The memory goes back when the last of the message's bytes is dropped.
    pub fn with(self, message: Bytes) -> Bytes {
        Bytes::from_owner(Counted { message, _share: self })
    }

    fn hold(&mut self, permit: OwnedSemaphorePermit) {
        match &mut self.held {
            Some(held) => held.merge(permit),
            held @ None => *held = Some(permit),
        }
    }

    fn units(&self) -> u32 {
        let held = self.held.as_ref().map_or(0, OwnedSemaphorePermit::num_permits);
        u32::try_from(held).unwrap_or(u32::MAX)
    }
}

/// Waits for memory of the pool. More than the whole pool never comes: such a share waits for the turn.
fn from_pool(
    memory: &Memory,
    units: u32,
) -> impl Future<Output = Result<OwnedSemaphorePermit, AcquireError>> + use<> {
    let (pool, is_possible) = (Arc::clone(&memory.pool), units <= memory.pool_units);
    async move {
        if !is_possible {
            std::future::pending::<()>().await;
        }
        pool.acquire_many_owned(units).await
    }
}

/// Counts a message that waits.
struct Waiting(Arc<Memory>);

impl Waiting {
    fn new(memory: &Arc<Memory>) -> Self {
        memory.waiting.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(memory))
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A request that is not whole, as long as this lives.
#[derive(Debug)]
pub struct Arriving {
    all: Arc<AtomicUsize>,
    is_of_first: bool,
}

impl Arriving {
    /// Whether the connection has many of these, and this is not one of the first.
    pub fn is_one_of_many(&self) -> bool {
        !self.is_of_first && self.all.load(Ordering::Relaxed) > ARRIVING_FEW
    }
}

impl Drop for Arriving {
    fn drop(&mut self) {
        self.all.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A message that gives its memory back to the budget when it has left.
struct Counted {
    message: Bytes,
    _share: Share,
}

impl AsRef<[u8]> for Counted {
    fn as_ref(&self) -> &[u8] {
        &self.message
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.memory.ceiling.take_back(self.granted);
        self.memory.ceiling.let_go(self.size_bytes);
    }
}

fn units_of(bytes: u64) -> u32 {
    u32::try_from(bytes.div_ceil(UNIT_BYTES)).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::memory::{Level, SnapshotPlan};

    const MIB: u64 = 1 << 20;

    /// Whether something does not happen for a while.
    async fn waits(what: impl Future) -> bool {
        tokio::time::timeout(Duration::from_millis(20), what).await.is_err()
    }

    fn free_units(budget: &Budget) -> usize {
        budget.memory.pool.available_permits()
    }

    #[tokio::test]
    async fn large_messages_wait_for_each_other_and_small_ones_do_not() {
        let budget = Budget::new(2 * MIB, MIB);
        let in_pool = budget.acquire(MIB).await.unwrap();
        let in_turn = budget.acquire(MIB).await.unwrap();
        assert!(in_pool.turn.is_none() && in_turn.turn.is_some());
        let third = budget.acquire(100 << 10);
        tokio::pin!(third);
        assert!(waits(&mut third).await);
        assert!(!waits(budget.acquire(UNCOUNTED_BYTES_MAX)).await);
        drop(in_pool);
        third.await.unwrap();
    }

    #[tokio::test]
    async fn messages_that_each_hold_a_part_all_come_to_their_ends() {
        const EACH: u64 = 10 * MIB;
        let budget = Budget::new(2 * EACH, EACH);
        let message = |budget: Budget| async move {
            let mut share = budget.share();
            for bytes in (0..=EACH).step_by(1 << 18) {
                share.grow_to(bytes).await.unwrap();
                tokio::task::yield_now().await;
            }
        };
        let all: Vec<_> = (0..50).map(|_| tokio::spawn(message(budget.clone()))).collect();
        for one in all {
            tokio::time::timeout(Duration::from_secs(20), one).await.unwrap().unwrap();
        }
        assert_eq!(free_units(&budget) as u64 * UNIT_BYTES, EACH);
    }

    #[tokio::test]
    async fn what_is_only_announced_takes_nothing() {
        let budget = Budget::new(2 * MIB, MIB);
        let shares: Vec<_> = (0..1000).map(|_| budget.share()).collect();
        assert!(!waits(budget.acquire(MIB)).await);
        drop(shares);
    }

    #[tokio::test]
    async fn a_share_that_shrinks_gives_its_memory_and_its_turn_to_the_next() {
        let budget = Budget::new(2 * MIB, MIB);
        let mut in_pool = budget.acquire(MIB).await.unwrap();
        let mut in_turn = budget.acquire(MIB).await.unwrap();
        in_turn.shrink_to(MIB / 2);
        assert!(in_turn.turn.is_some(), "the pool has no room for it");
        in_pool.shrink_to(MIB / 4);
        in_turn.shrink_to(MIB / 2);
        assert!(in_turn.turn.is_none());
        assert_eq!(free_units(&budget) as u64 * UNIT_BYTES, MIB / 4);
        for share in [&mut in_pool, &mut in_turn] {
            share.shrink_to(UNCOUNTED_BYTES_MAX);
        }
        assert_eq!(free_units(&budget) as u64 * UNIT_BYTES, MIB);
    }

    #[tokio::test]
    async fn a_share_holds_up_others_only_while_it_holds_memory_and_they_wait() {
        let budget = Budget::new(2 * MIB, MIB);
        let mut in_pool = budget.acquire(MIB).await.unwrap();
        let in_turn = budget.acquire(MIB).await.unwrap();
        let small = budget.acquire(UNCOUNTED_BYTES_MAX).await.unwrap();
        assert!(!in_pool.holds_up_others() && !in_turn.holds_up_others());
        let waiting = tokio::spawn({
            let budget = budget.clone();
            async move { budget.acquire(MIB).await.map(drop) }
        });
        tokio::task::yield_now().await;
        assert!(in_pool.holds_up_others() && in_turn.holds_up_others());
        assert!(!small.holds_up_others());
        in_pool.shrink_to(0);
        assert!(!in_pool.holds_up_others());
        waiting.await.unwrap().unwrap();
        assert!(!in_turn.holds_up_others(), "nobody waits any more");
    }

    #[tokio::test]
    async fn a_message_holds_its_share_until_the_last_of_its_bytes_is_gone() {
        let budget = Budget::new(2 * MIB, MIB);
        let message = budget.acquire(MIB).await.unwrap().with(Bytes::from(vec![7; 1 << 20]));
        assert_eq!(free_units(&budget), 0);
        let part = message.slice(1000..2000);
        drop(message);
        assert_eq!(free_units(&budget), 0, "a part of it is there");
        assert_eq!(part, vec![7; 1000]);
        drop(part);
        assert_eq!(free_units(&budget) as u64 * UNIT_BYTES, MIB);
    }

    /// One connection cannot fill the queue that all share.
    #[tokio::test]
    async fn messages_of_one_connection_wait_for_each_other_first() {
        let budget = Budget::new(2 * MIB, MIB);
        let (crowded, other) = (budget.of_connection(), budget.of_connection());
        let held = [budget.acquire(MIB).await.unwrap(), budget.acquire(MIB).await.unwrap()];
        let waiting: Vec<_> = (0..1000)
            .map(|_| {
                let crowded = crowded.clone();
                tokio::spawn(async move { crowded.acquire(MIB).await.map(drop) })
            })
            .collect();
        // All of them have come to where they wait.
        for _ in 0..10_000 {
            tokio::task::yield_now().await;
        }
        assert_eq!(budget.memory.waiting.load(Ordering::Relaxed), PLACES);
        let behind = tokio::spawn(async move { other.acquire(MIB).await.map(drop) });
        for _ in 0..10_000 {
            tokio::task::yield_now().await;
        }
        assert_eq!(budget.memory.waiting.load(Ordering::Relaxed), PLACES + 1);
        drop(held);
        behind.await.unwrap().unwrap();
        assert!(waiting.iter().any(|one| !one.is_finished()), "it did not wait for all of them");
        for one in waiting {
            one.await.unwrap().unwrap();
        }
    }

    #[tokio::test]
    async fn a_place_goes_back_with_the_memory() {
        let budget = Budget::new(64 * MIB, MIB).of_connection();
        let mut shares = Vec::new();
        for _ in 0..PLACES {
            shares.push(budget.acquire(MIB).await.unwrap());
        }
        assert!(waits(budget.acquire(MIB)).await);
        assert!(!waits(budget.of_all().acquire(MIB)).await);
        assert!(!waits(budget.share().grow_to(MIB)).await, "a request needs no place");
        shares[0].shrink_to(0);
        assert!(!waits(budget.acquire(MIB)).await);
    }

    #[tokio::test]
    async fn at_the_ceiling_messages_are_refused_and_those_that_wait_too() {
        let ceiling = Ceiling::new(100 * MIB);
        let budget = Budget::below(ceiling.clone(), 2 * MIB, MIB);
        let held = [budget.acquire(MIB).await.unwrap(), budget.acquire(MIB).await.unwrap()];
        let waiting = tokio::spawn({
            let budget = budget.clone();
            async move { budget.acquire(MIB).await.map(drop) }
        });
        tokio::task::yield_now().await;
        ceiling.see(100 * MIB);
        assert!(waiting.await.unwrap().is_err());
        drop(held);
        assert!(budget.acquire(MIB).await.is_err());
        assert!(budget.acquire(UNCOUNTED_BYTES_MAX).await.is_ok());
        assert!(budget.share().for_operators().grow_to(MIB).await.is_ok());
        ceiling.see(98 * MIB);
        assert!(budget.acquire(MIB).await.is_ok());
    }

    /// An answer that waits has no memory yet, and takes the state none.
    #[tokio::test]
    async fn only_messages_that_have_memory_leave_room_for_state() {
        let ceiling = Ceiling::new(100 * MIB);
        let level = || ceiling.level(SnapshotPlan::Planned);
        let budget = Budget::below(ceiling.clone(), 20 * MIB, 10 * MIB);
        ceiling.see(55 * MIB);
        assert_eq!(level(), Level::Short);
        let mut held =
            [budget.acquire(10 * MIB).await.unwrap(), budget.acquire(10 * MIB).await.unwrap()];
        assert_eq!(level(), Level::Enough);
        ceiling.see(62 * MIB);
        assert!(waits(budget.acquire(10 * MIB)).await);
        assert_eq!(level(), Level::Short);
        ceiling.see(52 * MIB);
        held[0].shrink_to(4 * MIB);
        assert_eq!(level(), Level::Enough);
        drop(held);
        assert_eq!(level(), Level::Short);
        ceiling.see(46 * MIB);
        assert_eq!(level(), Level::Enough, "nothing is held any more");
    }

    /// What a message has already does not count again.
    #[tokio::test]
    async fn a_message_that_grows_is_granted_what_is_new() {
        let ceiling = Ceiling::new(100 * MIB);
        let budget = Budget::below(ceiling.clone(), 64 * MIB, 32 * MIB);
        ceiling.see(90 * MIB);
        let mut share = budget.share();
        for part in [2, 4, 6, 8, 10] {
            share.grow_to(part * MIB).await.unwrap();
        }
        assert!(share.grow_to(11 * MIB).await.is_err());
        drop(share);
        assert!(budget.acquire(10 * MIB).await.is_ok(), "what is gone does not count");
    }

    #[tokio::test]
    async fn a_message_above_the_budget_passes_alone() {
        let budget = Budget::new(2 * MIB, MIB);
        let whole = budget.acquire(u64::MAX).await.unwrap();
        assert!(waits(budget.acquire(u64::MAX)).await);
        drop(whole);
        assert!(!waits(budget.acquire(u64::MAX)).await);
    }
}
