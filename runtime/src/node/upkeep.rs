//! What keeps the journal short: segments are closed, snapshots built of them, and they removed.

use std::sync::Arc;
use std::time::Duration;

use rondo_core::ids::Lsn;
use tokio::time::Instant;

use super::compaction::{Built, SegmentRead};
use super::handle::Figures;
use super::journal::Journal;
use super::recovery::segments_after;
use crate::memory::SnapshotPlan;
use crate::store::{BoxFuture, Segment, Store, StoreError, StoreKind};

/// When there is no room, a snapshot is built of an open segment of at least this size, in bytes.
const COMPACT_WHEN_FULL_BYTES: u64 = 1 << 20;

/// Work that keeps a store from taking frames.
#[derive(Debug)]
pub(super) enum Errand {
    /// Close the open segment, and plan one that begins with this record.
    Rotate(Lsn),
    /// Remove these segments.
    Remove(Vec<Lsn>),
}

/// An errand that the store survived.
#[derive(Debug)]
pub(super) enum Done {
    /// The open segment is closed.
    Rotated,
    /// The open segment could not be closed at present.
    NotRotated,
    /// The segments are removed, or this kept one of them.
    Removed(Result<(), StoreError>),
}

/// An errand on its way, with the store.
pub(super) type ErrandUnderWay = BoxFuture<'static, (Box<dyn Store>, Result<Done, StoreError>)>;

impl Errand {
    async fn run(self, mut store: Box<dyn Store>) -> (Box<dyn Store>, Result<Done, StoreError>) {
        let done = match self {
            Self::Rotate(next) => store.rotate(next).await.map(|is_closed| match is_closed {
                true => Done::Rotated,
                false => Done::NotRotated,
            }),
            Self::Remove(segments) => Ok(Done::Removed(remove_all(&mut *store, segments).await)),
        };
        (store, done)
    }
}

/// Removes what can be removed of these segments. The error is the first one.
async fn remove_all(store: &mut dyn Store, segments: Vec<Lsn>) -> Result<(), StoreError> {
    let mut removed = Ok(());
    for segment in segments {
        let this_one = store.remove(segment).await;
        removed = removed.and(this_one);
    }
    removed
}

impl Journal {
    /// How the journal stands.
    pub(super) fn figures(&self, durable: Lsn, last: Lsn) -> Figures {
        Figures {
            durable,
            last,
            snapshot: self.snapshot,
            segments: self.closed_segments.saturating_add(1),
            size_bytes: self.closed_bytes.saturating_add(self.open_bytes),
        }
    }

    /// Whether a snapshot takes memory.
    pub(super) const fn snapshots(&self) -> SnapshotPlan {
        match self.compaction {
            Some(_) => SnapshotPlan::UnderWay,
            None => SnapshotPlan::Planned,
        }
    }

    /// How it is kept.
    pub(super) fn kind(&self) -> StoreKind {
        self.directory.kind()
    }

    /// Has the open segment closed when it is large enough, which has a snapshot built of the
    /// closed ones. One snapshot is built at a time.
    pub(super) fn compact_if_due(&mut self) {
        if self.compaction.is_some() || self.store.is_none() {
            return;
        }
        if self.remove_again.is_some_and(|at| at <= Instant::now()) {
            return self.remove_superfluous();
        }
        // A snapshot gives space back, so without room it is due as soon as it is worth while.
        let enough = match self.is_full {
            false => self.segment_bytes_max,
            true => self.segment_bytes_max.min(COMPACT_WHEN_FULL_BYTES),
        };
        let is_put_off = self.rotate_again.is_some_and(|at| at > Instant::now());
        if self.has_open_records() && self.open_bytes >= enough && !is_put_off {
            self.rotate_again = None;
            self.send(Errand::Rotate(self.appended.next()));
        } else if self.is_compaction_put_off() {
            self.compact();
        }
    }

    /// How long until the journal tries again what the disk has refused.
    pub(super) fn tries_again_in(&self) -> Option<Duration> {
        let now = Instant::now();
        let tries = [self.rotate_again, self.compact_again, self.remove_again];
        // A try that is due already waits for the store, or for more records.
        tries.into_iter().flatten().filter_map(|at| at.checked_duration_since(now)).min()
    }

    /// Whether the open segment has a record. Without one it cannot be closed, whatever its files take.
    fn has_open_records(&self) -> bool {
        self.open_first <= self.appended
    }

