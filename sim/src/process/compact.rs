//! Keeping the journal short: a segment is closed, a snapshot is built of the closed ones step by
//! step, and they are removed. The process may die between any two steps.

use bytes::Bytes;
use rondo_core::control::Recovery;
use rondo_core::ids::Lsn;
use rondo_core::journal::GroupHeader;
use rondo_proto::frame;

use super::journal::Journal;
use super::recover::replay_segments;
use super::segment;
use crate::disk::{Disk, DiskError, FileId};

/// Where snapshots lie.
pub(super) const SNAPSHOTS: &str = "snapshot";
/// Names the snapshot that counts.
pub(super) const MANIFEST: &str = "manifest";

/// A snapshot that is being built.
#[derive(Clone, Debug)]
pub struct Compaction {
    upto: Lsn,
    file: Option<FileId>,
    step: CompactionStep,
}

/// What is done next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CompactionStep {
    /// Write the snapshot.
    Write,
    /// Make it durable.
    Sync,
    /// Switch to it.
    Switch,
    /// Remove what it stands for.
    Remove,
    /// Nothing is left to do.
    Done,
}

impl Journal {
    /// Closes the open segment if it is large enough, also beside the snapshot that must be written
    /// anew then, and all durable; true when a snapshot is to be built.
    pub fn close_if_due(&mut self, durable: Lsn) -> bool {
        let enough = self.shape.segment_bytes_max.max(self.snapshot_bytes / 2);
        let due = self.tail >= enough && self.appended == durable;
        if !due || self.is_syncing() || !self.is_written() || self.compaction.is_some() {
            return false;
        }
        let Some(open) = self.open.take() else {
            return false;
        };
        self.tail = 0;
        self.closed.push(open);
        let step = CompactionStep::Write;
        self.compaction = Some(Compaction { upto: self.appended, file: None, step });
        true
    }

    /// Does the next step of the snapshot; what is done after it.
    ///
    /// # Errors
    /// When the snapshot is given up: the disk is full or failed, or a closed segment is damaged.
    pub fn compact(&mut self, disk: &mut Disk) -> Result<CompactionStep, DiskError> {
        let Some(mut compaction) = self.compaction.take() else {
            return Ok(CompactionStep::Done);
        };
        compaction.step = match compaction.step {
            CompactionStep::Write => {
                let file = self.write_snapshot(disk, compaction.upto)?;
                self.snapshot_bytes = disk.size_bytes(file);
                compaction.file = Some(file);
                CompactionStep::Sync
            }
            CompactionStep::Sync => {
                if let Some(file) = compaction.file {
                    disk.sync_end(file, disk.sync_begin(file));
                }
                let (temporary, path) = (temporary(compaction.upto), path(compaction.upto));
                disk.rename(&temporary, &path)?;
                disk.sync_dir(SNAPSHOTS);
                CompactionStep::Switch
            }
            CompactionStep::Switch => {
                switch(disk, compaction.upto)?;
                self.snapshot = compaction.upto;
                CompactionStep::Remove
            }
            CompactionStep::Remove | CompactionStep::Done => {
                self.remove_covered(disk)?;
                CompactionStep::Done
            }
        };
        let step = compaction.step;
        self.compaction = Some(compaction).filter(|_| step != CompactionStep::Done);
        Ok(step)
    }

    fn write_snapshot(&self, disk: &mut Disk, upto: Lsn) -> Result<FileId, DiskError> {
        let recovery = read_snapshot(disk).map_err(|_| DiskError::Device)?;
        let segments = self.closed.clone();
        let (recovery, _) =
            replay_segments(disk, recovery, &segments, None).map_err(|_| DiskError::Device)?;
        if recovery.applied() != upto {
            return Err(DiskError::Device);
        }
        let bytes = encode(&recovery);
        let path = temporary(upto);
        if disk.exists(&path) {
            disk.remove_file(&path)?;
        }
        let file = disk.create(&path)?;
        disk.write_at(file, 0, &bytes)?;
        Ok(file)
    }

    /// Removes segments and snapshots that the newest snapshot stands for.
    fn remove_covered(&mut self, disk: &mut Disk) -> Result<(), DiskError> {
        for (first, _) in self.closed.drain(..) {
            disk.remove_file(&segment::path(first))?;
        }
        disk.sync_dir(segment::DIR);
        clear(disk, self.snapshot)
    }
}

