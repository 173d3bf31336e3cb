//! The node's side of its journal: commit groups in, one sync at a time out.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use rondo_core::control::Record;
use rondo_core::ids::Lsn;
use rondo_core::journal::GroupHeader;
use rondo_proto::frame;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::compaction::{CompactionError, SegmentRead, Snapshots};
use super::handle::Figures;
use super::recovery::segments_after;
use crate::store::{
    Acknowledged, AppendError, BoxFuture, DataDirectory, Segment, Store, StoreConfig, StoreError,
    StoreKind,
};

/// A commit group is cut when its records take more than this, in bytes.
const GROUP_BYTES_MAX: usize = 8 << 20;
/// When there is no room, a snapshot is built of an open segment of at least this size, in bytes.
const COMPACT_WHEN_FULL_BYTES: u64 = 1 << 20;

/// Writes records in commit groups, keeps one sync under way, and has snapshots built.
pub(super) struct Journal {
    store: Box<dyn Store>,
    /// Ours as long as the journal is in use, or a snapshot is being built.
    directory: Arc<DataDirectory>,
    snapshots: Snapshots,
    acknowledged: Acknowledged,
    segment_bytes_max: u64,
    /// The group being collected: its first record's position, how many there are, and what they
    /// are encoded as.
    first: Lsn,
    count: u64,
    payload: Vec<u8>,
    /// Groups the store had no room for, in order.
    refused: VecDeque<Refused>,
    /// The last record the store has taken.
    appended: Lsn,
    /// The last record somebody waits for.
    wanted: Lsn,
    sync: Option<BoxFuture<'static, (Lsn, Result<(), StoreError>)>>,
    /// How far the newest group says that the journal is durable.
    marked: Lsn,
    /// Everything up to here is in a snapshot.
    snapshot: Lsn,
    compaction: Option<JoinHandle<Result<Lsn, CompactionError>>>,
    compaction_retry: Duration,
    /// When to try again to build a snapshot that could not be built.
    compact_again: Option<Instant>,
    /// Segments and bytes, without asking the store.
    closed_segments: u64,
    closed_bytes: u64,
    open_bytes: u64,
}

/// Sizes and pauses of a journal.
pub(super) struct JournalBounds {
    /// Of its files.
    pub(super) store: StoreConfig,
    /// How long to wait before a snapshot that could not be built is tried again.
    pub(super) compaction_retry: Duration,
}

struct Refused {
    first: Lsn,
    last: Lsn,
    frame: Bytes,
}

/// What the disk has done.
#[derive(Debug)]
pub(super) enum JournalWoke {
    /// Everything up to here is durable, or not.
    Synced(Lsn, Result<(), StoreError>),
    /// A snapshot up to here counts, or could not be built.
    Compacted(Result<Lsn, String>),
}

/// What became of a group.
#[derive(Debug)]
pub(super) enum Appended {
    /// The store has it, or there was nothing to write.
    Taken,
    /// The store has no room; the journal keeps the records from `from` on.
    Refused { from: Lsn, reason: String },
    /// The store is broken.
    Failed(String),
}

impl Journal {
    /// A journal over a store whose last record is `last`, all of it durable, and of which
    /// everything up to `snapshot` is in a snapshot.
    pub(super) fn new(
        store: Box<dyn Store>,
        directory: DataDirectory,
        acknowledged: Acknowledged,
        bounds: JournalBounds,
        last: Lsn,
        snapshot: Lsn,
    ) -> Self {
        let mut journal = Self {
            store,
            snapshots: Snapshots::of(&directory, &bounds.store),
            acknowledged,
            directory: Arc::new(directory),
            segment_bytes_max: bounds.store.segment_bytes_max,
            first: last.next(),
            count: 0,
            payload: Vec::new(),
            refused: VecDeque::new(),
            appended: last,
            wanted: last,
            sync: None,
            // What is recovered may stand behind the last mark, and is answered from now on.
            marked: Lsn::NONE,
            snapshot,
            compaction: None,
            compaction_retry: bounds.compaction_retry,
            compact_again: None,
            closed_segments: 0,
            closed_bytes: 0,
            open_bytes: 0,
        };
        journal.count_segments();
        journal
    }

