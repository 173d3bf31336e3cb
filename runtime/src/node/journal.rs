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

use super::compaction::{Built, CompactionError, Snapshots};
use super::upkeep::{Done, ErrandUnderWay};
use crate::store::{
    Acknowledged, AppendError, BoxFuture, DataDirectory, Store, StoreConfig, StoreError,
};

/// A commit group is cut when its records take more than this, in bytes.
const GROUP_BYTES_MAX: usize = 8 << 20;

/// Writes records in commit groups, keeps one sync under way, and has snapshots built.
pub(super) struct Journal {
    /// The store; `None` while it is on an errand.
    pub(super) store: Option<Box<dyn Store>>,
    pub(super) errand: Option<ErrandUnderWay>,
    /// Ours as long as the journal is in use, or a snapshot is being built.
    pub(super) directory: Arc<DataDirectory>,
    pub(super) snapshots: Snapshots,
    acknowledged: Acknowledged,
    pub(super) segment_bytes_max: u64,
    /// The group being collected: its first record's position, how many there are, and what they
    /// are encoded as.
    first: Lsn,
    count: u64,
    payload: Vec<u8>,
    /// Groups that the store could not take, or that came while it was on an errand, in order.
    waiting: VecDeque<Group>,
    /// Whether the store refused the first group that waits, for want of room or of descriptors.
    pub(super) is_full: bool,
    /// The last record the store has taken.
    pub(super) appended: Lsn,
    /// The last record somebody waits for.
    wanted: Lsn,
    /// When the first record of the group being collected came.
    collecting_since: Instant,
    sync: Option<BoxFuture<'static, (Lsn, Result<(), StoreError>)>>,
    /// How far the newest group says that the journal is durable.
    marked: Lsn,
    /// Everything up to here is in a snapshot.
    pub(super) snapshot: Lsn,
    /// The snapshot's length in bytes.
    pub(super) snapshot_bytes: u64,
    pub(super) compaction: Option<JoinHandle<Result<Built, CompactionError>>>,
    /// How long to wait before a snapshot that could not be built, or a removal that failed, is tried again.
    pub(super) compaction_retry: Duration,
    /// When to try again to build a snapshot that could not be built.
    pub(super) compact_again: Option<Instant>,
    /// When to try again to close a segment that could not be closed.
    pub(super) rotate_again: Option<Instant>,
    /// When to try again to remove segments that could not be removed.
    pub(super) remove_again: Option<Instant>,
    /// The last segment could not be closed.
    pub(super) is_rotation_failing: bool,
    /// The last removal failed.
    pub(super) is_removal_failing: bool,
    /// Segments and bytes, without asking the store.
    pub(super) closed_segments: u64,
    pub(super) closed_bytes: u64,
    pub(super) open_bytes: u64,
    /// The first record of the open segment, whether or not it is there yet.
    pub(super) open_first: Lsn,
}

/// How long records that nobody waits for are collected before they are written.
const LINGER: Duration = Duration::from_millis(2);

/// Sizes and pauses of a journal.
pub(super) struct JournalBounds {
    /// Of its files.
    pub(super) store: StoreConfig,
    /// How long to wait before a snapshot that could not be built is tried again.
    pub(super) compaction_retry: Duration,
}

/// A commit group.
struct Group {
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
    Compacted(Result<Built, String>),
    /// The store is back from its errand.
    Back(Result<Done, StoreError>),
}

/// What became of a group.
#[derive(Debug)]
pub(super) enum Appended {
    /// The store has it, or there was nothing to write.
    Taken,
    /// The store lacks room or something else; the journal keeps the records from `from` on.
    Refused { from: Lsn, reason: String },
    /// The store is broken.
    Failed(String),
}

impl Journal {
    /// A journal over a store whose last record is `last`, all of it durable, and of which
    /// everything up to some record is in a snapshot.
    pub(super) fn new(
        store: Box<dyn Store>,
        directory: DataDirectory,
        acknowledged: Acknowledged,
        bounds: JournalBounds,
        last: Lsn,
        Built { upto: snapshot, size_bytes: snapshot_bytes }: Built,
    ) -> Self {
        let mut journal = Self {
            store: Some(store),
            errand: None,
            snapshots: Snapshots::of(&directory, &bounds.store),
            acknowledged,
            directory: Arc::new(directory),
            segment_bytes_max: bounds.store.segment_bytes_max,
            first: last.next(),
            count: 0,
            payload: Vec::new(),
            waiting: VecDeque::new(),
            is_full: false,
            appended: last,
            wanted: last,
            collecting_since: Instant::now(),
            sync: None,
            // What is recovered may stand behind the last mark, and is answered from now on.
            marked: Lsn::NONE,
            snapshot,
            snapshot_bytes,
            compaction: None,
            compaction_retry: bounds.compaction_retry,
            compact_again: None,
            rotate_again: None,
            remove_again: None,
            is_rotation_failing: false,
            is_removal_failing: false,
            closed_segments: 0,
            closed_bytes: 0,
            open_bytes: 0,
            open_first: last.next(),
        };
        journal.count_segments();
        journal
    }

