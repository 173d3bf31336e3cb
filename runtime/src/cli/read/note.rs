//! The note beside a file of records: which of its bytes belong to acknowledged records.

use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

use rondo_core::dispatcher::DepartedReader;
use serde::{Deserialize, Serialize};

/// The version of the note's format that this release writes and reads.
const VERSION: u32 = 1;
/// Behind the file's name.
const SUFFIX: &str = ".rondo";

/// What `rondo read` keeps beside a file of records, as JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Note {
    version: u32,
    /// Which records the file is for.
    pub(super) of: Contents,
    /// The reader by split that wrote last, by its number at the dispatcher; absent before anything was
    /// written, and when reading by element.
    pub(super) reader: Option<i64>,
    /// The file holds elements. They are not acknowledged.
    pub(super) by_element: bool,
    /// The dispatcher has confirmed that these are acknowledged.
    pub(super) acknowledged: Extent,
    /// What stands behind them, in order. The dispatcher was told of it, or is about to be.
    pub(super) written: Vec<Commit>,
    /// Everything was read: nothing more comes.
    pub(super) complete: bool,
    /// The job that was read, and its dataset. Absent until everything was read, where the server did not
    /// answer then, and in notes of former releases.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) source: Option<Source>,
}

/// The job that was read, and its dataset.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Source {
    /// The job's number.
    pub(super) job: i64,
    /// The dataset's id.
    pub(super) dataset: String,
}

/// Which records a file is for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Contents {
    /// The job's name.
    pub(super) job: String,
    /// Which pass of the job.
    pub(super) repetition: i64,
    /// `--group` or `--consumer`, such as `group 0/2`.
    pub(super) part: Option<String>,
    /// `jsonl`, `csv` or `arrow`.
    pub(super) output: String,
}

/// The beginning of a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Extent {
    /// Its bytes.
    pub(super) bytes: u64,
    /// Records or elements in them.
    pub(super) records: u64,
}

/// Records that are acknowledged together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Commit {
    /// The file up to the last of them.
    pub(super) upto: Extent,
    /// By the splits' places: how many of a split's records are read then, from the first on.
    pub(super) splits: Vec<(u64, u64)>,
}

impl Note {
    pub(super) fn new(of: Contents) -> Self {
        let acknowledged = Extent::default();
        let (reader, source, written) = (None, None, Vec::new());
        let (by_element, complete) = (false, false);
        Self { version: VERSION, of, reader, by_element, acknowledged, written, complete, source }
    }

    /// Whether no record was written so far.
    pub(super) fn is_blank(&self) -> bool {
        self.acknowledged.bytes == 0 && self.written.is_empty()
    }

    /// Where the note of a file stands.
    pub(super) fn path_beside(file: &Path) -> PathBuf {
        let mut path = file.as_os_str().to_owned();
        path.push(SUFFIX);
        path.into()
    }

    /// Reads the note at a path; none if there is no such file.
    ///
    /// # Errors
    /// When it cannot be read, or is no note of this version.
    pub(super) fn load(path: &Path) -> io::Result<Option<Self>> {
        let text = match std::fs::read(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            text => text?,
        };
        let note: Self = serde_json::from_slice(&text)?;
        match note.version == VERSION {
            true => Ok(Some(note)),
            false => {
                let text = format!("version {} of the note is not known, only 1 is", note.version);
                Err(io::Error::new(ErrorKind::InvalidData, text))
            }
        }
    }

    /// Replaces the note at a path. A crash leaves the former note or this one.
    ///
    /// # Errors
    /// When the file system refuses.
    pub(super) fn save(&self, path: &Path) -> io::Result<()> {
        let mut unfinished = path.as_os_str().to_owned();
        unfinished.push(".new");
        let mut file = File::create(&unfinished)?;
        file.write_all(&serde_json::to_vec(self)?)?;
        file.sync_data()?;
        std::fs::rename(&unfinished, path)?;
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        File::open(folder.unwrap_or_else(|| Path::new(".")))?.sync_all()
    }

    /// The dispatcher has confirmed the first of the commits.
    pub(super) fn confirm(&mut self, commits: usize) {
        let mut confirmed = self.written.drain(..commits.min(self.written.len()));
        self.acknowledged = confirmed.next_back().map_or(self.acknowledged, |commit| commit.upto);
    }

