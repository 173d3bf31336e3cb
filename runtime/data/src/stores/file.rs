//! One file, in one version.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::sync::{Arc, OnceLock};
use std::time::SystemTime;

use bytes::Bytes;
use object_store::{Error, GetOptions, GetRange, GetResult, GetResultPayload, ObjectMeta};
use rustix::buffer::spare_capacity;
use rustix::io::{Errno, pread, retry_on_intr};

use super::{LOCAL, Place, Stores, credentials};
use crate::error::DataError;

/// A file that is read.
#[derive(Clone, Debug)]
pub(crate) struct StoredFile {
    stores: Stores,
    place: Place,
    /// As errors name it.
    pub(crate) location: String,
    /// As it was when its dataset was planned.
    pub(crate) size: u64,
    pub(crate) version: String,
    /// A file of this machine, once something of it was read.
    opened: Arc<OnceLock<Opened>>,
}

/// An open file, in the version that was wanted.
#[derive(Debug)]
struct Opened {
    file: File,
    modified: SystemTime,
}

/// The errors that the system gives when it lacks descriptors or memory: it may have them later.
const PASSING: [Errno; 5] = [Errno::MFILE, Errno::NFILE, Errno::NOMEM, Errno::AGAIN, Errno::INTR];

/// What tells one version of a file from another. Of local files it is not their inode: copies on
/// several machines are the same file.
pub(super) fn version_of(meta: &ObjectMeta, is_local: bool) -> String {
    match &meta.e_tag {
        Some(tag) if !is_local => tag.clone(),
        _ => meta.last_modified.to_rfc3339(),
    }
}

impl Stores {
    /// A file as it is now.
    pub(crate) async fn look(&self, location: &str) -> Result<StoredFile, DataError> {
        let place = self.place(location)?;
        let options = GetOptions { head: true, ..GetOptions::default() };
        let found = place.store.get_opts(&place.path, options).await;
        let found = found.map_err(|error| self.refusal(location, &place.name, &error))?;
        self.answered(&place.name);
        let (size, version) = (found.meta.size, version_of(&found.meta, place.is_local));
        let location = location.to_owned();
        let opened = Arc::default();
        Ok(StoredFile { stores: self.clone(), place, location, size, version, opened })
    }

    /// A file as it was.
    pub(crate) fn known(
        &self,
        location: &str,
        size: u64,
        version: &str,
    ) -> Result<StoredFile, DataError> {
        let place = self.place(location)?;
        let (location, version) = (location.to_owned(), version.to_owned());
        let opened = Arc::default();
        Ok(StoredFile { stores: self.clone(), place, location, size, version, opened })
    }

    /// What a store's failure means.
    pub(super) fn refusal(&self, location: &str, store: &str, error: &Error) -> DataError {
        let (file, what) = (location.to_owned(), chain(error));
        let what = credentials::missing(store, &what).unwrap_or(what);
        match error {
            Error::NotFound { .. } => DataError::Missing { file },
            Error::PermissionDenied { .. } | Error::Unauthenticated { .. } => {
                DataError::Denied { file, what }
            }
            Error::Generic { .. } | Error::JoinError { .. } => {
                let may_pass = store != LOCAL || is_caused_by_passing(error);
                self.failure(store, may_pass, file, what)
            }
            _ => DataError::Store { file, what },
        }
    }

    /// The failure of a store: of one that has failed for long it is final.
    fn failure(&self, store: &str, may_pass: bool, file: String, what: String) -> DataError {
        if may_pass && self.failed(store) {
            DataError::Unavailable { file, what }
        } else {
            DataError::Store { file, what }
        }
    }
}

fn is_passing(error: &io::Error) -> bool {
    Errno::from_io_error(error).is_some_and(|errno| PASSING.contains(&errno))
}

