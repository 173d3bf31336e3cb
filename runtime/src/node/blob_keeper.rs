//! Large definitions of a running node: which are there, which a registration under way needs, and
//! how those go that no dataset names.
//!
//! A blob is put before the registration that names it reaches the node, so between the two nothing
//! in the node's state speaks for it. A [`BlobPin`] does: it is taken before the blob is put, travels
//! with the registration, and ends when the node has taken or refused it. Blobs are removed only by
//! the node's own task, which alone knows what is named, and only without a pin. A pin wanted while
//! the blob is being removed waits for the removal's end, and puts the blob anew.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use rondo_core::ids::Digest;
use tokio::sync::{Notify, Semaphore};
use tokio::task::JoinError;

use crate::store::StoreError;
use crate::store::blobs::{Blob, BlobError, Blobs};

/// Puts under way at once. A put goes on when its caller has left, and its bytes are not counted any more;
/// hence there are few.
const PUTS_MAX: usize = 16;

/// Keeps blobs.
#[derive(Clone)]
pub(super) struct BlobKeeper(Arc<Inner>);

struct Inner {
    blobs: Arc<dyn Blobs>,
    state: Mutex<State>,
    /// Places for puts under way.
    puts: Arc<Semaphore>,
    /// A removal has ended.
    removed: Notify,
    /// A last pin has ended.
    unpinned: Notify,
}

#[derive(Default)]
struct State {
    kept: BTreeSet<Digest>,
    pins: BTreeMap<Digest, usize>,
    removing: BTreeSet<Digest>,
    /// Blobs whose last pin has ended.
    loose: Vec<Digest>,
}

/// Keeps a blob while it lives.
#[must_use = "the blob may go as soon as its pin does"]
pub struct BlobPin(Option<(BlobKeeper, Digest)>);

impl BlobPin {
    /// A pin that keeps nothing, for nodes that never remove blobs.
    pub const fn none() -> Self {
        Self(None)
    }
}

impl fmt::Debug for BlobPin {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digest = self.0.as_ref().map(|(_, digest)| digest);
        out.debug_tuple("BlobPin").field(&digest).finish()
    }
}

impl Drop for BlobPin {
    fn drop(&mut self) {
        if let Some((keeper, digest)) = self.0.take() {
            keeper.unpin(digest);
        }
    }
}

impl BlobKeeper {
    /// Keeps blobs in `blobs`, where these are already.
    pub(super) fn new(blobs: Arc<dyn Blobs>, kept: BTreeSet<Digest>) -> Self {
        let state = State { kept, ..State::default() };
        Self(Arc::new(Inner {
            blobs,
            state: Mutex::new(state),
            puts: Arc::new(Semaphore::new(PUTS_MAX)),
            removed: Notify::new(),
            unpinned: Notify::new(),
        }))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many blobs there are.
    pub(super) fn count(&self) -> usize {
        self.state().kept.len()
    }

    /// Keeps a blob, durably, at least as long as the pin lives. The disk goes on with what it has begun when
    /// the caller leaves, so the blob is kept all the same, until its pin ends.
    ///
    /// # Errors
    /// As [`Blobs::put`].
    pub(super) async fn put(&self, blob: Blob) -> Result<BlobPin, BlobError> {
        let digest = blob.digest();
        let pin = self.pin(digest).await;
        // Whoever leaves while waiting takes the blob along.
        let place = Arc::clone(&self.0.puts).acquire_owned().await;
        let keeper = self.clone();
        let putting = tokio::spawn(async move {
            let put = keeper.0.blobs.put(blob).await;
            // A failed put may have left a file: it goes with the pin.
            if !matches!(put, Err(BlobError::TooLarge { .. })) {
                keeper.state().kept.insert(digest);
            }
            drop(place);
            put.map(|()| pin)
        });
        putting.await.unwrap_or_else(|error| Err(lost(&error)))
    }

    /// Reads a blob.
    ///
    /// # Errors
    /// As [`Blobs::get`].
    pub(super) async fn get(&self, digest: Digest) -> Result<Option<Bytes>, BlobError> {
        self.0.blobs.get(digest).await
    }

    async fn pin(&self, digest: Digest) -> BlobPin {
        loop {
            // Made before the look, so that an end between the look and the wait is not missed.
            let removed = self.0.removed.notified();
            {
                let mut state = self.state();
                if !state.removing.contains(&digest) {
                    let pins = state.pins.entry(digest).or_default();
                    *pins = pins.saturating_add(1);
                    return BlobPin(Some((self.clone(), digest)));
                }
            }
            removed.await;
        }
    }

    fn unpin(&self, digest: Digest) {
        let mut state = self.state();
        let left = state.pins.get(&digest).map_or(0, |pins| pins.saturating_sub(1));
        if left > 0 {
            state.pins.insert(digest, left);
            return;
        }
        state.pins.remove(&digest);
        state.loose.push(digest);
        drop(state);
        self.0.unpinned.notify_one();
    }

    /// Waits until the last pin of some blob has ended.
    pub(super) async fn unpinned(&self) {
        self.0.unpinned.notified().await;
    }

    /// Blobs whose last pin has ended since the last time this was asked.
    pub(super) fn take_loose(&self) -> Vec<Digest> {
        std::mem::take(&mut self.state().loose)
    }

    /// Starts to remove a blob that nothing names, unless a registration under way needs it: then
    /// the end of its pin brings it up again.
    pub(super) fn remove(&self, digest: Digest) {
        {
            let mut state = self.state();
            if state.pins.contains_key(&digest) || !state.kept.remove(&digest) {
                return;
            }
            state.removing.insert(digest);
        }
        let (keeper, removal) = (self.clone(), self.0.blobs.remove(digest));
        tokio::spawn(async move {
            match removal.await {
                Ok(()) => tracing::info!(%digest, "unused definition removed"),
                // It costs space only, and the next start tries again.
                Err(error) => tracing::warn!(%digest, %error, "an unused definition stays"),
            }
            keeper.state().removing.remove(&digest);
            keeper.0.removed.notify_waiters();
        });
    }
}

/// The task that put a blob is lost.
fn lost(error: &JoinError) -> BlobError {
    StoreError::new("cannot write", Path::new("a blob"), error).into()
}

#[cfg(all(test, not(madsim)))]
mod tests {
    use super::*;
    use crate::store::BoxFuture;
    use crate::store::blobs::{MemoryBlobs, digest};

