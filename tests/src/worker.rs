//! `rondo worker` as a process.

use std::process::Command;
use std::time::Duration;

use crate::process::{Ended, Process};
use crate::server::{port_in, without_settings};

/// How long a worker may take from its start until it is registered, and to its end.
const PATIENCE: Duration = Duration::from_secs(60);

/// A worker. It keeps its port, which is in its name, over restarts.
#[derive(Debug)]
pub struct Worker {
    process: Process,
    port: u16,
    dispatcher: String,
    flags: Vec<String>,
}

impl Worker {
    /// Starts a worker of the dispatcher at this address, with more flags, and waits until it is
    /// registered.
    ///
    /// # Panics
    /// When it is not.
    pub fn start(dispatcher: &str, flags: &[&str]) -> Self {
        let flags: Vec<String> = flags.iter().map(|&flag| flag.to_owned()).collect();
        let (process, port) = launch(dispatcher, 0, &flags);
        Self { process, port, dispatcher: dispatcher.to_owned(), flags }
    }

    /// Its name: where it listens.
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Its process.
    pub const fn process(&self) -> &Process {
        &self.process
    }

    /// Kills it as `kill -9` does.
    pub fn kill(&mut self) {
        self.process.kill();
    }

    /// Starts it again after its end, at the same address.
    ///
    /// # Panics
    /// When it does not register.
    pub fn start_again(&mut self) {
        let (process, port) = launch(&self.dispatcher, self.port, &self.flags);
        assert_eq!(port, self.port);
        self.process = process;
    }

    /// Sends it a signal by name, such as `TERM`.
    ///
    /// # Panics
    /// When it cannot be signalled.
    pub fn signal(&self, name: &str) {
        self.process.signal(name);
    }

    /// Waits for its end.
    ///
    /// # Panics
    /// When it doesn't end.
    pub fn wait(&mut self) -> Ended {
        self.process.wait(PATIENCE)
    }

    /// All it said since its last start.
    pub fn log(&self) -> String {
        self.process.log()
    }
}

fn launch(dispatcher: &str, port: u16, flags: &[String]) -> (Process, u16) {
    let mut command = Command::new(crate::binary::rondo());
    command.arg("worker");
    command.arg(format!("--server={dispatcher}"));
    command.arg(format!("--listen=127.0.0.1:{port}"));
    command.arg("--heartbeat-interval=200ms");
    command.args(flags);
    let process = Process::start("rondo worker", without_settings(&mut command));
    let line = process.line_with(" worker ready on ", PATIENCE);
    let line = line.unwrap_or_else(|| panic!("rondo worker ended:\n{}", process.log()));
    let port = port_in(&line).unwrap_or_else(|| panic!("no address in {line:?}"));
    (process, port)
}