/// Whether the cause of a store's failure is one of those that pass.
fn is_caused_by_passing(error: &Error) -> bool {
    let mut cause = std::error::Error::source(error);
    while let Some(next) = cause {
        if next.downcast_ref().is_some_and(is_passing) {
            return true;
        }
        cause = next.source();
    }
    false
}

/// An error with its causes.
fn chain(error: &Error) -> String {
    let (mut text, mut cause) = (error.to_string(), std::error::Error::source(error));
    while let Some(next) = cause {
        let says = next.to_string();
        if !text.contains(&says) {
            text = format!("{text}: {says}");
        }
        cause = next.source();
    }
    text
}

impl StoredFile {
    /// Bytes of the file; fewer only where it ends.
    pub(crate) async fn range(&self, range: Range<u64>) -> Result<Bytes, DataError> {
        let range = range.start..range.end.min(self.size);
        if range.start >= range.end {
            return Ok(Bytes::new());
        }
        let bound = self.stores.limits().memory_bytes;
        let wanted = range.end.saturating_sub(range.start);
        if wanted > bound {
            return Err(DataError::Bound {
                what: format!("{} has {wanted} bytes that are read at once", self.location),
                found: wanted,
                bound,
                setting: "memory_bytes",
            });
        }
        let (from, to) = (range.start, range.end);
        let bytes = match self.opened.get() {
            Some(_) => self.range_of_opened(range).await?,
            None => self.range_of_store(range).await?,
        };
        self.stores.answered(&self.place.name);
        if bytes.len() as u64 == to.saturating_sub(from) {
            return Ok(bytes);
        }
        Err(self.changed(format!("one that ends within bytes {from} to {to}")))
    }

    /// Asks the store.
    async fn range_of_store(&self, range: Range<u64>) -> Result<Bytes, DataError> {
        let wanted = range.clone();
        let options = GetOptions { range: Some(GetRange::Bounded(range)), ..GetOptions::default() };
        let found = self.place.store.get_opts(&self.place.path, options).await;
        let found = match found {
            Ok(found) => found,
            Err(error) => return Err(self.why_not(&error).await),
        };
        self.unchanged(&found.meta)?;
        let GetResult { payload: GetResultPayload::File(file, _), .. } = found else {
            let bytes = found.bytes().await;
            return bytes.map_err(|it| self.stores.refusal(&self.location, &self.place.name, &it));
        };
        let modified = file.metadata().and_then(|it| it.modified());
        let modified = modified.map_err(|error| self.unreadable(&error))?;
        self.opened.get_or_init(|| Opened { file, modified });
        self.range_of_opened(wanted).await
    }

    /// Reads a file of this machine that is open: the store's own way opens it each time, and fills the
    /// memory with zeros first.
    async fn range_of_opened(&self, range: Range<u64>) -> Result<Bytes, DataError> {
        let (opened, size) = (self.opened.clone(), self.size);
        let read = move || opened.get().map_or(Ok(None), |opened| opened.part(range, size));
        let read = tokio::task::spawn_blocking(read).await;
        let read = read.map_err(io::Error::from).and_then(|read| read);
        match read.map_err(|error| self.unreadable(&error))? {
            Some(bytes) => Ok(bytes),
            None => match self.stores.look(&self.location).await {
                Ok(now) => Err(self.changed(now.describe())),
                Err(error) => Err(error),
            },
        }
    }

    /// The error for a file of this machine that the system does not read.
    fn unreadable(&self, error: &io::Error) -> DataError {
        let (file, what) = (self.location.clone(), error.to_string());
        self.stores.failure(&self.place.name, is_passing(error), file, what)
    }

    /// Why a range was refused: perhaps the file has become shorter.
    async fn why_not(&self, error: &Error) -> DataError {
        if matches!(error, Error::NotFound { .. }) {
            return DataError::Missing { file: self.location.clone() };
        }
        match self.stores.look(&self.location).await {
            Ok(now) if now.size != self.size || now.version != self.version => {
                self.changed(now.describe())
            }
            _ => self.stores.refusal(&self.location, &self.place.name, error),
        }
    }