/// Puts a state in the place of all there is, as a snapshot, all steps at once.
pub(super) fn install(disk: &mut Disk, recovery: &Recovery) -> Result<(), DiskError> {
    let upto = recovery.applied();
    let (new, path) = (temporary(upto), path(upto));
    if disk.exists(&new) {
        disk.remove_file(&new)?;
    }
    let file = disk.create(&new)?;
    disk.write_at(file, 0, &encode(recovery))?;
    disk.sync_end(file, disk.sync_begin(file));
    disk.rename(&new, &path)?;
    disk.sync_dir(SNAPSHOTS);
    switch(disk, upto)?;
    clear(disk, upto)
}

/// Removes all snapshots but the one that counts, and what was never finished.
pub(super) fn clear(disk: &mut Disk, counts: Lsn) -> Result<(), DiskError> {
    let kept = path(counts);
    for (name, ..) in disk.list(SNAPSHOTS) {
        let path = format!("{SNAPSHOTS}/{name}");
        if path != kept {
            disk.remove_file(&path)?;
        }
    }
    disk.sync_dir(SNAPSHOTS);
    Ok(())
}

fn path(upto: Lsn) -> String {
    format!("{SNAPSHOTS}/{:020}", upto.get())
}

fn temporary(upto: Lsn) -> String {
    format!("{}.new", path(upto))
}

fn switch(disk: &mut Disk, upto: Lsn) -> Result<(), DiskError> {
    let new = format!("{MANIFEST}.new");
    if disk.exists(&new) {
        disk.remove_file(&new)?;
    }
    let file = disk.create(&new)?;
    let header = GroupHeader { first: upto, count: 0, durable_upto: upto };
    let frame = frame::encode(&header, &[]).map_err(|_| DiskError::Device)?;
    disk.write_at(file, 0, &frame)?;
    disk.sync_end(file, disk.sync_begin(file));
    disk.rename(&new, MANIFEST)?;
    disk.sync_dir("");
    Ok(())
}

fn encode(recovery: &Recovery) -> Vec<u8> {
    let parts = recovery.parts();
    let mut payload = Vec::new();
    for part in &parts {
        let bytes = frame::encode_part(part);
        payload.extend_from_slice(&(bytes.len() as u64).to_le_bytes());
        payload.extend_from_slice(&bytes);
    }
    let upto = recovery.applied();
    let header = GroupHeader { first: upto, count: parts.len() as u64, durable_upto: upto };
    frame::encode(&header, &payload).map_or_else(|_| Vec::new(), |frame| frame.to_vec())
}

/// The length in bytes of the snapshot up to a record.
pub(super) fn snapshot_bytes(disk: &Disk, upto: Lsn) -> u64 {
    disk.open(&path(upto)).map_or(0, |file| disk.size_bytes(file))
}

/// The state in the snapshot that counts; the empty one when there is none.
pub(super) fn read_snapshot(disk: &Disk) -> Result<Recovery, String> {
    let Ok(manifest) = disk.open(MANIFEST) else {
        return Ok(Recovery::new());
    };
    let manifest = Bytes::from(disk.read(manifest));
    let (header, _) = frame::decode(&manifest).map_err(|error| format!("manifest: {error}"))?;
    let path = path(header.durable_upto);
    let file = disk.open(&path).map_err(|error| format!("{path}: {error}"))?;
    let bytes = Bytes::from(disk.read(file));
    let decoded = frame::decode(&bytes).map_err(|error| format!("{path}: {error}"))?;
    decode(decoded.0.durable_upto, &decoded.1).map_err(|error| format!("{path}: {error}"))
}

fn decode(upto: Lsn, mut payload: &[u8]) -> Result<Recovery, String> {
    let mut recovery = Recovery::new();
    while let Some((len, rest)) = payload.split_first_chunk::<8>() {
        let len = usize::try_from(u64::from_le_bytes(*len)).unwrap_or(usize::MAX);
        let (part, rest) = rest.split_at_checked(len).ok_or("a part is cut short")?;
        let part = frame::decode_part(part).map_err(|error| error.to_string())?;
        recovery.restore(part).map_err(|error| error.to_string())?;
        payload = rest;
    }
    recovery.restored_upto(upto);
    Ok(recovery)
}