    /// Blobs that are put and removed only when there is a permit. A put that has begun goes on when its
    /// caller leaves.
    struct Slow {
        blobs: MemoryBlobs,
        puts: Arc<Semaphore>,
        removals: Arc<Semaphore>,
    }

    impl Blobs for Slow {
        fn put(&self, blob: Blob) -> BoxFuture<'static, Result<(), BlobError>> {
            let (blobs, permits) = (self.blobs.clone(), self.puts.clone());
            let going = tokio::spawn(async move {
                let _permit = permits.acquire().await;
                blobs.put(blob).await
            });
            Box::pin(async { going.await.unwrap_or_else(|error| Err(lost(&error))) })
        }

        fn get(&self, digest: Digest) -> BoxFuture<'static, Result<Option<Bytes>, BlobError>> {
            self.blobs.get(digest)
        }

        fn list(&self) -> BoxFuture<'static, Result<Vec<(Digest, u64)>, BlobError>> {
            self.blobs.list()
        }

        fn remove(&self, digest: Digest) -> BoxFuture<'static, Result<(), BlobError>> {
            let (blobs, permits) = (self.blobs.clone(), self.removals.clone());
            Box::pin(async move {
                let _permit = permits.acquire().await;
                blobs.remove(digest).await
            })
        }
    }

    /// A keeper that puts at once, and whose removals wait for permits.
    fn keeper() -> (BlobKeeper, Arc<Semaphore>) {
        let removals = Arc::new(Semaphore::new(0));
        let puts = Arc::new(Semaphore::new(9));
        (keeper_with(puts, removals.clone()), removals)
    }

    fn keeper_with(puts: Arc<Semaphore>, removals: Arc<Semaphore>) -> BlobKeeper {
        let slow = Slow { blobs: MemoryBlobs::new(1 << 20), puts, removals };
        BlobKeeper::new(Arc::new(slow), BTreeSet::new())
    }

    const BLOB: Bytes = Bytes::from_static(b"a definition");

    #[tokio::test]
    async fn a_pinned_blob_stays_and_comes_up_again() {
        let (keeper, permits) = keeper();
        permits.add_permits(9);
        let name = digest(&BLOB);
        let first = keeper.put(Blob::of(BLOB)).await.unwrap();
        let second = keeper.put(Blob::of(BLOB)).await.unwrap();
        keeper.remove(name);
        drop(first);
        assert_eq!((keeper.count(), keeper.take_loose()), (1, vec![]));
        drop(second);
        keeper.unpinned().await;
        assert_eq!(keeper.take_loose(), [name]);
        keeper.remove(name);
        assert_eq!(keeper.count(), 0);
    }

    #[tokio::test]
    async fn a_blob_whose_caller_left_while_it_was_put_can_go() {
        let puts = Arc::new(Semaphore::new(0));
        let keeper = keeper_with(puts.clone(), Arc::new(Semaphore::new(9)));
        let name = digest(&BLOB);
        let put = keeper.put(Blob::of(BLOB));
        let late = tokio::time::timeout(std::time::Duration::from_millis(20), put).await;
        assert!(late.is_err(), "it needs a permit");
        puts.add_permits(9);
        keeper.unpinned().await;
        assert_eq!(keeper.take_loose(), [name]);
        assert_eq!(keeper.get(name).await.unwrap(), Some(BLOB));
        assert_eq!(keeper.count(), 1);
        keeper.remove(name);
        while keeper.get(name).await.unwrap().is_some() {
            tokio::task::yield_now().await;
        }
    }

    /// The race of a registration with the removal of the same definition.
    #[tokio::test]
    async fn a_blob_put_while_it_is_removed_is_there_afterwards() {
        let (keeper, permits) = keeper();
        let name = digest(&BLOB);
        drop(keeper.put(Blob::of(BLOB)).await.unwrap());
        keeper.remove(name);
        let mut put = tokio::spawn({
            let keeper = keeper.clone();
            async move { keeper.put(Blob::of(BLOB)).await.unwrap() }
        });
        tokio::task::yield_now().await;
        let early = tokio::time::timeout(std::time::Duration::from_millis(50), &mut put).await;
        assert!(early.is_err(), "it was put into the removal");
        permits.add_permits(9);
        let pin = put.await.unwrap();
        assert_eq!(keeper.get(name).await.unwrap(), Some(BLOB));
        keeper.remove(name);
        assert_eq!(keeper.get(name).await.unwrap(), Some(BLOB));
        drop(pin);
    }

    #[tokio::test]
    async fn many_registrations_and_removals_never_lose_a_pinned_blob() {
        let (keeper, permits) = keeper();
        permits.add_permits(9);
        let name = digest(&BLOB);
        let remover = tokio::spawn({
            let keeper = keeper.clone();
            async move {
                for _ in 0..2000 {
                    keeper.remove(name);
                    tokio::task::yield_now().await;
                }
            }
        });
        for turn in 0..500 {
            let pin = keeper.put(Blob::of(BLOB)).await.unwrap();
            for _ in 0..turn % 4 {
                tokio::task::yield_now().await;
            }
            assert_eq!(keeper.get(name).await.unwrap(), Some(BLOB));
            drop(pin);
            tokio::task::yield_now().await;
        }
        remover.await.unwrap();
    }

    /// Blobs that cannot be removed.
    struct Stuck(MemoryBlobs);

    impl Blobs for Stuck {
        fn put(&self, blob: Blob) -> BoxFuture<'static, Result<(), BlobError>> {
            self.0.put(blob)
        }

        fn get(&self, digest: Digest) -> BoxFuture<'static, Result<Option<Bytes>, BlobError>> {
            self.0.get(digest)
        }

        fn list(&self) -> BoxFuture<'static, Result<Vec<(Digest, u64)>, BlobError>> {
            self.0.list()
        }

        fn remove(&self, _: Digest) -> BoxFuture<'static, Result<(), BlobError>> {
            let (needed_bytes, detail) = (0, "stuck".to_owned());
            Box::pin(std::future::ready(Err(BlobError::Full { needed_bytes, detail })))
        }
    }

    #[tokio::test]
    async fn a_blob_that_could_not_be_removed_can_be_put_again() {
        let stuck = Stuck(MemoryBlobs::new(1 << 20));
        let keeper = BlobKeeper::new(Arc::new(stuck), BTreeSet::new());
        drop(keeper.put(Blob::of(BLOB)).await.unwrap());
        keeper.remove(digest(&BLOB));
        let again = keeper.put(Blob::of(BLOB));
        let again = tokio::time::timeout(std::time::Duration::from_secs(5), again).await;
        let _pin = again.expect("it waits for ever").unwrap();
        assert_eq!(keeper.count(), 1);
    }

    #[tokio::test]
    async fn a_blob_whose_pin_has_ended_comes_up_once() {
        let (keeper, _) = keeper();
        drop(keeper.put(Blob::of(BLOB)).await.unwrap());
        assert_eq!(keeper.take_loose(), [digest(&BLOB)]);
        assert_eq!(keeper.take_loose(), []);
    }
}
