//! A process begins: the snapshot, then the records behind it, judged by the core's scan; what was
//! never acknowledged is cut off. Step by step, so that it can be killed in between.

use bytes::Bytes;
use rondo_core::control::{Recovered, Recovery};
use rondo_core::ids::Lsn;
use rondo_core::journal::{End, Noted, RecoverError, Scan, Verdict};
use rondo_proto::frame::{self, Stretch};

use super::compact::{SNAPSHOTS, clear, read_snapshot, snapshot_bytes};
use super::journal::Journal;
use super::{acknowledged, segment};
use crate::disk::{Disk, FileId};
use crate::swarm::JournalShape;

/// A recovery under way.
#[derive(Debug)]
pub struct Recovering {
    shape: JournalShape,
    step: Step,
}

#[derive(Debug)]
enum Step {
    Tidy,
    Read,
    Cut { found: Found, end: End },
    Sync { found: Found, cut: bool },
}

/// What was read.
#[derive(Debug)]
struct Found {
    recovered: Recovered,
    /// The last record in the snapshot.
    snapshot: Lsn,
}

/// A process that has its state back.
#[derive(Debug)]
pub struct Begun {
    /// The state.
    pub recovered: Recovered,
    /// Its journal.
    pub journal: Journal,
    /// Whether something was cut off the journal's end.
    pub cut: bool,
    /// Segments that were read.
    pub segments: usize,
}

/// Why a process does not start: what it says.
pub type NoStart = String;

impl Recovering {
    /// Begins.
    pub const fn new(shape: JournalShape) -> Self {
        Self { shape, step: Step::Tidy }
    }

    /// Goes on by one step; the process when it was the last. With `stale` the last sector of the
    /// last segment reads as what was there before it was written.
    ///
    /// # Errors
    /// When it cannot start.
    pub fn go_on(&mut self, disk: &mut Disk, stale: bool) -> Result<Option<Begun>, NoStart> {
        let step = std::mem::replace(&mut self.step, Step::Tidy);
        self.step = match step {
            Step::Tidy => {
                make_dirs(disk);
                Step::Read
            }
            Step::Read => {
                let snapshot = read_snapshot(disk)?;
                clear(disk, snapshot.applied()).map_err(|error| error.to_string())?;
                let segments = segments(disk);
                let known = acknowledged::read(disk);
                let read = if stale { stale_copy(disk, &segments) } else { None };
                let from = read.as_ref().unwrap_or(disk);
                let upto = snapshot.applied();
                let replayed = match replay_segments(from, snapshot, &segments, known) {
                    // The note is older than the journal: it does not count.
                    Err(NoReplay::StaleNote(_)) => {
                        replay_segments(from, read_snapshot(disk)?, &segments, None)
                    }
                    replayed => replayed,
                };
                let (recovery, end) = replayed?;
                Step::Cut { found: Found { recovered: recovery.finish(), snapshot: upto }, end }
            }
            Step::Cut { found, end } => {
                cut(disk, &end, found.snapshot)?;
                Step::Sync { found, cut: end.cut.is_some() }
            }
            Step::Sync { found, cut } => {
                return self.begin(disk, found, cut).map(Some);
            }
        };
        Ok(None)
    }

    fn begin(&self, disk: &mut Disk, found: Found, cut: bool) -> Result<Begun, NoStart> {
        let Found { recovered, snapshot } = found;
        let mut all = segments(disk);
        // What a killed process wrote may not be on the platter yet, and is answered from now on.
        for (_, file) in &all {
            disk.sync_end(*file, disk.sync_begin(*file));
        }
        acknowledged::note(disk, recovered.applied);
        let bytes = snapshot_bytes(disk, snapshot);
        let mut journal = Journal::new(self.shape, recovered.applied, snapshot, bytes);
        let count = all.len();
        journal.open = all.pop();
        if let Some(open) = journal.open {
            journal.tail = tail(disk, open, recovered.applied, snapshot)?;
            cut_behind(disk, open.1, journal.tail)?;
        }
        journal.closed = all;
        Ok(Begun { recovered, journal, cut, segments: count })
    }
}

fn make_dirs(disk: &mut Disk) {
    for dir in [segment::DIR, SNAPSHOTS] {
        if !disk.exists(dir) {
            // It is not there, so it can be made.
            let _ = disk.create_dir(dir);
        }
    }
    disk.sync_dir("");
}

/// Segments on the disk, oldest first.
fn segments(disk: &Disk) -> Vec<(Lsn, FileId)> {
    let listed = disk.list(segment::DIR).into_iter();
    let files = listed.filter_map(|(name, ..)| {
        let first = segment::first_of(&name)?;
        Some((first, disk.open(&segment::path(first)).ok()?))
    });
    files.collect()
}

/// Where the open segment ends: behind the group with the last record. It is read again, so it may
/// come otherwise than before, and writing there would destroy what is in it: that group must be
/// there, unless the snapshot has all of it. What lies behind may not be what it seems, so that the
/// end of something in it may be amid something else.
fn tail(
    disk: &Disk,
    (first, file): (Lsn, FileId),
    last: Lsn,
    snapshot: Lsn,
) -> Result<u64, NoStart> {
    let found = frame::scan(&Bytes::from(disk.read(file)));
    let ends_with_last = |stretch: &&Stretch| {
        let header = stretch.frame.as_ref().map(|(header, _)| header);
        header.is_ok_and(|h| {
            h.count > 0 && h.first.get().saturating_add(h.count) == last.next().get()
        })
    };
    let must_have = first <= last && snapshot < last;
    match found.iter().rfind(ends_with_last) {
        None if must_have => {
            Err(format!("record {last} was read last, and the journal ends elsewhere now"))
        }
        end => Ok(end.map_or(0, |stretch| stretch.end as u64)),
    }
}

