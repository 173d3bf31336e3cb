//! Which process has a lock file.

use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::fs::{major, minor};

/// Where the system shows locks, and processes.
const PROC: &str = "/proc";

/// The holder of a locked file, in words. `told` is what the file says: `pid N` where a server has written
/// it. A process that is no server may have the lock since; any user who may read the file can take it.
pub(super) fn named(file: &File, told: String) -> String {
    let lines = fs::read_to_string(Path::new(PROC).join("locks")).unwrap_or_default();
    let holder = file.metadata().ok().and_then(|it| holder_in(&lines, it.dev(), it.ino()));
    let writer: Option<u32> = told.strip_prefix("pid ").and_then(|pid| pid.parse().ok());
    match (writer, holder) {
        (Some(writer), Some(holder)) if writer != holder => format!(
            "pid {holder} has locked it; the server that used it last noted pid {writer}, which may be the \
             same one in a container"
        ),
        (Some(writer), None) if !Path::new(PROC).join(writer.to_string()).exists() => format!(
            "a process that cannot be seen from here has locked it (the server that used it last was pid \
             {writer})"
        ),
        _ => told,
    }
}

/// Who has locked the file of this device and number, as `/proc/locks` tells.
fn holder_in(locks: &str, device: u64, inode: u64) -> Option<u32> {
    let wanted = format!("{:02x}:{:02x}:{inode}", major(device), minor(device));
    locks.lines().find_map(|line| {
        // `1: FLOCK  ADVISORY  WRITE 708 fd:01:1234 0 EOF`; one that waits has an arrow behind its number.
        let mut words = line.split_ascii_whitespace().skip(1);
        let kind = words.next()?;
        let (pid, place) = (words.nth(2)?, words.next()?);
        (kind == "FLOCK" && place == wanted).then(|| pid.parse().ok().filter(|pid| *pid != 0))?
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_holder_of_a_lock_is_found_among_others() {
        let locks = "1: FLOCK  ADVISORY  WRITE 708 fd:01:77 0 EOF\n\
                     1: -> FLOCK  ADVISORY  WRITE 709 fd:01:78 0 EOF\n\
                     2: POSIX  ADVISORY  WRITE 710 fd:01:78 0 EOF\n\
                     3: FLOCK  ADVISORY  WRITE 0 fd:01:79 0 EOF\n\
                     4: FLOCK  ADVISORY  WRITE 711 fd:01:78 0 EOF\n";
        let device = rustix::fs::makedev(0xfd, 1);
        assert_eq!(holder_in(locks, device, 78), Some(711));
        assert_eq!(holder_in(locks, device, 79), None);
        assert_eq!(holder_in(locks, device, 80), None);
        assert_eq!(holder_in("", device, 78), None);
    }

    #[test]
    fn a_server_that_is_gone_is_not_blamed() {
        let file = tempfile::tempfile().unwrap();
        file.lock().unwrap();
        let us = std::process::id();
        assert_eq!(named(&file, format!("pid {us}")), format!("pid {us}"));
        // No process has so large a number.
        let text = named(&file, "pid 4194305".into());
        assert!(!text.starts_with("pid 4194305") && text.contains("last"), "{text}");
        assert_eq!(named(&file, "something".into()), "something");
    }
}
