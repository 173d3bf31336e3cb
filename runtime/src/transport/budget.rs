//! A bound on the memory that large messages take while they are under way.

use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Messages up to this size are not counted, in bytes.
pub const UNCOUNTED_BYTES_MAX: u64 = 64 << 10;

/// One permit of the semaphore stands for this many bytes.
const UNIT_BYTES: u64 = 1 << 10;

/// Bytes that may be in memory at once on behalf of large messages. Whoever wants more waits in
/// order of arrival; small messages never wait.
#[derive(Clone, Debug)]
pub struct Budget {
    units: Arc<Semaphore>,
    units_max: u32,
}

/// A share of a [`Budget`], given back when dropped.
#[derive(Debug)]
pub struct Share(#[expect(dead_code, reason = "held for its drop")] Option<OwnedSemaphorePermit>);

impl Budget {
    /// A budget of `bytes_max` bytes.
    pub fn new(bytes_max: u64) -> Self {
        let units_max = units(bytes_max).min(Semaphore::MAX_PERMITS.try_into().unwrap_or(u32::MAX));
        let units = Arc::new(Semaphore::new(usize::try_from(units_max).unwrap_or(usize::MAX)));
        Self { units, units_max }
    }

    /// The whole budget, in bytes.
    pub fn bytes_max(&self) -> u64 {
        u64::from(self.units_max).saturating_mul(UNIT_BYTES)
    }

    /// Waits until `size_bytes` are free, and takes them. More than the whole budget counts as the
    /// whole budget, so that one such message passes alone instead of never.
    pub async fn acquire(&self, size_bytes: u64) -> Share {
        if size_bytes <= UNCOUNTED_BYTES_MAX {
            return Share(None);
        }
        let wanted = units(size_bytes).min(self.units_max);
        // The semaphore is never closed, so there is always a permit in the end.
        Share(Arc::clone(&self.units).acquire_many_owned(wanted).await.ok())
    }
}

impl Share {
    /// The message with its share, which is given back when the message has left.
    pub fn with(self, message: Bytes) -> Bytes {
        Bytes::from_owner(Counted { message, _share: self })
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

fn units(bytes: u64) -> u32 {
    u32::try_from(bytes.div_ceil(UNIT_BYTES)).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn large_messages_wait_for_each_other_and_small_ones_do_not() {
        let budget = Budget::new(1 << 20);
        let whole = budget.acquire(1 << 20).await;
        let second = budget.acquire(100 << 10);
        tokio::pin!(second);
        assert!(tokio::time::timeout(Duration::from_millis(20), &mut second).await.is_err());
        budget.acquire(UNCOUNTED_BYTES_MAX).await;
        drop(whole);
        second.await;
    }

    #[tokio::test]
    async fn a_message_holds_its_share_until_the_last_of_its_bytes_is_gone() {
        let budget = Budget::new(1 << 20);
        let message = budget.acquire(1 << 20).await.with(Bytes::from(vec![7; 1 << 20]));
        assert_eq!(budget.units.available_permits(), 0);
        let part = message.slice(1000..2000);
        drop(message);
        assert_eq!(budget.units.available_permits(), 0, "a part of it is there");
        assert_eq!(part, vec![7; 1000]);
        drop(part);
        assert_eq!(budget.units.available_permits() as u64 * UNIT_BYTES, budget.bytes_max());
    }

    #[tokio::test]
    async fn a_message_above_the_budget_passes_alone() {
        let budget = Budget::new(1 << 20);
        let _whole = budget.acquire(u64::MAX).await;
        assert_eq!(budget.units.available_permits(), 0);
    }
}
