//! The journal of a running process: collects records into commit groups, writes them, has them
//! synced one after the other.

use rondo_core::control::Record;
use rondo_core::ids::Lsn;
use rondo_core::journal::GroupHeader;
use rondo_proto::frame::{self, aligned};

use super::acknowledged;
use super::compact::Compaction;
use super::segment;
use crate::disk::{Disk, DiskError, FileId};
use crate::swarm::JournalShape;

/// A running process's journal.
#[derive(Clone, Debug)]
pub struct Journal {
    pub(super) shape: JournalShape,
    /// The open segment: its first record and its file, once it has one.
    pub(super) open: Option<(Lsn, FileId)>,
    pub(super) tail: u64,
    /// Closed segments, oldest first.
    pub(super) closed: Vec<(Lsn, FileId)>,
    /// Everything up to here is in the snapshot.
    pub(super) snapshot: Lsn,
    /// The snapshot's length in bytes.
    pub(super) snapshot_bytes: u64,
    first: Lsn,
    count: u64,
    payload: Vec<u8>,
    /// A group that was refused: the disk had no room for it, or the system lacked what it needs.
    refused: Option<Group>,
    /// The last record written.
    pub(super) appended: Lsn,
    wanted: Lsn,
    sync: Option<Sync>,
    marked: Lsn,
    /// The snapshot that is being built.
    pub compaction: Option<Compaction>,
}

/// A group as it is written.
type Group = (GroupHeader, bytes::Bytes);

/// The reason of a refusal when the disk is full.
const NO_ROOM: &str = "no space left";
/// The reason of a refusal when the system lacks descriptors, as the runtime gives it.
const LACKING: &str = "the server may open no more files at present (see ulimit -n): cannot create \
                       the next segment: Too many open files (os error 24)";

/// A sync under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sync {
    /// The last record it is for.
    pub upto: Lsn,
    file: FileId,
    begun: u64,
}

/// What became of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Offered {
    /// There was nothing to write.
    Nothing,
    /// It is written; with so many records.
    Written(u64),
    /// The records from `from` on are not taken at present.
    Refused {
        /// The first of them.
        from: Lsn,
        /// The text that the runtime would give.
        reason: &'static str,
    },
    /// The device failed.
    Failed,
}

impl Journal {
    /// The journal behind a recovered state whose last record is `last`.
    pub(super) fn new(shape: JournalShape, last: Lsn, snapshot: Lsn, snapshot_bytes: u64) -> Self {
        Self {
            shape,
            open: None,
            tail: 0,
            closed: Vec::new(),
            snapshot,
            snapshot_bytes,
            first: last.next(),
            count: 0,
            payload: Vec::new(),
            refused: None,
            appended: last,
            wanted: last,
            sync: None,
            marked: Lsn::NONE,
            compaction: None,
        }
    }

    /// Adds a record to the group being collected, and gives its bytes.
    pub fn collect(&mut self, lsn: Lsn, record: &Record) -> &[u8] {
        if self.count == 0 {
            self.first = lsn;
        }
        self.count = self.count.saturating_add(1);
        let from = self.payload.len();
        // The bytes of a group are those of its records, one behind the other.
        self.payload.extend_from_slice(&frame::encode_records(std::slice::from_ref(record)));
        self.payload.get(from..).unwrap_or_default()
    }

    /// Everything up to here is in the snapshot.
    pub const fn snapshot(&self) -> Lsn {
        self.snapshot
    }

    /// Somebody waits for this record.
    pub fn want(&mut self, upto: Lsn) {
        self.wanted = self.wanted.max(upto);
    }

    /// Whether records wait to be written that a sync under way does not hold up.
    pub fn should_write(&self) -> bool {
        let full = self.payload.len() as u64 >= self.shape.group_bytes_max;
        self.count > 0 && self.refused.is_none() && (self.sync.is_none() || full)
    }

    /// Whether everything collected is written.
    pub const fn is_written(&self) -> bool {
        self.count == 0 && self.refused.is_none()
    }

    /// Whether a group was refused.
    pub const fn is_refused(&self) -> bool {
        self.refused.is_some()
    }

