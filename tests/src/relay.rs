//! `rondo relay` as a process.

use std::process::Command;
use std::time::Duration;

use crate::process::{Ended, Process};
use crate::server::{port_in, signal_twice, without_settings};

/// How long a relay may take from its start to its ready line, and to its end.
const PATIENCE: Duration = Duration::from_secs(30);

/// A relay on a port of its own.
#[derive(Debug)]
pub struct Relay {
    process: Process,
    port: u16,
}

impl Relay {
    /// Starts a relay for the server at this address.
    ///
    /// # Panics
    /// When it does not say that it is ready.
    pub fn start(upstream: &str) -> Self {
        Self::with(upstream, &[])
    }

    /// The same with more flags.
    ///
    /// # Panics
    /// When it does not say that it is ready.
    pub fn with(upstream: &str, flags: &[&str]) -> Self {
        let mut command = Command::new(crate::binary::rondo());
        command.args(["relay", "--listen=127.0.0.1:0", &format!("--upstream={upstream}")]);
        command.args(flags);
        let process = Process::start("rondo relay", without_settings(&mut command));
        let line = process.line_with(" relay ready on ", PATIENCE);
        let line = line.unwrap_or_else(|| panic!("rondo relay ended:\n{}", process.log()));
        let port = port_in(&line).unwrap_or_else(|| panic!("no address in {line:?}"));
        Self { process, port }
    }

    /// Where it listens, `host:port`.
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Its process.
    pub const fn process(&self) -> &Process {
        &self.process
    }

    /// Asks it to end, and waits until it did.
    ///
    /// # Panics
    /// When it doesn't end.
    pub fn terminate(&mut self) -> Ended {
        self.process.signal("TERM");
        self.process.wait(PATIENCE)
    }

    /// Sends it a signal twice, the second one once it has noticed the first, and waits until it ended.
    ///
    /// # Panics
    /// When it doesn't end.
    pub fn signal_twice(&mut self, name: &str) -> Ended {
        signal_twice(&mut self.process, name)
    }
}
