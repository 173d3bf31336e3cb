//! The machine's memory, as far as this process may use it.

use std::fs;
use std::path::{Path, PathBuf};

/// Where the system shows processes, and where it shows groups of processes (cgroups).
const PROC: &str = "/proc";
const GROUPS: &str = "/sys/fs/cgroup";

/// The memory that this process may use at most, in bytes: the machine's, or what a group that the process
/// is in allows, if that is less. `None` where the system does not tell.
pub fn bytes() -> Option<u64> {
    bytes_as_told(Path::new(PROC), Path::new(GROUPS))
}

fn bytes_as_told(proc: &Path, groups: &Path) -> Option<u64> {
    let machine = total(&fs::read_to_string(proc.join("meminfo")).ok()?)?;
    let member = fs::read_to_string(proc.join("self/cgroup")).unwrap_or_default();
    Some(limits(&member, groups).fold(machine, u64::min))
}

/// `MemTotal` of `/proc/meminfo`, in bytes.
fn total(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib: u64 = line.split_whitespace().next()?.parse().ok()?;
    kib.checked_mul(1 << 10)
}

/// The limits of the groups that a process is in, as `/proc/self/cgroup` names them, and of those above them.
fn limits<'a>(member: &'a str, groups: &'a Path) -> impl Iterator<Item = u64> + 'a {
    let places = member.lines().filter_map(|line| {
        let mut parts = line.splitn(3, ':').skip(1);
        let (controllers, path) = (parts.next()?, parts.next()?);
        match controllers {
            "" => Some((groups.to_path_buf(), "memory.max", path)),
            old if old.split(',').any(|controller| controller == "memory") => {
                Some((groups.join("memory"), "memory.limit_in_bytes", path))
            }
            _ => None,
        }
    });
    places.flat_map(|(root, file, path)| {
        // In a container the path may be that of the host, which is not there: then the root is the group's.
        let own = root.join(path.trim_start_matches('/'));
        let above: Vec<PathBuf> = own
            .ancestors()
            .take_while(|place| place.starts_with(&root))
            .map(|place| place.join(file))
            .collect();
        // The word `max` is no number: no limit.
        above.into_iter().filter_map(|file| fs::read_to_string(file).ok()?.trim().parse().ok())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A machine of 64 GiB with such a group file and such limits.
    fn told(member: &str, limits: &[(&str, &str)]) -> Option<u64> {
        let place = tempfile::tempdir().unwrap();
        let (proc, groups) = (place.path().join("proc"), place.path().join("groups"));
        fs::create_dir_all(proc.join("self")).unwrap();
        fs::write(proc.join("meminfo"), "MemTotal:       67108864 kB\nMemFree: 1 kB\n").unwrap();
        fs::write(proc.join("self/cgroup"), member).unwrap();
        for (file, limit) in limits {
            let file = groups.join(file);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, limit).unwrap();
        }
        bytes_as_told(&proc, &groups)
    }

    const GIB: u64 = 1 << 30;

    #[test]
    fn a_machine_without_groups_has_all_of_its_memory() {
        assert_eq!(told("", &[]), Some(64 * GIB));
        assert_eq!(told("0::/user.slice\n", &[("user.slice/memory.max", "max\n")]), Some(64 * GIB));
        assert_eq!(total("MemFree: 1 kB\n"), None);
    }

    #[test]
    fn the_least_limit_of_the_group_and_of_those_above_it_counts() {
        let limits = [("a/memory.max", "4294967296\n"), ("a/b/memory.max", "8589934592\n")];
        assert_eq!(told("0::/a/b\n", &limits), Some(4 * GIB));
    }

    #[test]
    fn in_a_container_the_root_is_its_group() {
        let limits = [("memory.max", "2147483648\n")];
        assert_eq!(told("0::/kubepods/pod1/c\n", &limits), Some(2 * GIB));
    }

    #[test]
    fn groups_of_the_first_version_count_too() {
        let member = "5:cpu,cpuacct:/x\n4:memory:/job_7\n0::/\n";
        let limits = [("memory/job_7/memory.limit_in_bytes", "3221225472\n")];
        assert_eq!(told(member, &limits), Some(3 * GIB));
        // A group without a limit says the largest number of pages.
        let limits = [("memory/job_7/memory.limit_in_bytes", "9223372036854771712\n")];
        assert_eq!(told(member, &limits), Some(64 * GIB));
    }
}