    /// Adds a record to the group being collected.
    pub(super) fn collect(&mut self, lsn: Lsn, record: &Record) {
        if self.count == 0 {
            self.first = lsn;
        }
        self.count = self.count.saturating_add(1);
        // The bytes of a group are those of its records, one behind the other.
        let encoded = frame::encode_records(std::slice::from_ref(record));
        self.payload.extend_from_slice(&encoded);
    }

    /// Whether the group being collected should be written before more is added.
    pub(super) fn is_group_full(&self) -> bool {
        self.payload.len() >= GROUP_BYTES_MAX
    }

    pub(super) fn want(&mut self, upto: Lsn) {
        self.wanted = self.wanted.max(upto);
    }

    /// Writes the collected group. `durable` is the last record known to be durable.
    pub(super) async fn append_group(&mut self, durable: Lsn) -> Appended {
        if self.count == 0 {
            return Appended::Taken;
        }
        let count = std::mem::take(&mut self.count);
        let header = GroupHeader { first: self.first, count, durable_upto: durable };
        let last = Lsn::new(self.first.get().saturating_add(count).saturating_sub(1));
        let encoded = frame::encode(&header, &self.payload);
        self.payload.clear();
        self.payload.shrink_to(GROUP_BYTES_MAX);
        match encoded {
            Ok(frame) => {
                self.marked = durable;
                self.take(Refused { first: header.first, last, frame }).await
            }
            Err(error) => Appended::Failed(error.to_string()),
        }
    }

    async fn take(&mut self, group: Refused) -> Appended {
        if !self.refused.is_empty() {
            let (from, reason) = (group.first, "earlier records wait for room".to_owned());
            self.refused.push_back(group);
            return Appended::Refused { from, reason };
        }
        match self.store.append(group.first, group.frame.clone()).await {
            Ok(()) => {
                self.appended = group.last;
                self.open_bytes = self.open_bytes.saturating_add(group.frame.len() as u64);
                Appended::Taken
            }
            Err(error @ AppendError::Full { .. }) => {
                let from = group.first;
                self.refused.push_back(group);
                Appended::Refused { from, reason: error.to_string() }
            }
            Err(AppendError::Failed(error)) => Appended::Failed(error.to_string()),
        }
    }

    /// Offers refused groups again, in order, until one is refused again.
    pub(super) async fn retry(&mut self) -> Appended {
        for group in std::mem::take(&mut self.refused) {
            match self.take(group).await {
                Appended::Failed(reason) => return Appended::Failed(reason),
                Appended::Taken | Appended::Refused { .. } => {}
            }
        }
        match self.refused.front() {
            Some(front) => Appended::Refused {
                from: front.first,
                reason: "still no room for the records that wait".to_owned(),
            },
            None => Appended::Taken,
        }
    }

    /// Starts a sync if somebody waits for one and none is under way.
    pub(super) fn start_sync(&mut self, durable: Lsn) {
        let upto = self.appended;
        if self.sync.is_some() || upto <= durable || self.wanted <= durable {
            return;
        }
        let (sync, acknowledged) = (self.store.sync(), self.acknowledged.clone());
        self.sync = Some(Box::pin(async move {
            let synced = async {
                sync.await?;
                // Before the replies leave: see `Acknowledged`.
                acknowledged.note(upto).await
            };
            (upto, synced.await)
        }));
    }

    /// Waits for the sync under way or the snapshot being built; for ever when there is neither.
    pub(super) async fn woke(&mut self) -> JournalWoke {
        let Self { sync, compaction, .. } = self;
        tokio::select! {
            biased;
            (upto, outcome) = wait_for(sync) => {
                self.sync = None;
                JournalWoke::Synced(upto, outcome)
            }
            outcome = wait_for(compaction) => {
                self.compaction = None;
                let built = outcome.unwrap_or_else(|error| {
                    Err(CompactionError::Interrupted(error.to_string()))
                });
                let again = built.is_err().then_some(self.compaction_retry);
                self.compact_again = again.and_then(|pause| Instant::now().checked_add(pause));
                JournalWoke::Compacted(built.map_err(|error| error.to_string()))
            }
        }
    }

