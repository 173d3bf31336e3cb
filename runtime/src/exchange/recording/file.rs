//! A trace's file, which is replaced only by a complete one.

use std::ffi::OsStr;
use std::fs::{File, Metadata, OpenOptions, Permissions};
use std::io::{self, BufWriter, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Mode, OFlags};
use rustix::io::Errno;

use super::Recording;

/// Where a process finds its own open files.
const OPEN_FILES: &str = "/proc/self/fd";

impl Recording {
    /// Writes the trace to a file, in the format of [`Recording::write`]. A file that exists keeps its
    /// content until the new content is complete and on the disk; its mode and owner stay. A pipe or a
    /// device is written as it is.
    ///
    /// # Errors
    /// When the file, or the directory that it is in, cannot be written; when a new file could not stand for
    /// the former one, since it has other names or another owner, or is only an open descriptor.
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
            // A file that may not be written may not be replaced.
            OpenOptions::new().write(true).open(path)?;
            Some(found)
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(error),
    };
    let path = &behind_links(path)?;
    let unfinished = Unfinished::in_folder(folder_of(path))?;
    if let Some(former) = former {
        take_over(&former, unfinished.file())?;
    }
    let mut out = BufWriter::new(unfinished.file());
    write(&mut out)?;
    out.flush()?;
    drop(out);
    unfinished.file().sync_all()?;
    unfinished.put_at(path)
}

/// Gives a new file the mode and the owner of the one that it replaces.
fn take_over(former: &Metadata, new: &File) -> io::Result<()> {
    if former.nlink() > 1 {
        let text = "the file has other names (hard links), which would keep its content: name another file";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
    }
    let (uid, gid) = (former.uid(), former.gid());
    fchown(new, Some(uid), Some(gid)).map_err(|error| {
        let text = format!(
            "the file belongs to user {uid} and group {gid}, and one that replaces it cannot ({error}): name \
             another file"
        );
        io::Error::new(error.kind(), text)
    })?;
    // A trace needs no other bits of a mode, such as setuid.
    new.set_permissions(Permissions::from_mode(former.mode() & 0o777))
}

fn folder_of(path: &Path) -> &Path {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    folder.unwrap_or_else(|| Path::new("."))
}

/// The place that a path stands for: links stay links, and one to a file that is not there makes it there.
///
/// # Errors
/// When the links go round, or one of them is an open descriptor: no other file can take its place.
fn behind_links(path: &Path) -> io::Result<PathBuf> {
    /// As many as Linux follows.
    const LINKS_MAX: usize = 40;
    let mut place = path.to_owned();
    for _ in 0..LINKS_MAX {
        let Ok(target) = place.read_link() else {
            return Ok(place);
        };
        if folder_of(&place).canonicalize()?.starts_with("/proc") {
            let text = format!(
                "{} is an open file of a process, which nothing can replace: name a file, or - for the \
                 standard output",
                place.display()
            );
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
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
        if !Path::new(OPEN_FILES).exists() {
            // Only there can an unnamed file get its name.
            return Self::named(folder);
        }
        match rustix::fs::open(folder, OFlags::WRONLY | OFlags::TMPFILE | OFlags::CLOEXEC, mode) {
            Ok(file) => Ok(Self::Unnamed { file: file.into(), folder: folder.to_owned() }),
            Err(Errno::OPNOTSUPP | Errno::ISDIR) => Self::named(folder),
            Err(error) => Err(error.into()),
        }
    }

    fn named(folder: &Path) -> io::Result<Self> {
        let mode = Permissions::from_mode(0o666);
        Ok(Self::Named(builder().permissions(mode).tempfile_in(folder)?))
    }

    fn file(&self) -> &File {
        match self {
            Self::Unnamed { file, .. } => file,
            Self::Named(named) => named.as_file(),
        }
    }

    /// Gives the file this name. A file that has the name now loses it.
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
    let open = format!("{OPEN_FILES}/{}", file.as_raw_fd());
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

    /// The user's umask decides who else may read a new file, and a trace is no exception.
    #[test]
    fn a_new_file_has_the_mode_of_any_new_file() {
        let folder = tempfile::tempdir().unwrap();
        let mode = |name: &str| folder.path().join(name).metadata().unwrap().permissions().mode();
        std::fs::write(folder.path().join("any"), "new").unwrap();
        save(&folder.path().join("trace.json"), |out| out.write_all(b"new")).unwrap();
        assert_eq!(mode("trace.json"), mode("any"));
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

    /// The descriptor of a log that goes on, for which a path stands.
    #[test]
    fn an_open_descriptor_is_not_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        std::fs::write(&path, "precious").unwrap();
        let open = File::open(&path).unwrap();
        for descriptors in ["/proc/self/fd", "/dev/fd"] {
            let place = format!("{descriptors}/{}", open.as_raw_fd());
            let refused = save(Path::new(&place), |out| out.write_all(b"new")).unwrap_err();
            assert!(refused.to_string().contains("is an open file of a process"), "{refused}");
        }
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(format!("/proc/self/fd/{}", open.as_raw_fd()), &link).unwrap();
        save(&link, |out| out.write_all(b"new")).unwrap_err();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "precious");
        assert_eq!(names(folder.path()), ["link", "log"]);
    }

    #[test]
    fn a_file_with_another_name_is_not_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let (path, other) = (folder.path().join("trace.json"), folder.path().join("other"));
        std::fs::write(&path, "former").unwrap();
        std::fs::hard_link(&path, &other).unwrap();
        let refused = save(&path, |out| out.write_all(b"new")).unwrap_err();
        assert!(refused.to_string().contains("hard links"), "{refused}");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "former");
    }

    /// Only the superuser can give files away: others replace none but their own.
    #[test]
    fn a_file_keeps_its_owner_and_no_right_to_run_as_him() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("trace.json");
        std::fs::write(&path, "former").unwrap();
        std::fs::set_permissions(&path, Permissions::from_mode(0o6770)).unwrap();
        let owner = match fchown(File::open(&path).unwrap(), Some(1234), Some(5678)) {
            Ok(()) => (1234, 5678),
            Err(_) => (path.metadata().unwrap().uid(), path.metadata().unwrap().gid()),
        };
        save(&path, |out| out.write_all(b"new")).unwrap();
        let found = path.metadata().unwrap();
        assert_eq!((found.uid(), found.gid()), owner);
        assert_eq!(found.mode() & 0o7777, 0o770);
    }

    #[test]
    fn an_error_of_the_system_keeps_its_number() {
        let missing = Path::new("no such folder/trace.json");
        let error = save(missing, |out| out.write_all(b"new")).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(Errno::NOENT.raw_os_error()), "{error}");
    }

    #[test]
    fn a_device_is_written_and_stays_one() {
        save(Path::new("/dev/null"), |out| out.write_all(b"new")).unwrap();
        assert!(!Path::new("/dev/null").metadata().unwrap().is_file());
    }
}
