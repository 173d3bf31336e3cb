//! A file that holds acknowledged records, each once, whenever the program dies.
//!
//! Records are written behind the file's end and synced; then the note beside the file says which they
//! are; then the dispatcher hears that they are read. After a crash the note and the dispatcher tell which
//! bytes belong to acknowledged records, and the rest is cut off.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, BufWriter, ErrorKind, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use super::super::exit::{Exit, Failure};
use super::encoder::Encoded;
use super::note::{Commit, Contents, Extent, Note, Source};

/// A locked file of records with its note.
pub(super) struct RecordFile {
    path: PathBuf,
    note_path: PathBuf,
    file: BufWriter<File>,
    note: Note,
    /// Everything written so far.
    written: Extent,
}

/// A file before anything is written.
pub(super) enum Opened {
    /// There was no such file, or an empty one.
    New(RecordFile),
    /// A former run wrote it, and did not come to the end.
    Begun(RecordFile),
    /// A former run wrote everything there is.
    Complete(Box<Note>),
}

impl RecordFile {
    /// Opens a file for these records, and locks it. Nothing that it holds changes.
    ///
    /// # Errors
    /// When the file holds something else, another program writes it, or the file system refuses.
    pub(super) fn open(path: &Path, of: Contents) -> Result<Opened, Failure> {
        let note_path = Note::path_beside(path);
        let note = Note::load(&note_path).map_err(|error| about(&note_path, &error))?;
        if note.as_ref().is_some_and(|note| !note.is_blank()) && !path.exists() {
            let text = format!(
                "{} is gone, but {} says that it held records. They are acknowledged, and this job gives \
                 them out no more: bring the file back, or name another job and another file",
                path.display(),
                note_path.display()
            );
            return Err(Failure::new(Exit::Other, text));
        }
        let mut options = OpenOptions::new();
        let file = options.read(true).write(true).create(true).truncate(false).open(path);
        let file = file.map_err(|error| about(path, &error))?;
        lock(path, &file)?;
        // Another program may have written it before it was locked.
        let note = match note {
            None => None,
            Some(_) => Note::load(&note_path).map_err(|error| about(&note_path, &error))?,
        };
        let length = file.metadata().map_err(|error| about(path, &error))?.len();
        let is_new = note.is_none();
        if is_new && length > 0 {
            let text = format!(
                "{} exists, and there is no {} that says what it holds. If `rondo read` wrote it, its \
                 records are acknowledged and come no more: keep it, and name another file",
                path.display(),
                note_path.display()
            );
            return Err(Failure::new(Exit::Other, text));
        }
        let note = note.unwrap_or_else(|| Note::new(of.clone()));
        check(path, &note, &of, length)?;
        if note.complete {
            return Ok(Opened::Complete(Box::new(note)));
        }
        let (path, written) = (path.to_owned(), note.acknowledged);
        let file = BufWriter::new(file);
        let opened = Self { path, note_path, file, note, written };
        if is_new {
            // Before the first byte: a file that is not empty has a note.
            opened.save()?;
            return Ok(Opened::New(opened));
        }
        Ok(Opened::Begun(opened))
    }

    /// A file is read by split or by element from its beginning to its end.
    ///
    /// # Errors
    /// When a former run read in the other way.
    pub(super) fn check_mode(&self, is_by_split: bool) -> Result<(), Failure> {
        let (found, wanted) = match self.note.by_element {
            _ if self.note.is_blank() => return Ok(()),
            true if is_by_split => ("element", "split"),
            false if !is_by_split => ("split", "element"),
            _ => return Ok(()),
        };
        let path = self.path.display();
        let text = format!("{path} was read by {found}, not by {wanted}. Name another file");
        Err(Failure::new(Exit::Usage, text))
    }

    /// What the note says.
    pub(super) const fn note(&self) -> &Note {
        &self.note
    }

    /// Records in the file.
    pub(super) const fn records(&self) -> u64 {
        self.written.records
    }

    /// Cuts off everything behind this, and goes on there. Returns how many bytes went.
    ///
    /// # Errors
    /// When the file system refuses.
    pub(super) fn go_on_behind(&mut self, kept: Extent) -> Result<u64, Failure> {
        let file = self.file.get_mut();
        let mut cut = || {
            let length = file.metadata()?.len();
            file.set_len(kept.bytes)?;
            file.seek(SeekFrom::Start(kept.bytes))?;
            file.sync_data()?;
            Ok(length.saturating_sub(kept.bytes))
        };
        let cut = cut().map_err(|error: io::Error| about(&self.path, &error))?;
        self.written = kept;
        self.note.acknowledged = kept;
        self.note.written.clear();
        self.save()?;
        Ok(cut)
    }