/// Cuts off what is behind the end of a segment and reads as nothing. It may be something, which
/// would come back when what is written over it is lost.
fn cut_behind(disk: &mut Disk, file: FileId, tail: u64) -> Result<(), NoStart> {
    if disk.size_bytes(file) > tail {
        disk.set_len(file, tail).map_err(|error| error.to_string())?;
        disk.sync_end(file, disk.sync_begin(file));
    }
    Ok(())
}

/// Why segments cannot be replayed.
#[derive(Debug)]
pub(super) enum NoReplay {
    /// The note of acknowledged records is older than they are.
    StaleNote(String),
    /// What they say.
    Unreadable(String),
}

impl From<NoReplay> for NoStart {
    fn from(why: NoReplay) -> Self {
        let (NoReplay::StaleNote(text) | NoReplay::Unreadable(text)) = why;
        text
    }
}

impl From<RecoverError> for NoReplay {
    fn from(error: RecoverError) -> Self {
        match error {
            RecoverError::StaleNote { .. } => Self::StaleNote(error.to_string()),
            _ => Self::Unreadable(error.to_string()),
        }
    }
}

/// How far the segments prove that the journal was durable.
pub fn proven_durable(disk: &Disk) -> Lsn {
    let of_segment = |(_, file): &(Lsn, FileId)| frame::scan(&Bytes::from(disk.read(*file)));
    let groups = segments(disk);
    let groups = groups.iter().flat_map(of_segment).filter_map(|stretch| stretch.frame.ok());
    groups.map(|(header, _)| header.durable_upto).max().unwrap_or(Lsn::NONE)
}

/// Applies what segments hold behind a snapshot.
pub(super) fn replay_segments(
    disk: &Disk,
    snapshot: Recovery,
    segments: &[(Lsn, FileId)],
    noted: Option<Noted>,
) -> Result<(Recovery, End), NoReplay> {
    let mut recovery = snapshot;
    let mut scan = Scan::starting_at(recovery.applied().next());
    if let Some(noted) = noted {
        scan = scan.noted(noted);
    }
    for (first, file) in segments {
        scan.durable(Lsn::new(first.get().saturating_sub(1)));
        read_segment(disk, *file, *first, &mut scan, &mut recovery)?;
    }
    let end = scan.finish()?;
    Ok((recovery, end))
}

fn read_segment(
    disk: &Disk,
    file: FileId,
    first: Lsn,
    scan: &mut Scan,
    recovery: &mut Recovery,
) -> Result<(), NoReplay> {
    let bytes = Bytes::from(disk.read(file));
    for stretch in frame::scan(&bytes) {
        let place = || format!("segment {first} offset {}", stretch.offset);
        let (header, frame) = match &stretch.frame {
            Ok(frame) => frame,
            Err(reason) => {
                scan.damaged(&place(), reason);
                continue;
            }
        };
        if scan.group(header, &place())? == Verdict::Skip {
            continue;
        }
        let payload = frame.slice(frame::FRAME_HEADER_BYTES..);
        let records = frame::decode_records(&payload);
        let unreadable = |text: String| NoReplay::Unreadable(text);
        let records = records.map_err(|error| unreadable(format!("{}: {error}", place())))?;
        let mut lsn = header.first;
        for record in &records {
            let applied = recovery.apply(lsn, record);
            let unfit = |error| unreadable(format!("record {lsn} at {}: {error}", place()));
            applied.map_err(unfit)?;
            lsn = lsn.next();
        }
    }
    Ok(())
}

/// Cuts off everything from the record on that comes next, which is looked for anew.
fn cut(disk: &mut Disk, end: &End, snapshot: Lsn) -> Result<(), NoStart> {
    if end.cut.is_none() {
        return Ok(());
    }
    let failed = |error: crate::disk::DiskError| error.to_string();
    for (first, file) in segments(disk).into_iter().rev() {
        if first >= end.next {
            disk.remove_file(&segment::path(first)).map_err(failed)?;
            disk.sync_dir(segment::DIR);
            continue;
        }
        let last = Lsn::new(end.next.get().saturating_sub(1));
        let stays = tail(disk, (first, file), last, snapshot)?;
        disk.set_len(file, stays).map_err(failed)?;
        disk.sync_end(file, disk.sync_begin(file));
        break;
    }
    Ok(())
}

/// The disk as it would be read if the last sector of the last segment came as it was before.
fn stale_copy(disk: &Disk, segments: &[(Lsn, FileId)]) -> Option<Disk> {
    const SECTOR: u64 = 512;
    let (_, file) = segments.last()?;
    let mut copy = disk.clone();
    let len = copy.size_bytes(*file);
    let from = len.saturating_sub(1) / SECTOR * SECTOR;
    copy.set_free_bytes(None);
    copy.set_len(*file, from).ok()?;
    copy.set_len(*file, len).ok()?;
    Some(copy)
}

/// What the stored bytes give as they are, nothing cut off.
///
/// # Errors
/// When they cannot be read.
pub fn reread(disk: &Disk) -> Result<Recovered, NoStart> {
    let snapshot = read_snapshot(disk)?;
    let (recovery, _) = replay_segments(disk, snapshot, &segments(disk), None)?;
    Ok(recovery.finish())
}
