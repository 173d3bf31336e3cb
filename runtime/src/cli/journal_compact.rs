//! `rondo journal compact`.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use clap::Args;
use rondo_core::ids::Lsn;
use rondo_core::journal::Noted;

use super::exit::{Exit, Failure};
use super::journal::{AtRest, open, say, stale_note, unreadable, unusable};
use super::progress::Progress;
use crate::node::{Built, CompactionError, SegmentRead, Snapshots, replay, segments_after};

/// Which journal to compact, and how.
#[derive(Args, Clone, Debug, PartialEq, Eq)]
pub(super) struct CompactArgs {
    /// The data directory; no server may use it meanwhile
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    /// Give up this record and every later one first, to start again from a damaged journal
    ///
    /// Acknowledged updates are lost. Copy the directory before.
    #[arg(long, value_name = "RECORD")]
    cut_before: Option<u64>,
}

/// Writes a snapshot of the whole journal and removes the segments that it makes superfluous.
pub(super) async fn compact(args: &CompactArgs) -> Result<(), Failure> {
    let mut journal = open(&args.directory).await?;
    if let Some(record) = args.cut_before {
        cut(&mut journal, Lsn::new(record)).await?;
    }
    let snapshots = Snapshots::of(&journal.directory, &journal.config);
    let snapshot = snapshots.load().await.map_err(|error| failed(&error))?;
    let base = snapshot.applied();
    let replayed = match replay(&mut *journal.store, snapshot, journal.noted).await {
        Err(stale) if stale.is_of_stale_note() => {
            say(&stale_note(&stale))?;
            let snapshot = snapshots.load().await.map_err(|error| failed(&error))?;
            replay(&mut *journal.store, snapshot, None).await
        }
        replayed => replayed,
    };
    let replayed = replayed.map_err(|error| unreadable(&error))?;
    let last = replayed.recovered.applied;
    if last == base {
        return say(&format!("nothing to do: the snapshot holds every record up to {last}"));
    }
    if !journal.store.rotate(last.next()).await.map_err(|error| unusable(&error))? {
        let text = "the last segment cannot be closed for want of space or memory; make room first";
        return Err(Failure::new(Exit::DataDirectory, text));
    }
    let reads = closed_segments(&journal, base, last);
    let Built { upto, .. } =
        snapshots.build(reads, last.next()).await.map_err(|error| failed(&error))?;
    let removed = remove_superfluous(&mut journal, upto).await?;
    say(&format!("snapshot of records up to {upto} written, {removed} segments removed"))
}

/// Drops records that cannot be read, and all behind them, because the operator says so.
async fn cut(journal: &mut AtRest, before: Lsn) -> Result<(), Failure> {
    let first = journal.manifest.journal_first;
    if before < first {
        let text = format!(
            "record {before} is in the snapshot; the journal begins with record {first}, and only \
             that or a later one can be given up"
        );
        return Err(Failure::new(Exit::Usage, text));
    }
    journal.store.truncate(before).await.map_err(|error| unusable(&error))?;
    let left = Lsn::new(before.get().saturating_sub(1));
    if journal.noted.is_some_and(|noted| noted.upto() > left) {
        // It says that what is given up was acknowledged, and would stop every start from here on. Until it
        // is lowered a start is refused, and the same command goes on.
        journal.acknowledged.note(left).await.map_err(|error| unusable(&error))?;
        journal.acknowledged.sync().await;
        journal.noted = Some(Noted::Exactly(left));
    }
    say(&format!("record {before} and every later one are given up"))
}

/// The closed segments behind record `base`, counted as they are read.
fn closed_segments(journal: &AtRest, base: Lsn, last: Lsn) -> Vec<SegmentRead> {
    let segments = segments_after(&journal.store.segments(), base);
    let segments: Vec<_> = segments.into_iter().filter(|segment| segment.first <= last).collect();
    let progress = Arc::new(Mutex::new(Progress::of("segments read", segments.len())));
    let read = |first| -> SegmentRead {
        let (read, progress) = (journal.store.read(first), progress.clone());
        Box::pin(async move {
            let found = read.await;
            progress.lock().unwrap_or_else(PoisonError::into_inner).step();
            found
        })
    };
    segments.iter().map(|segment| read(segment.first)).collect()
}

async fn remove_superfluous(journal: &mut AtRest, upto: Lsn) -> Result<usize, Failure> {
    let segments = journal.store.segments();
    let needed = segments_after(&segments, upto);
    let superfluous = segments.iter().filter(|segment| !needed.contains(segment));
    let mut removed = 0_usize;
    for segment in superfluous {
        journal.store.remove(segment.first).await.map_err(|error| unusable(&error))?;
        removed = removed.saturating_add(1);
    }
    Ok(removed)
}

/// A snapshot that cannot be read or written.
pub(super) fn failed(error: &CompactionError) -> Failure {
    let exit = if error.is_damage() { Exit::JournalDamaged } else { Exit::DataDirectory };
    Failure::new(exit, error)
}
