//! The folder of a server's sockets. Its lock says that the server lives: what a server that was killed has
//! left, the next one removes.

use std::fs::{self, File, TryLockError};
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use super::of_process::OfProcess;

/// The beginning of the names of such folders.
const PREFIX: &str = "rondo-exchange-";
/// The file in a folder that its server has locked.
const LOCK: &str = "lock";
/// Folders that are made until one is there to stay: another server may take a new one for an abandoned one.
const ATTEMPTS_MAX: usize = 8;

/// A folder that is removed with its server.
pub(super) struct Folder {
    folder: OfProcess<TempDir>,
    /// Locked as long as it is open.
    _lock: File,
}

impl Folder {
    /// Makes a folder below `parent`, and removes those whose servers were killed.
    ///
    /// # Errors
    /// When it cannot be made.
    pub(super) fn make(parent: &Path) -> io::Result<Self> {
        remove_abandoned(parent);
        let mut attempts = 1;
        loop {
            match Self::try_make(parent) {
                Err(error) if error.kind() == ErrorKind::NotFound && attempts < ATTEMPTS_MAX => {
                    attempts += 1;
                }
                made => return made,
            }
        }
    }

    /// Makes a folder.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] if another process removed it before it was locked.
    fn try_make(parent: &Path) -> io::Result<Self> {
        let folder = tempfile::Builder::new().prefix(PREFIX).tempdir_in(parent)?;
        let lock = File::create_new(folder.path().join(LOCK))?;
        match lock.try_lock() {
            Ok(()) if lock.metadata()?.nlink() > 0 => {
                Ok(Self { folder: OfProcess::new(folder), _lock: lock })
            }
            Ok(()) | Err(TryLockError::WouldBlock) => Err(ErrorKind::NotFound.into()),
            // A file system without locks: then no server removes the folder of another.
            Err(TryLockError::Error(error)) => {
                tracing::debug!(%error, "the folder of sockets has no lock");
                Ok(Self { folder: OfProcess::new(folder), _lock: lock })
            }
        }
    }

    /// Where it is.
    pub(super) fn path(&self) -> PathBuf {
        self.folder.path().to_owned()
    }
}

/// Removes this user's folders below `parent` whose servers are gone. Those without a lock are of earlier
/// releases, whose servers may live: of these only empty ones are removed.
fn remove_abandoned(parent: &Path) {
    let user = rustix::process::getuid().as_raw();
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        if !entry.file_name().to_string_lossy().starts_with(PREFIX) {
            continue;
        }
        let is_own = entry.metadata().is_ok_and(|it| it.is_dir() && it.uid() == user);
        if is_own && let Err(error) = remove_if_abandoned(&entry.path()) {
            let folder = entry.path();
            tracing::debug!(%error, folder = %folder.display(), "a folder of sockets stays");
        }
    }
}

fn remove_if_abandoned(folder: &Path) -> io::Result<()> {
    let lock = match File::open(folder.join(LOCK)) {
        Ok(lock) => lock,
        // It fails if anything is in the folder.
        Err(error) if error.kind() == ErrorKind::NotFound => return fs::remove_dir(folder),
        Err(error) => return Err(error),
    };
    match lock.try_lock() {
        Ok(()) => fs::remove_dir_all(folder),
        Err(TryLockError::WouldBlock) => Ok(()),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(parent: &Path) -> Vec<PathBuf> {
        let mut names: Vec<PathBuf> =
            fs::read_dir(parent).unwrap().map(|entry| entry.unwrap().path()).collect();
        names.sort();
        names
    }

    #[test]
    fn folders_of_servers_that_are_gone_are_removed_and_no_others() {
        let parent = tempfile::tempdir().unwrap();
        let place = |name: &str| parent.path().join(name);
        let living = Folder::make(parent.path()).unwrap();
        fs::write(living.path().join("exchange-1.sock"), "").unwrap();
        // One that was killed, two of an earlier release, and one that is something else.
        for name in ["rondo-exchange-killed", "rondo-exchange-old", "rondo-other"] {
            fs::create_dir(place(name)).unwrap();
            fs::write(place(name).join("exchange-2.sock"), "").unwrap();
        }
        fs::write(place("rondo-exchange-killed").join(LOCK), "").unwrap();
        fs::create_dir(place("rondo-exchange-empty")).unwrap();
        let next = Folder::make(parent.path()).unwrap();
        let mut expected =
            vec![living.path(), next.path(), place("rondo-exchange-old"), place("rondo-other")];
        expected.sort();
        assert_eq!(names(parent.path()), expected);
        drop((living, next));
        assert_eq!(names(parent.path()), [place("rondo-exchange-old"), place("rondo-other")]);
    }
}