    /// Adds a record to the group being collected.
    pub(super) fn collect(&mut self, lsn: Lsn, record: &Record) {
        if self.count == 0 {
            (self.first, self.collecting_since) = (lsn, Instant::now());
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
                self.waiting.push_back(Group { first: header.first, last, frame });
                self.offer().await
            }
            Err(error) => Appended::Failed(error.to_string()),
        }
    }

    /// Gives the store what waits for it, in order. What comes while it is on an errand waits
    /// until it is back.
    pub(super) async fn offer(&mut self) -> Appended {
        while let Some(group) = self.waiting.front() {
            let Some(store) = &mut self.store else {
                return match self.is_full {
                    true => refused(group.first, "it refused some before; room is being made"),
                    false => Appended::Taken,
                };
            };
            match store.append(group.first, group.frame.clone()).await {
                Ok(()) => {
                    self.appended = group.last;
                    self.open_bytes = self.open_bytes.saturating_add(group.frame.len() as u64);
                    self.waiting.pop_front();
                }
                Err(error @ (AppendError::Full { .. } | AppendError::Later { .. })) => {
                    self.is_full = true;
                    return refused(group.first, &error.to_string());
                }
                Err(AppendError::Failed(error)) => return Appended::Failed(error.to_string()),
            }
        }
        self.is_full = false;
        Appended::Taken
    }

    /// Whether the group being collected may grow on. While a sync is under way it can become durable
    /// only after that, so writing it in pieces before is work for nothing; and while nobody waits
    /// for it, a little time brings more to write at once.
    pub(super) fn may_collect_more(&self) -> bool {
        let grows = self.sync.is_some() || self.lingers_for() > Duration::ZERO;
        grows && !self.is_group_full()
    }

    /// How long a group that nobody waits for may still grow; zero when it is to be written.
    pub(super) fn lingers_for(&self) -> Duration {
        let lingers = self.count > 0 && self.wanted <= self.appended;
        match lingers {
            true => LINGER.saturating_sub(self.collecting_since.elapsed()),
            false => Duration::ZERO,
        }
    }

    /// Starts a sync if somebody waits for one and none is under way.
    pub(super) fn start_sync(&mut self, durable: Lsn) {
        let upto = self.appended;
        if self.sync.is_some() || upto <= durable || self.wanted <= durable {
            return;
        }
        let Some(store) = &mut self.store else {
            return;
        };
        let (sync, acknowledged) = (store.sync(), self.acknowledged.clone());
        self.sync = Some(Box::pin(async move {
            let synced = async {
                sync.await?;
                // Before the replies leave: see `Acknowledged`.
                acknowledged.note(upto).await
            };
            (upto, synced.await)
        }));
    }

    /// Waits for the sync under way, the store's return or the snapshot being built; for ever when
    /// there is none of them.
    pub(super) async fn woke(&mut self) -> JournalWoke {
        let Self { sync, errand, compaction, .. } = self;
        tokio::select! {
            biased;
            (upto, outcome) = wait_for(sync) => {
                self.sync = None;
                JournalWoke::Synced(upto, outcome)
            }
            (store, outcome) = wait_for(errand) => {
                self.errand = None;
                self.store = Some(store);
                JournalWoke::Back(outcome)
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

    /// Makes the note of acknowledged records safe from an older image of the disk.
    pub(super) async fn sync_note(&mut self) {
        self.acknowledged.sync().await;
    }

    /// Whether nothing is under way and nothing can be: everything that somebody waits for is
    /// durable, or has no room.
    pub(super) fn is_at_rest(&self, durable: Lsn) -> bool {
        let is_done = self.waiting.is_empty() && self.wanted <= durable;
        self.sync.is_none() && self.errand.is_none() && (is_done || self.is_full)
    }

    /// Notes in the journal, without waiting, how far it is durable, so that damage to the last
    /// records can later be told from an unfinished write.
    pub(super) async fn mark(&mut self, durable: Lsn) -> Result<(), AppendError> {
        let is_new = self.marked < durable && self.appended == durable;
        let is_due = is_new && self.is_at_rest(durable) && !self.is_full;
        let Some(store) = self.store.as_mut().filter(|_| is_due) else {
            return Ok(());
        };
        self.marked = durable;
        let header = GroupHeader { first: durable.next(), count: 0, durable_upto: durable };
        let Ok(frame) = frame::encode(&header, &[]) else {
            return Ok(());
        };
        let len = frame.len() as u64;
        match store.append(header.first, frame).await {
            Ok(()) => self.open_bytes = self.open_bytes.saturating_add(len),
            // No caller waits for a mark, so one that cannot be written at present is left out.
            Err(AppendError::Full { .. } | AppendError::Later { .. }) => {}
            Err(failed) => return Err(failed),
        }
        Ok(())
    }
}

fn refused(from: Lsn, reason: &str) -> Appended {
    let reason = reason.to_owned();
    Appended::Refused { from, reason }
}

/// Waits for what is under way; for ever when nothing is.
async fn wait_for<F: Future + Unpin>(under_way: &mut Option<F>) -> F::Output {
    match under_way {
        Some(future) => future.await,
        None => std::future::pending().await,
    }
}
