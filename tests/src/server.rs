//! `rondo serve` as a process with a data directory of its own.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::binary;
use crate::dispatcher::Dispatcher;
use crate::process::{Ended, Process};

/// How long a server may take from its start to its ready line.
const START_PATIENCE: Duration = Duration::from_secs(30);
/// How long an ended or ending process may linger.
const END_PATIENCE: Duration = Duration::from_secs(30);

/// What a server is started with.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where the journal lies: `sled` or `segment`.
    pub store: &'static str,
    /// More flags, such as `--client-timeout=1000ms`.
    pub flags: Vec<String>,
}

impl Options {
    /// The given store, and nothing else but defaults.
    pub fn store(store: &'static str) -> Self {
        Self { store, flags: Vec::new() }
    }

    /// With one more flag.
    #[must_use]
    pub fn flag(mut self, flag: &str) -> Self {
        self.flags.push(flag.into());
        self
    }
}

/// A server. It keeps its port and its data over restarts, and both end with it.
#[derive(Debug)]
pub struct Server {
    process: Process,
    port: u16,
    options: Options,
    folder: TempDir,
}

impl Server {
    /// Starts a server on a free port with a fresh data directory.
    ///
    /// # Panics
    /// When it does not say that it is ready.
    pub fn start(options: &Options) -> Self {
        let folder = TempDir::new().expect("there is room for temporary files");
        let (process, port) = launch(&data(folder.path()), 0, options).unwrap_or_else(|ended| {
            panic!("rondo serve ended with {}:\n{}", ended.status, ended.log)
        });
        Self { process, port, options: options.clone(), folder }
    }

    /// Where it listens, `host:port`.
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Its data directory.
    pub fn data(&self) -> PathBuf {
        data(self.folder.path())
    }

    /// A client of its dispatcher.
    pub fn dispatcher(&self) -> Dispatcher {
        Dispatcher::connect(&self.address())
    }

    /// Kills it as `kill -9` does.
    pub fn kill(&mut self) {
        self.process.kill();
    }

    /// Starts it again after its end, on the same port and data.
    ///
    /// # Panics
    /// When it does not say that it is ready.
    pub fn start_again(&mut self) {
        let began = Instant::now();
        while let Err(ended) = self.try_again() {
            // A client that dials a port of its own range again and again may get it for a moment.
            let taken = ended.log.contains(&format!("port {} on 127.0.0.1 is in use", self.port));
            let (status, log) = (ended.status, ended.log);
            let patient = taken && began.elapsed() < START_PATIENCE;
            assert!(patient, "rondo serve did not start again, {status}:\n{log}");
            thread::sleep(Duration::from_millis(100));
        }
    }

    /// Starts it again after its end, on the same port and data.
    ///
    /// # Errors
    /// Its end, if it does not come up.
    pub fn try_again(&mut self) -> Result<(), Ended> {
        let (process, port) = launch(&self.data(), self.port, &self.options)?;
        assert_eq!(port, self.port, "the server took another port than it was told");
        self.process = process;
        Ok(())
    }

    /// Starts it after its end and kills it again, wherever it has got to by then.
    pub fn start_and_kill_after(&self, life: Duration) {
        let mut command = command(&self.data(), self.port, &self.options);
        let mut process = Process::start("rondo serve, to be killed at once", &mut command);
        thread::sleep(life);
        process.kill();
    }

    /// Sends it a signal by name, such as `STOP`.
    ///
    /// # Panics
    /// When it cannot be signalled.
    pub fn signal(&self, name: &str) {
        self.process.signal(name);
    }

    /// What it is started with from the next start on.
    pub fn set_options(&mut self, options: &Options) {
        self.options = options.clone();
    }

    /// Asks it to end, and waits until it did.
    ///
    /// # Panics
    /// When it doesn't end.
    pub fn terminate(&mut self) -> Ended {
        self.process.signal("TERM");
        self.process.wait(END_PATIENCE)
    }

    /// Sends it a signal twice, the second one once it has noticed the first, and waits until it ended.
    ///
    /// # Panics
    /// When it doesn't end.
    pub fn signal_twice(&mut self, name: &str) -> Ended {
        signal_twice(&mut self.process, name)
    }

