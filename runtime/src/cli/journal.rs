//! `rondo journal`: looks at the journal of a data directory that no server uses.

use std::io::Write;
use std::path::Path;

use clap::Subcommand;
use rondo_core::journal::Noted;

use super::exit::{self, Exit, Failure};
use super::journal_compact::{self, CompactArgs};
use super::journal_inspect::{self, InspectArgs};
use super::journal_verify::{self, VerifyArgs};
use crate::node::ReplayError;
use crate::serve::VERSION;
use crate::store::{
    Acknowledged, DataDirectory, Manifest, ManifestError, RealDisk, Store, StoreConfig, StoreError,
    Wanted,
};

/// The file that every data directory has.
const FORMAT_FILE: &str = "FORMAT";

/// What to do with a journal.
#[derive(Subcommand, Clone, Debug)]
pub(super) enum JournalCommand {
    /// Show the segments of a journal, and the records in them
    Inspect(InspectArgs),
    /// Read a journal and its blobs as a server would at its start, and say whether all is well
    Verify(VerifyArgs),
    /// Write a snapshot of a journal and remove what it makes superfluous
    Compact(CompactArgs),
}

/// Carries out `rondo journal`.
pub(super) fn journal(command: &JournalCommand) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::new(Exit::Other, error))?;
    match command {
        JournalCommand::Inspect(args) => runtime.block_on(journal_inspect::inspect(args)),
        JournalCommand::Verify(args) => runtime.block_on(journal_verify::verify(args)),
        JournalCommand::Compact(args) => runtime.block_on(journal_compact::compact(args)),
    }
}

/// A journal at rest; nobody else can use it meanwhile.
pub(super) struct AtRest {
    pub(super) directory: DataDirectory,
    pub(super) manifest: Manifest,
    pub(super) store: Box<dyn Store>,
    /// The note of acknowledged records, and what it says.
    pub(super) acknowledged: Acknowledged,
    pub(super) noted: Option<Noted>,
    pub(super) config: StoreConfig,
}

/// Opens the journal in the data directory at `path`, which must be there.
pub(super) async fn open(path: &Path) -> Result<AtRest, Failure> {
    if !path.join(FORMAT_FILE).is_file() {
        let text = format!("{} is no data directory: it has no file {FORMAT_FILE}", path.display());
        return Err(Failure::new(Exit::DataDirectory, text));
    }
    let release = format!("rondo {VERSION}");
    let wanted = Wanted { store: None, release, pid: std::process::id() };
    let directory = DataDirectory::open(RealDisk::shared(), path, &wanted).await;
    let directory = directory.map_err(|error| Failure::new(exit::of_directory(&error), error))?;
    let config = StoreConfig::default();
    let manifest = directory.manifest().await.map_err(|error| without_manifest(&error))?;
    let store = directory.open_journal(&config).await.map_err(|error| unusable(&error))?;
    let (acknowledged, noted) = directory.acknowledged().await.map_err(|error| unusable(&error))?;
    Ok(AtRest { acknowledged, noted, directory, manifest, store, config })
}

fn without_manifest(error: &ManifestError) -> Failure {
    match error {
        ManifestError::Failed(error) => unusable(error),
        ManifestError::Damaged { .. } => Failure::new(Exit::JournalDamaged, error),
        ManifestError::LaterRelease { .. } => Failure::new(Exit::DataDirectory, error),
    }
}

/// A store that cannot be read.
pub(super) fn unusable(error: &StoreError) -> Failure {
    let exit = if error.is_damage { Exit::JournalDamaged } else { Exit::DataDirectory };
    Failure::new(exit, error)
}

/// A journal that cannot be replayed. One that a later release wrote is whole, and ends as it does for
/// `rondo serve`.
pub(super) fn unreadable(error: &ReplayError) -> Failure {
    match error {
        ReplayError::Store(error) => unusable(error),
        error if error.is_of_later_release() => Failure::new(Exit::DataDirectory, error),
        _ => Failure::new(Exit::JournalDamaged, error),
    }
}

/// Tells of a note of acknowledged records that does not count.
pub(super) fn stale_note(error: &ReplayError) -> String {
    format!("note: {error} and does not count; every record is kept")
}

/// Prints a line on stdout.
pub(super) fn say(line: &str) -> Result<(), Failure> {
    let printed = writeln!(std::io::stdout(), "{line}");
    printed.map_err(|error| Failure::new(Exit::Other, format!("cannot print: {error}")))
}

#[cfg(test)]
mod tests {
    use rondo_core::ids::Lsn;
    use rondo_proto::frame::FrameError;

    use super::*;

    #[test]
    fn a_record_of_a_later_release_is_no_damage() {
        let undecodable =
            |source| ReplayError::Undecodable { lsn: Lsn::new(4), place: "1.seg:0".into(), source };
        let later = undecodable(FrameError::UnknownKind { index: 0, machine: 1, kind: 99 });
        assert_eq!(unreadable(&later).exit, Exit::DataDirectory);
        let damaged = undecodable(FrameError::Missing { field: "machine" });
        assert_eq!(unreadable(&damaged).exit, Exit::JournalDamaged);
    }

    #[test]
    fn a_store_that_cannot_read_what_was_written_is_damaged() {
        let error = |is_damage| StoreError {
            what: "cannot open",
            place: "journal/1.sled".into(),
            reason: "it cannot be read".into(),
            is_damage,
        };
        assert_eq!(unusable(&error(true)).exit, Exit::JournalDamaged);
        assert_eq!(unusable(&error(false)).exit, Exit::DataDirectory);
        assert_eq!(unreadable(&ReplayError::Store(error(true))).exit, Exit::JournalDamaged);
    }
}