    /// Whether everything that somebody waits for is durable.
    pub(super) fn is_settled(&self, durable: Lsn) -> bool {
        self.sync.is_none() && self.refused.is_empty() && self.wanted <= durable
    }

    /// What is done when nothing more urgent is: a snapshot when one is due, and the mark.
    pub(super) async fn rest(&mut self, durable: Lsn) -> Result<(), String> {
        self.compact_if_due().await.map_err(|error| error.to_string())?;
        self.mark(durable).await.map_err(|error| error.to_string())
    }

    /// Notes in the journal, without waiting, how far it is durable, so that damage to the last
    /// records can later be told from an unfinished write.
    async fn mark(&mut self, durable: Lsn) -> Result<(), AppendError> {
        if self.marked >= durable || !self.is_settled(durable) || self.appended != durable {
            return Ok(());
        }
        self.marked = durable;
        let header = GroupHeader { first: durable.next(), count: 0, durable_upto: durable };
        let Ok(frame) = frame::encode(&header, &[]) else {
            return Ok(());
        };
        let len = frame.len() as u64;
        match self.store.append(header.first, frame).await {
            Ok(()) => self.open_bytes = self.open_bytes.saturating_add(len),
            // A mark is worth nothing to anybody waiting; without room it is left out.
            Err(AppendError::Full { .. }) => {}
            Err(failed) => return Err(failed),
        }
        Ok(())
    }

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

    /// How it is kept.
    pub(super) fn kind(&self) -> StoreKind {
        self.directory.kind()
    }

    /// Closes the open segment when it is large enough, and has a snapshot built of the closed
    /// ones. One snapshot is built at a time.
    async fn compact_if_due(&mut self) -> Result<(), StoreError> {
        if self.compaction.is_some() {
            return Ok(());
        }
        // A snapshot gives space back, so without room it is due as soon as it is worth while.
        let enough = match self.refused.is_empty() {
            true => self.segment_bytes_max,
            false => self.segment_bytes_max.min(COMPACT_WHEN_FULL_BYTES),
        };
        if self.open_bytes >= enough {
            self.store.rotate(self.appended.next()).await?;
            self.count_segments();
            self.compact();
        } else if self.compact_again.is_some_and(|at| at <= Instant::now()) {
            self.compact();
        }
        Ok(())
    }

    /// Has a snapshot built of the segments that are closed, if there are any.
    fn compact(&mut self) {
        self.compact_again = None;
        let segments = segments_after(&self.store.segments(), self.snapshot);
        let Some((open, closed)) = segments.split_last().filter(|(_, closed)| !closed.is_empty())
        else {
            return;
        };
        let read = |segment: &Segment| self.store.read(segment.first);
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

    /// Removes the segments that are wholly in the snapshot that ends with record `upto`.
    pub(super) async fn forget_upto(&mut self, upto: Lsn) -> Result<(), StoreError> {
        self.snapshot = self.snapshot.max(upto);
        let segments = self.store.segments();
        let needed = segments_after(&segments, upto);
        for segment in segments.iter().filter(|segment| !needed.contains(segment)) {
            self.store.remove(segment.first).await?;
        }
        self.count_segments();
        Ok(())
    }

    fn count_segments(&mut self) {
        let segments = self.store.segments();
        let total: u64 = segments.iter().map(|segment| segment.size_bytes).sum();
        let open = segments.last().map_or(0, |segment| segment.size_bytes);
        self.open_bytes = open;
        self.closed_bytes = total.saturating_sub(open);
        self.closed_segments = u64::try_from(segments.len()).unwrap_or(u64::MAX).saturating_sub(1);
    }
}

/// Waits for what is under way; for ever when nothing is.
async fn wait_for<F: Future + Unpin>(under_way: &mut Option<F>) -> F::Output {
    match under_way {
        Some(future) => future.await,
        None => std::future::pending().await,
    }
}