    /// Memory it has resident, in KiB.
    ///
    /// # Panics
    /// When it does not run.
    pub fn resident_kib(&self) -> u64 {
        self.process.resident_kib()
    }

    /// The most memory it had resident since its start, or since [`Server::forget_peak`], in KiB.
    ///
    /// # Panics
    /// When it does not run.
    pub fn peak_kib(&self) -> u64 {
        self.process.peak_kib()
    }

    /// Lets [`Server::peak_kib`] count from now on.
    ///
    /// # Panics
    /// When it does not run.
    pub fn forget_peak(&self) {
        self.process.forget_peak();
    }

    /// Processor time that all its threads have used, in steps of 10 ms: the unit of `/proc/PID/stat`.
    ///
    /// # Panics
    /// When it does not run.
    pub fn processor_time(&self) -> Duration {
        let path = format!("/proc/{}/stat", self.process.id());
        let stat = std::fs::read_to_string(path).expect("it runs");
        // The program's name, in parentheses, may hold anything; user and system time are fields 14 and 15.
        let (_, fields) = stat.rsplit_once(')').expect("a name");
        let ticks = fields.split_whitespace().skip(11).take(2);
        Duration::from_millis(ticks.map(|ticks| 10 * ticks.parse::<u64>().expect("a number")).sum())
    }

    /// Its process.
    pub const fn process(&self) -> &Process {
        &self.process
    }

    /// All it said since its last start.
    pub fn log(&self) -> String {
        self.process.log()
    }
}

fn data(folder: &Path) -> PathBuf {
    folder.join("data")
}

/// The command that serves `data` on `port`.
pub fn command(data: &Path, port: u16, options: &Options) -> Command {
    let mut command = Command::new(binary::rondo());
    command.arg("serve");
    command.arg(format!("--listen=127.0.0.1:{port}"));
    command.arg(format!("--store={}", options.store));
    command.arg("--data").arg(data);
    command.args(&options.flags);
    without_settings(&mut command);
    command
}

/// A developer's settings are not the test's.
pub(crate) fn without_settings(command: &mut Command) -> &mut Command {
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("RONDO_") {
            command.env_remove(name);
        }
    }
    command
}

/// Starts a server and waits for its ready line, or for its end.
fn launch(data: &Path, port: u16, options: &Options) -> Result<(Process, u16), Ended> {
    let mut process = Process::start("rondo serve", &mut command(data, port, options));
    match process.line_with(" ready on ", START_PATIENCE) {
        Some(line) => {
            let port =
                port_in(&line).unwrap_or_else(|| panic!("no address in the ready line {line:?}"));
            Ok((process, port))
        }
        None => Err(process.wait(END_PATIENCE)),
    }
}

/// The port in `rondo <version> ready on host:port (…)`.
pub(crate) fn port_in(line: &str) -> Option<u16> {
    let address = line.split(" ready on ").nth(1)?.split_whitespace().next()?;
    address.trim_end_matches(',').rsplit(':').next()?.parse().ok()
}

/// Sends a process a signal twice, the second one once it has noticed the first, and waits until it ended.
pub(crate) fn signal_twice(process: &mut Process, name: &str) -> Ended {
    process.signal(name);
    let began = Instant::now();
    while !process.log().contains("asked to stop") {
        assert!(began.elapsed() < END_PATIENCE, "it did not notice:\n{}", process.log());
        thread::sleep(Duration::from_millis(5));
    }
    process.signal(name);
    process.wait(END_PATIENCE)
}

/// Runs `rondo` with these arguments to its end.
///
/// # Panics
/// When it doesn't end.
pub fn run(arguments: &[&str]) -> Ended {
    let mut command = Command::new(binary::rondo());
    command.args(arguments);
    run_command(&mut command)
}

/// Runs a command of the binary to its end.
///
/// # Panics
/// When it doesn't end.
pub fn run_command(command: &mut Command) -> Ended {
    Process::start("rondo", command).wait(END_PATIENCE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ready_line_tells_the_port() {
        assert_eq!(port_in("rondo 0.1.0 ready on 127.0.0.1:5050 (data x)"), Some(5050));
        assert_eq!(port_in("rondo 0.1.0 ready on [::1]:5050"), Some(5050));
        assert_eq!(port_in("rondo 0.1.0 ready"), None);
    }
}
