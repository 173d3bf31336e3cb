//! Processes of this very program: started, killed with SIGKILL and started again.

use std::fs::File;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::super::exit::{Exit, Failure};

/// How long a process may take until it listens.
const START_PATIENCE: Duration = Duration::from_secs(20);
/// Time between two looks whether it does.
const LOOK_INTERVAL: Duration = Duration::from_millis(5);

/// A process. It keeps its address over restarts, and ends with this one.
pub(in crate::cli) struct Member {
    name: String,
    address: SocketAddr,
    arguments: Vec<String>,
    log: PathBuf,
    process: Option<Child>,
}

impl Member {
    /// Starts `rondo` with what `arguments` makes of the address it shall listen on.
    ///
    /// # Errors
    /// When there is no port, no program, or no room for its log in `folder`.
    pub(in crate::cli) fn start(
        name: &str,
        folder: &Path,
        arguments: impl FnOnce(SocketAddr) -> Vec<String>,
    ) -> Result<Self, Failure> {
        let address = free_address().map_err(|error| failed(name, "find a port for", &error))?;
        let mut member = Self {
            name: name.to_owned(),
            address,
            arguments: arguments(address),
            log: folder.join(format!("{}.log", name.replace(' ', "-"))),
            process: None,
        };
        member.launch()?;
        Ok(member)
    }

    /// What it is called.
    pub(in crate::cli) fn name(&self) -> &str {
        &self.name
    }

    /// Where it listens.
    pub(in crate::cli) const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Its process, while it runs.
    pub(in crate::cli) fn pid(&self) -> Option<u32> {
        self.process.as_ref().map(Child::id)
    }

    /// Kills it as `kill -9` does, and starts nothing.
    ///
    /// # Errors
    /// When it cannot be killed.
    pub(in crate::cli) fn kill(&mut self) -> Result<(), Failure> {
        let Some(mut process) = self.process.take() else { return Ok(()) };
        let killed = process.kill().and_then(|()| process.wait());
        killed.map(drop).map_err(|error| failed(&self.name, "kill", &error))
    }

    /// Starts it with the same arguments as before.
    ///
    /// # Errors
    /// When there is no such program, or no room for its log.
    pub(in crate::cli) fn launch(&mut self) -> Result<(), Failure> {
        let started = self.spawn().map_err(|error| failed(&self.name, "start", &error))?;
        self.process = Some(started);
        Ok(())
    }

    fn spawn(&self) -> std::io::Result<Child> {
        let log = File::options().create(true).append(true).open(&self.log)?;
        let mut command = Command::new(std::env::current_exe()?);
        command.args(&self.arguments).stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        command.spawn()
    }

    /// Waits until it listens.
    ///
    /// # Errors
    /// When it ends instead, or takes too long; with the last lines of its log.
    pub(in crate::cli) async fn listening(&mut self) -> Result<(), Failure> {
        let began = Instant::now();
        while TcpStream::connect_timeout(&self.address, LOOK_INTERVAL).is_err() {
            let ended = self.process.as_mut().and_then(|process| process.try_wait().ok().flatten());
            if let Some(status) = ended {
                return Err(self.failure(&format!("ended with {status}")));
            }
            if began.elapsed() > START_PATIENCE {
                return Err(self.failure(&format!("does not listen on {}", self.address)));
            }
            tokio::time::sleep(LOOK_INTERVAL).await;
        }
        Ok(())
    }

    /// What went wrong with it, and the end of its log.
    fn failure(&self, what: &str) -> Failure {
        let log = std::fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = log.lines().rev().take(5).collect();
        let lines: Vec<&str> = lines.into_iter().rev().collect();
        let text = format!("the {} {what}; its log ends:\n{}", self.name, lines.join("\n"));
        Failure::new(Exit::Other, text)
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        // Nobody is left to hear that it could not be killed.
        let _ = self.kill();
    }
}

/// An address that nobody listens on.
fn free_address() -> std::io::Result<SocketAddr> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()
}

fn failed(name: &str, what: &str, error: &std::io::Error) -> Failure {
    Failure::new(Exit::Other, format!("cannot {what} the {name}: {error}"))
}