    /// Writes what was collected, unless the system lacks what that needs. `durable` is the last record
    /// known to be durable.
    pub fn write(&mut self, disk: &mut Disk, durable: Lsn, lacks: bool) -> Offered {
        if self.count == 0 {
            return Offered::Nothing;
        }
        let header = GroupHeader { first: self.first, count: self.count, durable_upto: durable };
        let encoded = frame::encode(&header, &self.payload);
        self.payload.clear();
        self.count = 0;
        self.marked = durable;
        match encoded {
            Ok(frame) => self.offer(disk, (header, frame), lacks),
            Err(_) => Offered::Failed,
        }
    }

    /// Writes again what was refused.
    pub fn write_again(&mut self, disk: &mut Disk, lacks: bool) -> Offered {
        match self.refused.take() {
            Some(group) => self.offer(disk, group, lacks),
            None => Offered::Nothing,
        }
    }

    fn offer(&mut self, disk: &mut Disk, (header, frame): Group, lacks: bool) -> Offered {
        if lacks {
            return self.refuse((header, frame), LACKING);
        }
        match self.put(disk, header.first, &frame) {
            Ok(()) => {
                let last = header.first.get().saturating_add(header.count).saturating_sub(1);
                self.appended = self.appended.max(Lsn::new(last));
                Offered::Written(header.count)
            }
            Err(DiskError::Full) => self.refuse((header, frame), NO_ROOM),
            Err(_) => Offered::Failed,
        }
    }

    /// Keeps a group for another try.
    fn refuse(&mut self, group: Group, reason: &'static str) -> Offered {
        let from = group.0.first;
        self.refused = Some(group);
        Offered::Refused { from, reason }
    }

    fn put(&mut self, disk: &mut Disk, first: Lsn, frame: &[u8]) -> Result<(), DiskError> {
        let (_, file) = match self.open {
            Some(open) => open,
            None => {
                let file = disk.create(&segment::path(first))?;
                disk.sync_dir(segment::DIR);
                self.tail = 0;
                *self.open.insert((first, file))
            }
        };
        match disk.write_at(file, self.tail, frame) {
            Ok(()) => {
                self.tail = aligned(usize::try_from(self.tail).unwrap_or(0) + frame.len()) as u64;
                Ok(())
            }
            Err(error) => {
                // What a write left behind that ran out of space must not be found.
                disk.set_len(file, self.tail)?;
                Err(error)
            }
        }
    }

    /// Begins a sync if somebody waits for one and none is under way.
    pub fn begin_sync(&mut self, disk: &Disk, durable: Lsn) -> bool {
        let upto = self.appended;
        let (None, Some((_, file))) = (self.sync, self.open) else {
            return false;
        };
        if upto <= durable || self.wanted <= durable {
            return false;
        }
        self.sync = Some(Sync { upto, file, begun: disk.sync_begin(file) });
        true
    }

    /// Takes the sync that ends now.
    pub const fn take_sync(&mut self) -> Option<Sync> {
        self.sync.take()
    }

    /// Whether a sync is under way.
    pub const fn is_syncing(&self) -> bool {
        self.sync.is_some()
    }

    /// Notes, without waiting, how far the journal is durable, so that damage to the last records
    /// can be told from an unfinished write.
    pub fn mark(&mut self, disk: &mut Disk, durable: Lsn) -> Result<(), DiskError> {
        let due = self.marked < durable && self.appended == durable && self.is_written();
        if !due || self.sync.is_some() || self.open.is_none() {
            return Ok(());
        }
        self.marked = durable;
        let header = GroupHeader { first: durable.next(), count: 0, durable_upto: durable };
        let Ok(frame) = frame::encode(&header, &[]) else {
            return Ok(());
        };
        match self.put(disk, header.first, &frame) {
            // A mark is worth nothing to anybody waiting.
            Err(DiskError::Full) | Ok(()) => Ok(()),
            Err(error) => Err(error),
        }
    }
}

impl Sync {
    /// It ends well; the note goes before any answer.
    pub fn end(self, disk: &mut Disk) {
        disk.sync_end(self.file, self.begun);
        acknowledged::note(disk, self.upto);
    }

    /// It says that it ended well, and did nothing.
    pub fn lie(self, disk: &mut Disk) {
        disk.sync_lied(self.file, self.begun);
        acknowledged::note(disk, self.upto);
    }

    /// It fails.
    pub fn fail(self, disk: &mut Disk, stream: &mut crate::rng::Stream) {
        disk.sync_failed(self.file, self.begun, stream);
    }
}
