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
use tokio::sync::{AcquireError, OwnedSemaphorePermit, Semaphore};

/// Messages up to this size are not counted, in bytes.
pub const UNCOUNTED_BYTES_MAX: u64 = 64 << 10;

/// One permit of the semaphore stands for this many bytes.
const UNIT_BYTES: u64 = 1 << 10;

/// Bytes that may be in memory at once on behalf of large messages. A message that needs more waits in order
/// of arrival. A small message never waits.
#[derive(Clone, Debug)]
pub struct Budget(Arc<Memory>);

#[derive(Debug)]
struct Memory {
    bytes_max: u64,
    pool: Arc<Semaphore>,
    pool_units: u32,
    /// Has one permit: the turn.
    turn: Arc<Semaphore>,
    /// Messages that wait for memory.
    waiting: AtomicUsize,
}

/// A share of a [`Budget`]. Dropping it gives the memory back.
#[derive(Debug)]
pub struct Share {
    memory: Arc<Memory>,
    held: Option<OwnedSemaphorePermit>,
    turn: Option<OwnedSemaphorePermit>,
}

impl Budget {
    /// A budget of `bytes_max` bytes for messages of up to `message_bytes_max` bytes. The room for one
    /// message is part of it. A message may be longer than the budget: then it has the turn alone.
    pub fn new(bytes_max: u64, message_bytes_max: u64) -> Self {
        let units_max = Semaphore::MAX_PERMITS.try_into().unwrap_or(u32::MAX);
        let pool_units = units_of(bytes_max.saturating_sub(message_bytes_max)).min(units_max);
        Self(Arc::new(Memory {
            bytes_max,
            pool: Arc::new(Semaphore::new(usize::try_from(pool_units).unwrap_or(usize::MAX))),
            pool_units,
            turn: Arc::new(Semaphore::new(1)),
            waiting: AtomicUsize::new(0),
        }))
    }

    /// The whole budget, in bytes.
    pub fn bytes_max(&self) -> u64 {
        self.0.bytes_max
    }

    /// An empty share. It can grow.
    pub fn share(&self) -> Share {
        Share { memory: Arc::clone(&self.0), held: None, turn: None }
    }

    /// Waits until `size_bytes` are free, and takes them.
    pub async fn acquire(&self, size_bytes: u64) -> Share {
        let mut share = self.share();
        share.grow_to(size_bytes).await;
        share
    }
}

impl Share {
    /// Waits until the share may hold `size_bytes`. A share that has the turn never waits.
    pub async fn grow_to(&mut self, size_bytes: u64) {
        let missing = match size_bytes {
            0..=UNCOUNTED_BYTES_MAX => 0,
            _ => units_of(size_bytes).saturating_sub(self.units()),
        };
        if missing == 0 || self.turn.is_some() {
            return;
        }
        match Arc::clone(&self.memory.pool).try_acquire_many_owned(missing) {
            Ok(permit) => self.hold(permit),
            Err(_) => self.wait_for(missing).await,
        }
    }

    /// Waits for memory of the pool or for the turn.
    async fn wait_for(&mut self, missing: u32) {
        let _waiting = Waiting::new(&self.memory);
        let pool = from_pool(&self.memory, missing);
        let turn = Arc::clone(&self.memory.turn).acquire_owned();
        tokio::select! {
            biased;
            Ok(permit) = pool => self.hold(permit),
            Ok(permit) = turn => self.turn = Some(permit),
            // The semaphores are never closed.
            else => {}
        }
    }

    /// Gives back what is above `size_bytes`.
    pub fn shrink_to(&mut self, size_bytes: u64) {
        let kept = match size_bytes {
            0..=UNCOUNTED_BYTES_MAX => 0,
            _ => units_of(size_bytes),
        };
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

fn units_of(bytes: u64) -> u32 {
    u32::try_from(bytes.div_ceil(UNIT_BYTES)).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const MIB: u64 = 1 << 20;

    /// Whether something does not happen for a while.
    async fn waits(what: impl Future) -> bool {
        tokio::time::timeout(Duration::from_millis(20), what).await.is_err()
    }

    fn free_units(budget: &Budget) -> usize {
        budget.0.pool.available_permits()
    }

    #[tokio::test]
    async fn large_messages_wait_for_each_other_and_small_ones_do_not() {
        let budget = Budget::new(2 * MIB, MIB);
        let in_pool = budget.acquire(MIB).await;
        let in_turn = budget.acquire(MIB).await;
        assert!(in_pool.turn.is_none() && in_turn.turn.is_some());
        let third = budget.acquire(100 << 10);
        tokio::pin!(third);
        assert!(waits(&mut third).await);
        assert!(!waits(budget.acquire(UNCOUNTED_BYTES_MAX)).await);
        drop(in_pool);
        third.await;
    }

    #[tokio::test]
    async fn messages_that_each_hold_a_part_all_come_to_their_ends() {
        const EACH: u64 = 10 * MIB;
        let budget = Budget::new(2 * EACH, EACH);
        let message = |budget: Budget| async move {
            let mut share = budget.share();
            for bytes in (0..=EACH).step_by(1 << 18) {
                share.grow_to(bytes).await;
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
        let mut in_pool = budget.acquire(MIB).await;
        let mut in_turn = budget.acquire(MIB).await;
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
        let mut in_pool = budget.acquire(MIB).await;
        let in_turn = budget.acquire(MIB).await;
        let small = budget.acquire(UNCOUNTED_BYTES_MAX).await;
        assert!(!in_pool.holds_up_others() && !in_turn.holds_up_others());
        let waiting = tokio::spawn({
            let budget = budget.clone();
            async move { budget.acquire(MIB).await }
        });
        tokio::task::yield_now().await;
        assert!(in_pool.holds_up_others() && in_turn.holds_up_others());
        assert!(!small.holds_up_others());
        in_pool.shrink_to(0);
        assert!(!in_pool.holds_up_others());
        waiting.await.unwrap();
        assert!(!in_turn.holds_up_others(), "nobody waits any more");
    }

    #[tokio::test]
    async fn a_message_holds_its_share_until_the_last_of_its_bytes_is_gone() {
        let budget = Budget::new(2 * MIB, MIB);
        let message = budget.acquire(MIB).await.with(Bytes::from(vec![7; 1 << 20]));
        assert_eq!(free_units(&budget), 0);
        let part = message.slice(1000..2000);
        drop(message);
        assert_eq!(free_units(&budget), 0, "a part of it is there");
        assert_eq!(part, vec![7; 1000]);
        drop(part);
        assert_eq!(free_units(&budget) as u64 * UNIT_BYTES, MIB);
    }

    #[tokio::test]
    async fn a_message_above_the_budget_passes_alone() {
        let budget = Budget::new(2 * MIB, MIB);
        let whole = budget.acquire(u64::MAX).await;
        assert!(waits(budget.acquire(u64::MAX)).await);
        drop(whole);
        assert!(!waits(budget.acquire(u64::MAX)).await);
    }
}