    /// Whether a snapshot that could not be built is to be tried again, or one that was not worth
    /// while is needed for its room.
    fn is_compaction_put_off(&self) -> bool {
        match self.compact_again {
            Some(at) => at <= Instant::now(),
            None => self.is_full && self.closed_segments > 0,
        }
    }

    /// Sends the store on an errand, which may take as long as the disk likes: the node goes on
    /// meanwhile.
    fn send(&mut self, errand: Errand) {
        if let Some(store) = self.store.take() {
            self.errand = Some(Box::pin(errand.run(store)));
        }
    }

    /// Does what follows from an errand, the store being back.
    pub(super) fn came_back(&mut self, done: Done) {
        self.count_segments();
        match done {
            Done::Rotated => {
                self.is_rotation_failing = false;
                self.compact_if_worth_while();
            }
            Done::NotRotated => self.rotate_later(),
            Done::Removed(removed) => self.removed(removed),
        }
    }

    /// A segment that cannot be closed goes on taking records.
    fn rotate_later(&mut self) {
        self.rotate_again = Instant::now().checked_add(self.compaction_retry);
        // Once, however often it is tried.
        if !std::mem::replace(&mut self.is_rotation_failing, true) {
            tracing::warn!(
                "a segment of the journal cannot be closed for want of space or memory; it takes more \
                 records, and closing it is tried again"
            );
        }
    }

    /// A segment that cannot be removed costs space, not data. It is tried again after a while, and after the
    /// next snapshot.
    fn removed(&mut self, removed: Result<(), StoreError>) {
        let Err(error) = removed else {
            self.is_removal_failing = false;
            return;
        };
        self.remove_again = Instant::now().checked_add(self.compaction_retry);
        // Once, however often it is tried.
        if !std::mem::replace(&mut self.is_removal_failing, true) {
            tracing::warn!(%error, "a segment that no start needs stays; its removal is tried again");
        }
    }

    /// Each snapshot is written whole. So that one of much is not written over and over, the closed
    /// segments are to hold half as much as the one before, unless there is no room for them.
    fn compact_if_worth_while(&mut self) {
        if self.is_full || self.closed_bytes >= self.snapshot_bytes / 2 {
            self.compact();
        }
    }

    /// Has a snapshot built of the segments that are closed, if there are any.
    fn compact(&mut self) {
        self.compact_again = None;
        let Some(store) = &self.store else {
            return;
        };
        let segments = segments_after(&store.segments(), self.snapshot);
        let Some((open, closed)) = segments.split_last().filter(|(_, closed)| !closed.is_empty())
        else {
            return;
        };
        let read = |segment: &Segment| store.read(segment.first);
        let reads: Vec<SegmentRead> = closed.iter().map(read).collect();
        let build = self.snapshots.clone().build(reads, open.first);
        let directory = Arc::clone(&self.directory);
        self.compaction = Some(tokio::spawn(async move {
            let built = build.await;
            drop(directory);
            built
        }));
    }

    /// Gives up the snapshot that is being built, if there is one, so that nothing of this journal
    /// writes to the directory any more.
    pub(super) async fn stop_compacting(&mut self) {
        if let Some(compaction) = self.compaction.take() {
            compaction.abort();
            // Ended one way or the other.
            let _ = compaction.await;
        }
    }

    /// Has the segments removed that are wholly in a snapshot.
    pub(super) fn forget(&mut self, Built { upto, size_bytes }: Built) {
        self.snapshot = self.snapshot.max(upto);
        self.snapshot_bytes = size_bytes;
        self.remove_superfluous();
    }

    fn remove_superfluous(&mut self) {
        let Some(store) = &self.store else {
            return;
        };
        let segments = store.segments();
        self.remove_again = None;
        let needed = segments_after(&segments, self.snapshot);
        let superfluous = segments.iter().filter(|segment| !needed.contains(segment));
        let superfluous: Vec<Lsn> = superfluous.map(|segment| segment.first).collect();
        if !superfluous.is_empty() {
            self.send(Errand::Remove(superfluous));
        }
    }

    /// Counts anew what the store has.
    pub(super) fn count_segments(&mut self) {
        let Some(store) = &self.store else {
            return;
        };
        let segments = store.segments();
        let total: u64 = segments.iter().map(|segment| segment.size_bytes).sum();
        let open = segments.last().map_or(0, |segment| segment.size_bytes);
        let next = self.appended.next();
        self.open_first = segments.last().map_or(next, |segment| segment.first);
        self.open_bytes = open;
        self.closed_bytes = total.saturating_sub(open);
        self.closed_segments = u64::try_from(segments.len()).unwrap_or(u64::MAX).saturating_sub(1);
    }
}
