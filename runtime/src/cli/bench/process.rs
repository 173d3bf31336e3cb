//! What the system says of a process: processor time and memory.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::time::Duration;

/// The unit of `/proc/PID/stat`: on Linux always 100 a second, whatever the kernel itself counts in.
const TICKS_PER_SECOND: u64 = 100;

/// A process of this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Process {
    pid: u32,
}

impl Process {
    /// The process of this number.
    pub(super) const fn of(pid: u32) -> Self {
        Self { pid }
    }

    /// This process.
    pub(super) fn this() -> Self {
        Self::of(std::process::id())
    }

    /// The process that listens on this TCP port, if this user may see it.
    pub(super) fn listening_on(port: u16) -> Option<Self> {
        let sockets = listening_sockets(port);
        let processes = fs::read_dir("/proc").ok()?.flatten();
        let found = processes
            .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
            .find(|pid| holds(*pid, &sockets));
        found.map(Self::of)
    }

    /// Its number.
    pub(super) const fn pid(self) -> u32 {
        self.pid
    }

    /// Processor time used so far by all its threads, in steps of 10 ms.
    pub(super) fn cpu(self) -> Option<Duration> {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.pid)).ok()?;
        cpu_of(&stat)
    }

    /// Memory it has in RAM now, in bytes.
    pub(super) fn resident_bytes(self) -> Option<u64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid)).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
        let kibibytes: u64 = line.split_whitespace().next()?.parse().ok()?;
        Some(kibibytes.saturating_mul(1024))
    }
}

/// User and system time. The program's name, in parentheses, may hold anything.
fn cpu_of(stat: &str) -> Option<Duration> {
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_whitespace().skip(11);
    let user: u64 = fields.next()?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    let ticks = user.saturating_add(system);
    Some(Duration::from_millis(ticks.saturating_mul(1000 / TICKS_PER_SECOND)))
}

/// The sockets that listen on a port, as the links in `/proc/PID/fd` name them.
fn listening_sockets(port: u16) -> BTreeSet<String> {
    let tables = ["/proc/net/tcp", "/proc/net/tcp6"].map(|path| fs::read_to_string(path).ok());
    let lines = tables.iter().flatten().flat_map(|table| table.lines());
    lines.filter_map(|line| listening_socket(line, port)).collect()
}

fn listening_socket(line: &str, port: u16) -> Option<String> {
    const LISTEN: &str = "0A";
    let fields: Vec<&str> = line.split_whitespace().collect();
    let (_, local_port) = fields.get(1)?.rsplit_once(':')?;
    let is_it = u16::from_str_radix(local_port, 16) == Ok(port) && *fields.get(3)? == LISTEN;
    is_it.then_some(format!("socket:[{}]", fields.get(9)?))
}

fn holds(pid: u32, sockets: &BTreeSet<String>) -> bool {
    let descriptors = fs::read_dir(Path::new("/proc").join(pid.to_string()).join("fd"));
    let links = descriptors
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| fs::read_link(entry.path()).ok());
    links.filter_map(|link| link.to_str().map(str::to_owned)).any(|link| sockets.contains(&link))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listener_is_found_by_its_port() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        assert_eq!(Process::listening_on(port), Some(Process::this()));
        drop(listener);
        assert_eq!(Process::listening_on(port), None);
    }

    #[test]
    fn time_is_read_behind_any_name() {
        let stat = "7 (a) b (c) S 1 7 7 0 -1 0 9 9 9 9 150 25 1 1 20 0 3 0 99";
        assert_eq!(cpu_of(stat), Some(Duration::from_millis(1750)));
    }

    #[test]
    fn this_process_has_memory_and_uses_time() {
        let this = Process::this();
        assert!(this.resident_bytes().unwrap() > 1 << 20);
        let before = this.cpu().unwrap();
        let mut sum = 0_u64;
        while this.cpu().unwrap() < before + Duration::from_millis(20) {
            sum = std::hint::black_box(sum.wrapping_add(1));
        }
    }
}
