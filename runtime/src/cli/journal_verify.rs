//! `rondo journal verify`.

use std::collections::BTreeMap;
use std::path::PathBuf;

use clap::Args;
use rondo_core::control::{Part, Recovery};
use rondo_core::coordination::{self, Change, ChangeKind};
use rondo_core::dispatcher;
use rondo_core::ids::Digest;
use rondo_core::journal::Noted;

use super::exit::{Exit, Failure};
use super::journal::{AtRest, open, say, stale_note, unreadable, unusable};
use super::journal_compact::failed;
use super::progress::Progress;
use crate::node::{Replay, ReplayError, Snapshots, segments_after};
use crate::store::blobs::{Blobs, FileBlobs};

/// Which journal to verify.
#[derive(Args, Clone, Debug, PartialEq, Eq)]
pub(super) struct VerifyArgs {
    /// The data directory; no server may use it meanwhile
    #[arg(value_name = "DIR")]
    directory: PathBuf,
}

/// Reads everything a server would read at its start, and every blob. Changes nothing.
pub(super) async fn verify(args: &VerifyArgs) -> Result<(), Failure> {
    let journal = open(&args.directory).await?;
    let snapshots = Snapshots::of(&journal.directory, &journal.config);
    let recovery = snapshots.load().await.map_err(|error| failed(&error))?;
    let (recovery, cut) = match replay(&journal, recovery, journal.noted).await {
        Err(stale) if stale.is_of_stale_note() => {
            say(&stale_note(&stale))?;
            let recovery = snapshots.load().await.map_err(|error| failed(&error))?;
            replay(&journal, recovery, None).await
        }
        replayed => replayed,
    }
    .map_err(|error| unreadable(&error))?;
    let blobs = blobs(&journal, &recovery).await?;
    let applied = recovery.applied();
    if let Some(cut) = cut {
        say(&format!("note: {cut}; it was never acknowledged, and the next start cuts it off"))?;
    }
    say(&format!("all is well: records up to {applied} and {blobs} blobs are as they were written"))
}

fn damaged(text: impl ToString) -> Failure {
    Failure::new(Exit::JournalDamaged, text)
}

async fn replay(
    journal: &AtRest,
    snapshot: Recovery,
    noted: Option<Noted>,
) -> Result<(Recovery, Option<String>), ReplayError> {
    let segments = segments_after(&journal.store.segments(), snapshot.applied());
    let mut progress = Progress::of("segments read", segments.len());
    let mut replay = Replay::starting_from(snapshot, noted);
    for segment in segments {
        replay.segment_follows(segment.first);
        replay.segment(journal.store.read(segment.first).await?)?;
        progress.step();
    }
    let (recovery, end) = replay.finish()?;
    Ok((recovery, end.cut))
}

/// Reads every blob that the state names; how many.
async fn blobs(journal: &AtRest, recovery: &Recovery) -> Result<usize, Failure> {
    let (disk, kept) = (journal.directory.disk(), journal.directory.blobs());
    let blobs = FileBlobs::open(disk.clone(), &kept, &journal.config).await;
    let blobs = blobs.map_err(|error| unusable(&error))?;
    let named = named_blobs(recovery);
    let mut progress = Progress::of("blobs read", named.len());
    for (digest, whose) in &named {
        // Reading one checks its digest.
        let found = blobs.get(*digest).await.map_err(damaged)?;
        if found.is_none() {
            let text = format!("{whose} {digest}, which is missing");
            return Err(damaged(text));
        }
        progress.step();
    }
    Ok(named.len())
}

/// The blobs that datasets are defined by and that values are in, each with one such dataset or
/// key, as the beginning of a sentence.
fn named_blobs(recovery: &Recovery) -> BTreeMap<Digest, String> {
    let blob = |part| match part {
        Part::Dispatcher(dispatcher::Part::Dataset(dataset)) => {
            let definition = &dataset.definition;
            let blob = definition.inline.is_none().then_some(definition.digest);
            blob.map(|digest| (digest, format!("dataset {} is defined by blob", dataset.id)))
        }
        Part::Coordination(part) => blob_of_value(&part),
        Part::Dispatcher(_) => None,
    };
    recovery.parts().into_iter().filter_map(blob).collect()
}

fn blob_of_value(part: &coordination::Part) -> Option<(Digest, String)> {
    let (key, value) = match part {
        coordination::Part::Key(_, entry) => (&entry.key, &entry.value),
        coordination::Part::Change(_, Change { key, kind: ChangeKind::Put(value), .. }) => {
            (key, value)
        }
        _ => return None,
    };
    Some((value.blob()?, format!("key {key} has its value in blob")))
}
