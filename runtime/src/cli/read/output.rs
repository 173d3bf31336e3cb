//! Where `rondo read` puts what it reads.

use std::fs::{File, OpenOptions};
use std::io::{BufWriter, ErrorKind, Write};
use std::path::Path;

use rondo_core::element::Spec;
use rondo_data::Origin;

use super::super::exit::{Exit, Failure};
use super::encoder::Encoder;
use super::note::{Extent, Note};
use super::record_file::{Opened, RecordFile};
use super::resume::end_reader;
use super::{ReadArgs, complete, display, status_of};
use crate::reader::{Content, Delivery};

/// Somewhere to write, and in which form.
pub(super) struct Output {
    encoder: Encoder,
    to: To,
    /// The program that took standard output has gone.
    is_closed: bool,
}

/// Where it goes.
enum To {
    Standard,
    /// A pipe or a device that has a name.
    Other(BufWriter<File>),
    /// `is_new` if no former run wrote it.
    Records {
        file: Box<RecordFile>,
        is_new: bool,
    },
}

impl Output {
    /// Opens the file, if one is named. If a former run wrote it, it holds exactly the records that this run
    /// acknowledged from then on. None if that one has written everything there is.
    ///
    /// # Errors
    /// When the file holds something else, or the dispatcher does not say how far the former run came.
    pub(super) async fn open(args: &ReadArgs) -> Result<Option<Self>, Failure> {
        let form = args.form()?;
        let to = match &args.output {
            None => To::Standard,
            Some(path) if path.metadata().is_ok_and(|found| !found.is_file()) => {
                let file = OpenOptions::new().write(true).open(path);
                To::Other(BufWriter::new(file.map_err(|error| failed(path, &error))?))
            }
            Some(path) => match RecordFile::open(path, args.contents(form))? {
                Opened::New(file) => To::Records { file: Box::new(file), is_new: true },
                Opened::Begun(mut file) => {
                    go_on(args, path, &mut file).await?;
                    To::Records { file: Box::new(file), is_new: false }
                }
                Opened::Complete(note) => {
                    say_complete(args, path, &note).await?;
                    return Ok(None);
                }
            },
        };
        Ok(Some(Self { encoder: Encoder::new(form), to, is_closed: false }))
    }

    /// The elements have this structure, as far as is known.
    pub(super) fn expect(&mut self, spec: Option<Spec>) {
        self.encoder.expect(spec);
    }

    /// Whether a former run wrote to the file.
    pub(super) const fn goes_on(&self) -> bool {
        matches!(self.to, To::Records { is_new: false, .. })
    }

    /// Records in the file, if there is one.
    pub(super) fn records(&self) -> Option<u64> {
        match &self.to {
            To::Records { file, .. } => Some(file.records()),
            _ => None,
        }
    }

    /// A file is read by split or by element from its beginning to its end.
    ///
    /// # Errors
    /// When a former run read in the other way.
    pub(super) fn check_mode(&self, is_by_split: bool) -> Result<(), Failure> {
        match &self.to {
            To::Records { file, .. } => file.check_mode(is_by_split),
            _ => Ok(()),
        }
    }

    /// Writes a delivery.
    ///
    /// # Errors
    /// When its form cannot hold it, or it cannot be written.
    pub(super) fn write(&mut self, delivery: &Delivery) -> Result<(), Failure> {
        let encoded = self.encoder.encode(&delivery.content)?;
        let records = match &delivery.content {
            Content::Records(_) => delivery.records(),
            Content::Element(_) => 1,
        };
        let written = match &mut self.to {
            To::Records { file, .. } => return file.write(&encoded, records),
            To::Standard => {
                let mut out = std::io::stdout();
                out.write_all(&encoded.head).and_then(|()| out.write_all(&encoded.body))
            }
            To::Other(file) => {
                file.write_all(&encoded.head).and_then(|()| file.write_all(&encoded.body))
            }
        };
        self.noted(written)
    }

    /// Whether the program that takes the output, such as `head`, wants no more. What was written and
    /// not synced before may not have reached it.
    pub(super) const fn is_closed(&self) -> bool {
        self.is_closed
    }

    fn noted(&mut self, written: std::io::Result<()>) -> Result<(), Failure> {
        match written {
            Err(error) if error.kind() == ErrorKind::BrokenPipe => {
                self.is_closed = true;
                Ok(())
            }
            written => {
                written.map_err(|error| Failure::new(Exit::Other, format!("cannot write: {error}")))
            }
        }
    }

    /// Makes everything written so far safe. `origins` are the records since the last commit, which the
    /// reader with this number may acknowledge then.
    ///
    /// # Errors
    /// When the file system refuses.
    pub(super) fn commit(
        &mut self,
        reader: Option<i64>,
        origins: &[Origin],
    ) -> Result<(), Failure> {
        let synced = match (&mut self.to, reader) {
            (To::Records { file, .. }, Some(reader)) => return file.commit(reader, upto(origins)),
            (To::Records { file, .. }, None) => return file.commit_elements(),
            (To::Standard, _) => std::io::stdout().flush(),
            (To::Other(file), _) => file.flush(),
        };
        self.noted(synced)
    }