    /// The bytes of acknowledged records, once the reader that wrote them has left.
    ///
    /// # Errors
    /// When what the reader acknowledged is no beginning of what it wrote.
    pub(super) fn settled(&self, left: &DepartedReader) -> Result<Extent, String> {
        let read = |place: u64| {
            let held = left.splits.iter().find(|split| split.place == place);
            // It had finished the splits that it did not hold any more.
            held.map_or(u64::MAX, |split| split.records)
        };
        let is_acknowledged = |commit: &&Commit| {
            commit.splits.iter().all(|(place, records)| read(*place) >= *records)
        };
        let settled = self.written.iter().take_while(is_acknowledged).count();
        let (before, behind) = self.written.split_at(settled);
        match behind.iter().find(is_acknowledged) {
            None => Ok(before.last().map_or(self.acknowledged, |commit| commit.upto)),
            Some(commit) => Err(format!(
                "the dispatcher has the records up to byte {}, but not all before them",
                commit.upto.bytes
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use rondo_core::dispatcher::SavedSplit;
    use rondo_core::ids::{IterationId, Lsn};

    use super::*;

    fn note(written: &[(u64, &[(u64, u64)])]) -> Note {
        let of =
            Contents { job: "train".into(), repetition: 0, part: None, output: "jsonl".into() };
        let commit = |(bytes, splits): &(u64, &[(u64, u64)])| Commit {
            upto: Extent { bytes: *bytes, records: bytes / 10 },
            splits: splits.to_vec(),
        };
        let acknowledged = Extent { bytes: 100, records: 10 };
        let written = written.iter().map(commit).collect();
        Note { acknowledged, written, reader: Some(3000), ..Note::new(of) }
    }

    fn left(held: &[(u64, u64)]) -> DepartedReader {
        let split = |(place, records): &(u64, u64)| SavedSplit { place: *place, records: *records };
        let (iteration, repetition) = (IterationId::new(2000), 0);
        let splits = held.iter().map(split).collect();
        DepartedReader { iteration, repetition, splits, left: Lsn::NONE }
    }

    #[test]
    fn bytes_count_up_to_the_last_acknowledged_record() {
        let note = note(&[(200, &[(0, 10)]), (300, &[(0, 15), (1, 5)]), (400, &[(1, 9)])]);
        let bytes = |held: &[(u64, u64)]| note.settled(&left(held)).unwrap().bytes;
        assert_eq!(bytes(&[(0, 0), (1, 0)]), 100);
        assert_eq!(bytes(&[(0, 10), (1, 0)]), 200);
        assert_eq!(bytes(&[(0, 14), (1, 5)]), 200);
        assert_eq!(bytes(&[(1, 5)]), 300);
        assert_eq!(bytes(&[(1, 8)]), 300);
        assert_eq!(bytes(&[]), 400);
    }

    #[test]
    fn a_gap_among_acknowledged_records_is_an_error() {
        let note = note(&[(200, &[(0, 10)]), (300, &[(1, 5)])]);
        let error = note.settled(&left(&[(0, 9)])).unwrap_err();
        assert_eq!(error, "the dispatcher has the records up to byte 300, but not all before them");
    }

    #[test]
    fn confirmed_commits_count_without_the_dispatcher() {
        let mut note = note(&[(200, &[(0, 10)]), (300, &[(1, 5)]), (400, &[(1, 6)])]);
        note.confirm(2);
        assert_eq!(note.acknowledged, Extent { bytes: 300, records: 30 });
        assert_eq!(note.written.len(), 1);
        note.confirm(9);
        assert_eq!((note.acknowledged.bytes, note.written.len()), (400, 0));
        note.confirm(1);
        assert_eq!(note.acknowledged.bytes, 400);
    }

    #[test]
    fn a_note_is_replaced_whole_and_read_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = Note::path_beside(&folder.path().join("out.jsonl"));
        assert_eq!(path.file_name().unwrap(), "out.jsonl.rondo");
        assert_eq!(Note::load(&path).unwrap(), None);
        let mut note = note(&[(200, &[(0, 10)])]);
        note.save(&path).unwrap();
        assert_eq!(Note::load(&path).unwrap(), Some(note.clone()));
        note.complete = true;
        note.save(&path).unwrap();
        assert_eq!(Note::load(&path).unwrap(), Some(note));
        std::fs::write(&path, "{\"version\":2").unwrap();
        Note::load(&path).unwrap_err();
    }
}