    /// The end of the last whole line. Elements cannot be asked for again, so all that was written stays.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub(super) fn whole_lines(&mut self) -> Result<Extent, Failure> {
        let from = self.note.acknowledged;
        let file = self.file.get_mut();
        let mut count = || {
            file.seek(SeekFrom::Start(from.bytes))?;
            let (mut extent, mut at) = (from, from.bytes);
            let mut buffer = vec![0; 1 << 16];
            loop {
                let read = file.read(&mut buffer)?;
                if read == 0 {
                    return Ok(extent);
                }
                for byte in buffer.iter().take(read) {
                    at = at.saturating_add(1);
                    if *byte == b'\n' {
                        extent = Extent { bytes: at, records: extent.records.saturating_add(1) };
                    }
                }
            }
        };
        count().map_err(|error: io::Error| about(&self.path, &error))
    }

    /// Writes records behind the others.
    ///
    /// # Errors
    /// When the file begins with another head, or the file system refuses.
    pub(super) fn write(&mut self, encoded: &Encoded, records: u64) -> Result<(), Failure> {
        match self.written.bytes {
            0 => self.append(&encoded.head)?,
            _ => self.check_head(&encoded.head)?,
        }
        self.append(&encoded.body)?;
        self.written.records = self.written.records.saturating_add(records);
        Ok(())
    }

    fn append(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        self.file.write_all(bytes).map_err(|error| about(&self.path, &error))?;
        self.written.bytes = self.written.bytes.saturating_add(bytes.len() as u64);
        Ok(())
    }

    /// The records of a former run must have the same columns.
    fn check_head(&mut self, head: &[u8]) -> Result<(), Failure> {
        if head.is_empty() {
            return Ok(());
        }
        let mut found = vec![0; head.len()];
        let read = File::open(&self.path).and_then(|mut file| file.read_exact(&mut found));
        match read {
            Ok(()) if found == head => Ok(()),
            Ok(()) => Err(other_columns(&self.path)),
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => {
                Err(other_columns(&self.path))
            }
            Err(error) => Err(about(&self.path, &error)),
        }
    }

    /// Makes the records written so far safe, and notes which they are. They may be acknowledged then.
    ///
    /// # Errors
    /// When the file system refuses.
    pub(super) fn commit(&mut self, reader: i64, splits: Vec<(u64, u64)>) -> Result<(), Failure> {
        if splits.is_empty() {
            return Ok(());
        }
        self.sync()?;
        self.note.reader = Some(reader);
        self.note.written.push(Commit { upto: self.written, splits });
        self.save()
    }

    /// Makes the elements written so far safe.
    ///
    /// # Errors
    /// When the file system refuses.
    pub(super) fn commit_elements(&mut self) -> Result<(), Failure> {
        if self.written == self.note.acknowledged {
            return Ok(());
        }
        self.sync()?;
        self.note.by_element = true;
        self.note.acknowledged = self.written;
        self.save()
    }

    /// The dispatcher has confirmed the first commits. The next note says so.
    pub(super) fn confirm(&mut self, commits: usize) {
        self.note.confirm(commits);
    }

    /// Commits that the dispatcher has not confirmed.
    pub(super) const fn unconfirmed(&self) -> usize {
        self.note.written.len()
    }

    /// Writes what stands behind the last record. It does not count as records.
    ///
    /// # Errors
    /// When the file system refuses.
    pub(super) fn end(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        self.file.write_all(bytes).map_err(|error| about(&self.path, &error))?;
        self.sync()
    }

    /// Everything is acknowledged, and more may come.
    ///
    /// # Errors
    /// When the file system refuses.
    pub(super) fn close(&mut self) -> Result<(), Failure> {
        self.note.confirm(usize::MAX);
        self.save()
    }

    /// Everything is acknowledged, and nothing more comes of this source.
    ///
    /// # Errors
    /// When the file system refuses.
    pub(super) fn complete(&mut self, source: Option<Source>) -> Result<(), Failure> {
        self.note.complete = true;
        self.note.source = source;
        self.close()
    }

    /// Removes the file if it is empty. Says whether it did.
    ///
    /// # Errors
    /// When the file system refuses.
    pub(super) fn remove(self) -> Result<bool, Failure> {
        if self.written.bytes > 0 {
            return Ok(false);
        }
        for path in [&self.path, &self.note_path] {
            std::fs::remove_file(path).map_err(|error| about(path, &error))?;
        }
        Ok(true)
    }

    fn sync(&mut self) -> Result<(), Failure> {
        let synced = self.file.flush().and_then(|()| self.file.get_ref().sync_data());
        synced.map_err(|error| about(&self.path, &error))
    }

    fn save(&self) -> Result<(), Failure> {
        self.note.save(&self.note_path).map_err(|error| about(&self.note_path, &error))
    }
}

fn lock(path: &Path, file: &File) -> Result<(), Failure> {
    match file.try_lock() {
        Ok(()) => Ok(()),
        Err(TryLockError::WouldBlock) => {
            let text = format!("another program writes {}", path.display());
            Err(Failure::new(Exit::Other, text))
        }
        Err(TryLockError::Error(error)) => Err(about(path, &error)),
    }
}

/// A file goes on only with what it was begun for, and only if no record was taken out of it.
fn check(path: &Path, note: &Note, of: &Contents, length: u64) -> Result<(), Failure> {
    let differs = [
        ("job", format!("{:?}", note.of.job), format!("{:?}", of.job)),
        ("repetition", note.of.repetition.to_string(), of.repetition.to_string()),
        ("part", said(note.of.part.as_ref()), said(of.part.as_ref())),
        ("output", note.of.output.clone(), of.output.clone()),
    ];
    let path = path.display();
    if let Some((what, found, wanted)) = differs.iter().find(|(_, found, wanted)| found != wanted) {
        let text = format!(
            "{path} holds records of {what} {found}, not of {what} {wanted}. Name another file"
        );
        return Err(Failure::new(Exit::Usage, text));
    }
    let least = note.acknowledged.bytes;
    if length < least {
        let text = format!(
            "{path} has {length} bytes, but {least} bytes of it belong to acknowledged records: \
             something else has cut it"
        );
        return Err(Failure::new(Exit::Other, text));
    }
    Ok(())
}

fn said(part: Option<&String>) -> String {
    part.cloned().unwrap_or_else(|| "none".to_owned())
}

fn other_columns(path: &Path) -> Failure {
    let text = format!(
        "{} begins with other columns than these records have. Name another file",
        path.display()
    );
    Failure::new(Exit::Other, text)
}

fn about(path: &Path, error: &io::Error) -> Failure {
    Failure::new(Exit::Other, format!("cannot write {}: {error}", path.display()))
}