    /// Commits of which the dispatcher has confirmed nothing.
    pub(super) fn unconfirmed(&self) -> usize {
        match &self.to {
            To::Records { file, .. } => file.unconfirmed(),
            _ => 0,
        }
    }

    /// The dispatcher has confirmed the first commits.
    pub(super) fn confirm(&mut self, commits: usize) {
        if let To::Records { file, .. } = &mut self.to {
            file.confirm(commits);
        }
    }

    /// Ends the stream. Everything must have been committed.
    ///
    /// # Errors
    /// When it cannot be written.
    pub(super) fn end(&mut self) -> Result<(), Failure> {
        let last = self.encoder.end()?;
        let written = match &mut self.to {
            To::Records { file, .. } => return file.end(&last),
            To::Standard => {
                let mut out = std::io::stdout();
                out.write_all(&last).and_then(|()| out.flush())
            }
            To::Other(file) => file.write_all(&last).and_then(|()| file.flush()),
        };
        self.noted(written)
    }

    /// The dispatcher has confirmed everything, and more may come.
    ///
    /// # Errors
    /// When the file system refuses.
    pub(super) fn close(&mut self) -> Result<(), Failure> {
        match &mut self.to {
            To::Records { file, .. } => file.close(),
            _ => Ok(()),
        }
    }

    /// The dispatcher has confirmed everything, and nothing more comes.
    ///
    /// # Errors
    /// When the file system refuses.
    pub(super) async fn complete(&mut self, args: &ReadArgs) -> Result<(), Failure> {
        let To::Records { file, .. } = &mut self.to else {
            return Ok(());
        };
        // Without it a file cannot be told from one of a later job of the same name: no reason to fail.
        let status = status_of(args).await.ok();
        file.complete(status.and_then(|status| complete::source(&status, &args.job)))
    }

    /// Removes the file if this run made it and nothing is in it. Says whether it did.
    ///
    /// # Errors
    /// When the file system refuses.
    pub(super) fn discard(self) -> Result<bool, Failure> {
        match self.to {
            To::Records { file, is_new: true } => file.remove(),
            _ => Ok(false),
        }
    }
}

/// Says that a file is complete, unless it is so for something else.
async fn say_complete(args: &ReadArgs, path: &Path, note: &Note) -> Result<(), Failure> {
    // A server that is away says nothing against it.
    if let Ok(status) = status_of(args).await {
        complete::check(path, note, args.dataset.as_deref(), &status)?;
    }
    let (path, records) = (path.display(), note.acknowledged.records);
    display::line(&format!(
        "{path} is complete: it holds the {records} records that job {:?} had for it",
        args.job
    ));
    Ok(())
}

/// Cuts off what a former run wrote and did not acknowledge.
async fn go_on(args: &ReadArgs, path: &Path, file: &mut RecordFile) -> Result<(), Failure> {
    let kept = match (file.note().by_element, file.note().reader) {
        (true, _) => file.whole_lines()?,
        (false, None) => file.note().acknowledged,
        (false, Some(reader)) => {
            let left = end_reader(&args.server, reader, &args.job).await;
            let settled = left.and_then(|left| {
                file.note().settled(&left).map_err(|text| Failure::new(Exit::Other, text))
            });
            settled.map_err(|failure| cannot_go_on(path, file, failure))?
        }
    };
    let cut = file.go_on_behind(kept)?;
    display::line(&format!(
        "{} goes on behind the {} records it holds; {cut} bytes that were not acknowledged were cut off",
        path.display(),
        kept.records
    ));
    Ok(())
}

fn cannot_go_on(path: &Path, file: &RecordFile, why: Failure) -> Failure {
    let (path, Extent { bytes, records }) = (path.display(), file.note().acknowledged);
    why.with(&format!(
        "{path} stays as it is, because nobody knows which records behind its first {records} ({bytes} \
         bytes) are acknowledged. To read anew, name another job and another file"
    ))
}

/// By the splits' places: how many records of a split are read then.
fn upto(origins: &[Origin]) -> Vec<(u64, u64)> {
    let mut splits: std::collections::BTreeMap<u64, u64> = std::collections::BTreeMap::new();
    for origin in origins {
        let records = splits.entry(origin.place).or_default();
        *records = origin.first.saturating_add(origin.count).max(*records);
    }
    splits.into_iter().collect()
}

fn failed(path: &Path, error: &std::io::Error) -> Failure {
    Failure::new(Exit::Other, format!("cannot write {}: {error}", path.display()))
}