    fn unchanged(&self, meta: &ObjectMeta) -> Result<(), DataError> {
        let version = version_of(meta, self.place.is_local);
        if meta.size == self.size && version == self.version {
            return Ok(());
        }
        Err(self.changed(describe(meta.size, &version)))
    }

    fn changed(&self, found: String) -> DataError {
        let (file, planned) = (self.location.clone(), self.describe());
        DataError::Changed { file, planned, found }
    }

    fn describe(&self) -> String {
        describe(self.size, &self.version)
    }

    /// The error that something is wrong in the file.
    pub(crate) fn corrupt(&self, offset: u64, what: impl Into<String>) -> DataError {
        self.corrupt_in("byte", offset, what)
    }

    /// The error that something is wrong in the file, at a place that is counted in these.
    pub(crate) fn corrupt_in(
        &self,
        unit: &'static str,
        offset: u64,
        what: impl Into<String>,
    ) -> DataError {
        DataError::Corrupt { file: self.location.clone(), unit, offset, what: what.into() }
    }

    pub(crate) fn limits(&self) -> &crate::limits::Limits {
        self.stores.limits()
    }
}

impl Opened {
    /// Bytes of the file; fewer only where it ends. `None` if it was changed, replaced or removed since it
    /// was opened.
    fn part(&self, range: Range<u64>, size: u64) -> io::Result<Option<Bytes>> {
        let now = self.file.metadata()?;
        if now.nlink() == 0 || now.len() != size || now.modified()? != self.modified {
            return Ok(None);
        }
        let length = range.end.saturating_sub(range.start);
        let length = usize::try_from(length).map_err(io::Error::other)?;
        // Read into memory that nobody has filled with zeros before.
        let mut bytes = Vec::with_capacity(length);
        while bytes.len() < length {
            let at = range.start.saturating_add(bytes.len() as u64);
            let read = || pread(&self.file, spare_capacity(&mut bytes), at);
            if retry_on_intr(read)? == 0 {
                break;
            }
        }
        bytes.truncate(length);
        Ok(Some(bytes.into()))
    }
}

fn describe(size: u64, version: &str) -> String {
    format!("version {version} of {size} bytes")
}

#[cfg(test)]
mod tests {
    use super::super::Patience;
    use super::*;
    use crate::limits::Limits;

    /// Of several files, one may not be opened for a moment: nobody is told that its data are lost.
    #[test]
    fn what_the_system_lacks_for_a_moment_is_no_final_error() {
        let stores = Stores::from_env();
        let file = stores.known("/data/1.csv", 10, "then").unwrap();
        let of_store = |error: io::Error| {
            let error = Error::Generic { store: "LocalFileSystem", source: Box::new(error) };
            stores.refusal("/data/1.csv", LOCAL, &error)
        };
        for errno in PASSING {
            let error = io::Error::from(errno);
            let found = file.unreadable(&error);
            assert!(matches!(&found, DataError::Unavailable { .. }), "{errno}: {found}");
            assert!(matches!(of_store(error), DataError::Unavailable { .. }));
        }
        for errno in [Errno::IO, Errno::ISDIR, Errno::LOOP] {
            let error = io::Error::from(errno);
            let found = file.unreadable(&error);
            assert!(matches!(&found, DataError::Store { .. }), "{errno}: {found}");
            assert!(matches!(of_store(error), DataError::Store { .. }));
        }
        let patience = Patience { store: std::time::Duration::ZERO, ..Patience::default() };
        let stores = Stores::new(Limits::default(), patience, []);
        let file = stores.known("/data/1.csv", 10, "then").unwrap();
        let found = file.unreadable(&Errno::MFILE.into());
        assert!(matches!(&found, DataError::Store { .. }), "it lasts too long: {found}");
    }
}
