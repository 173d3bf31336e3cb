//! A trace's file, which is replaced only by a complete one.

use std::ffi::OsStr;
use std::fs::{File, OpenOptions, Permissions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Mode, OFlags};
use rustix::io::Errno;

use super::Recording;

impl Recording {
    /// Writes the trace to a file, in the format of [`Recording::write`]. A file that exists keeps its content
    /// and its mode until the new content is complete and on the disk. A pipe or a device is written as it is.
    ///
    /// # Errors
    /// When the file, or the directory that it is in, cannot be written.
    pub fn save(&self, path: &Path) -> io::Result<()> {
        save(path, |out| self.write(out))
    }
}

/// Writes what replaces a file, or goes into a pipe or a device.
fn save(path: &Path, write: impl Fn(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    let former = match path.metadata() {
        Ok(found) if !found.is_file() => {
            let mut out = BufWriter::new(OpenOptions::new().write(true).open(path)?);
            write(&mut out)?;
            return out.flush();
        }
        Ok(found) => {
            // A file that is protected from being written is protected from being replaced, too.
            OpenOptions::new().write(true).open(path)?;
            Some(found.permissions())
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(error),
    };
    let path = &behind_links(path)?;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or_else(|| Path::new("."));
    let unfinished = Unfinished::in_folder(folder).map_err(|error| {
        let text = format!(
            "a complete trace is written into {} before it gets its name, and that fails: {error}",
            folder.display()
        );
        io::Error::new(error.kind(), text)
    })?;
    if let Some(former) = former {
        unfinished.file().set_permissions(former)?;
    }
    let mut out = BufWriter::new(unfinished.file());
    write(&mut out)?;
    out.flush()?;
    drop(out);
    unfinished.file().sync_all()?;
    unfinished.put_at(path)
}

/// The place that a path stands for: links stay links, and one to a file that is not there makes it there.
fn behind_links(path: &Path) -> io::Result<PathBuf> {
    /// As many as Linux follows.
    const LINKS_MAX: usize = 40;
    let mut place = path.to_owned();
    for _ in 0..LINKS_MAX {
        let Ok(target) = place.read_link() else {
            return Ok(place);
        };
        // An absolute target takes the whole path's place.
        place = place.parent().unwrap_or_else(|| Path::new("")).join(target);
    }
    Err(Errno::LOOP.into())
}

/// A file that has no place of its own yet.
enum Unfinished {
    /// It has no name: the file system removes it if this process ends early.
    Unnamed { file: File, folder: PathBuf },
    /// It has a name, since this file system has no files without.
    Named(tempfile::NamedTempFile),
}

impl Unfinished {
    fn in_folder(folder: &Path) -> io::Result<Self> {
        let mode = Mode::from_raw_mode(0o666);
        match rustix::fs::open(folder, OFlags::WRONLY | OFlags::TMPFILE | OFlags::CLOEXEC, mode) {
            Ok(file) => Ok(Self::Unnamed { file: file.into(), folder: folder.to_owned() }),
            Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::NOENT) => Ok(Self::Named(
                builder().permissions(Permissions::from_mode(0o666)).tempfile_in(folder)?,
            )),
            Err(error) => Err(error.into()),
        }
    }

    fn file(&self) -> &File {
        match self {
            Self::Unnamed { file, .. } => file,
            Self::Named(named) => named.as_file(),
        }
    }

    /// Gives it its name, in place of what has that name now.
    fn put_at(self, path: &Path) -> io::Result<()> {
        match self {
            Self::Unnamed { file, folder } => {
                // A link cannot replace a file, and a rename can.
                let named = builder().make_in(folder, |name| link(&file, name))?;
                named.persist(path).map(drop).map_err(|error| error.error)
            }
            Self::Named(named) => named.persist(path).map(drop).map_err(|error| error.error),
        }
    }
}

fn builder() -> tempfile::Builder<'static, 'static> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(OsStr::new(".rondo-trace-"));
    builder
}

/// Names an open file that has no name.
fn link(file: &File, name: &Path) -> io::Result<()> {
    use std::os::fd::AsRawFd;
    let open = format!("/proc/self/fd/{}", file.as_raw_fd());
    Ok(rustix::fs::linkat(CWD, open, CWD, name, AtFlags::SYMLINK_FOLLOW)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let entries = folder.read_dir().unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn a_file_stays_as_it_is_until_the_new_one_is_complete() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("trace.json");
        std::fs::write(&path, "precious").unwrap();
        let failed = save(&path, |out| {
            out.write_all(&[b' '; 1 << 16])?;
            assert_eq!(std::fs::read_to_string(&path)?, "precious");
            // A process that is killed here leaves nothing behind.
            assert_eq!(names(folder.path()), ["trace.json"]);
            Err(io::Error::other("no room"))
        });
        assert_eq!(failed.unwrap_err().to_string(), "no room");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "precious");
        assert_eq!(names(folder.path()), ["trace.json"]);
    }

    #[test]
    fn what_replaces_a_file_has_its_mode_and_leaves_links_to_it() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name| folder.path().join(name);
        std::fs::write(at("trace.json"), "former, and longer").unwrap();
        std::fs::set_permissions(at("trace.json"), Permissions::from_mode(0o640)).unwrap();
        std::os::unix::fs::symlink("trace.json", at("near")).unwrap();
        std::os::unix::fs::symlink(at("near"), at("far")).unwrap();
        save(&at("far"), |out| out.write_all(b"new")).unwrap();
        assert_eq!(std::fs::read_to_string(at("trace.json")).unwrap(), "new");
        assert_eq!(at("trace.json").metadata().unwrap().permissions().mode() & 0o777, 0o640);
        assert!(at("far").symlink_metadata().unwrap().is_symlink());
        assert_eq!(names(folder.path()), ["far", "near", "trace.json"]);
    }

    #[test]
    fn a_link_to_no_file_stays_and_its_file_is_made() {
        let folder = tempfile::tempdir().unwrap();
        let link = folder.path().join("link");
        std::os::unix::fs::symlink("trace.json", &link).unwrap();
        save(&link, |out| out.write_all(b"new")).unwrap();
        assert!(link.symlink_metadata().unwrap().is_symlink());
        assert_eq!(std::fs::read_to_string(folder.path().join("trace.json")).unwrap(), "new");
        std::os::unix::fs::symlink("loop", folder.path().join("loop")).unwrap();
        save(&folder.path().join("loop"), |_| Ok(())).unwrap_err();
    }

    /// A program that runs is a file that not even the superuser may write.
    #[test]
    fn a_file_that_may_not_be_written_is_not_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("sleep");
        std::fs::copy("/bin/sleep", &path).unwrap();
        let before = std::fs::read(&path).unwrap();
        let mut running = std::process::Command::new(&path).arg("60").spawn().unwrap();
        let refused = save(&path, |out| out.write_all(b"new")).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::ExecutableFileBusy, "{refused}");
        running.kill().unwrap();
        running.wait().unwrap();
        assert!(std::fs::read(&path).unwrap() == before);
        assert_eq!(names(folder.path()), ["sleep"]);
    }

    #[test]
    fn a_device_is_written_and_stays_one() {
        save(Path::new("/dev/null"), |out| out.write_all(b"new")).unwrap();
        assert!(!Path::new("/dev/null").metadata().unwrap().is_file());
    }
}
