//! A server under measurement: where it listens, and what its process uses.

use std::net::{SocketAddr, ToSocketAddrs};
use std::time::Duration;

use super::super::exit::{Exit, Failure};
use super::figures::{Round, Server};
use super::load::Outcome;
use super::process::Process;
use super::rpc::Broken;

/// A server of this machine.
pub(super) struct Target {
    address: SocketAddr,
    process: Process,
    resident_before_bytes: u64,
    /// Calls are numbered through all rounds, so that no two registrations are alike.
    next_serial: u64,
}

impl Target {
    /// The server at `address`, of process `pid` or else of the one that listens there.
    ///
    /// # Errors
    /// When the address is not this machine's loopback, or there is no such process.
    pub(super) fn find(address: &str, pid: Option<u32>) -> Result<Self, Failure> {
        let usage = |text| Failure::new(Exit::Usage, text);
        let found = address.to_socket_addrs();
        let found = found.map_err(|error| usage(format!("{address:?}: {error}")))?;
        let loopback = found.into_iter().find(|found| found.ip().is_loopback());
        let address = loopback.ok_or_else(|| {
            usage(format!(
                "{address:?} is no loopback address: only this machine's own servers are measured"
            ))
        })?;
        let process = pid.map(Process::of).or_else(|| Process::listening_on(address.port()));
        let process = process.ok_or_else(|| {
            let text = format!("no process of yours listens on {address}; name its process");
            Failure::new(Exit::Unreachable, text)
        })?;
        let gone = || usage(format!("there is no process {}", process.pid()));
        Ok(Self {
            address,
            process,
            resident_before_bytes: process.resident_bytes().ok_or_else(gone)?,
            next_serial: 0,
        })
    }

    /// Where it listens.
    pub(super) const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Measures what `lay` lays on the server at the address it is given, with calls numbered from
    /// the number it is given, of which it takes at most `serials`.
    ///
    /// # Errors
    /// When the server is gone, or answers otherwise than it should.
    pub(super) async fn round<F: Future<Output = Result<Outcome, Broken>>>(
        &mut self,
        serials: u64,
        lay: impl FnOnce(SocketAddr, u64) -> F,
    ) -> Result<Round, Failure> {
        let before = (self.cpu()?, Process::this().cpu().unwrap_or_default());
        let outcome = lay(self.address, self.next_serial).await;
        let outcome = outcome.map_err(|error| unreachable(self.address, &error))?;
        let after = (self.cpu()?, Process::this().cpu().unwrap_or_default());
        self.next_serial = self.next_serial.saturating_add(serials);
        if let Some(refusal) = &outcome.refusal {
            let text = format!(
                "{} refused {} calls, the first with {refusal}",
                self.address, outcome.refused
            );
            return Err(Failure::new(Exit::Other, text));
        }
        let server = after.0.saturating_sub(before.0);
        let generator = after.1.saturating_sub(before.1);
        Ok(Round::of(&outcome, server, generator))
    }

    /// Processor time it has used so far.
    ///
    /// # Errors
    /// When it is gone.
    pub(super) fn cpu(&self) -> Result<Duration, Failure> {
        self.process.cpu().ok_or_else(|| self.gone())
    }

    /// Memory it has in RAM now, in bytes.
    ///
    /// # Errors
    /// When it is gone.
    pub(super) fn resident_bytes(&self) -> Result<u64, Failure> {
        self.process.resident_bytes().ok_or_else(|| self.gone())
    }

    fn gone(&self) -> Failure {
        let text = format!("{} (process {}) is gone", self.address, self.process.pid());
        Failure::new(Exit::Unreachable, text)
    }

    /// The server among the figures.
    pub(super) fn server(&self) -> Server {
        Server {
            address: self.address.to_string(),
            pid: self.process.pid(),
            resident_before_bytes: self.resident_before_bytes,
            resident_after_bytes: self.process.resident_bytes().unwrap_or_default(),
        }
    }
}

/// The failure to talk with the server at `address`.
pub(super) fn unreachable(address: SocketAddr, error: &Broken) -> Failure {
    Failure::new(Exit::Unreachable, format!("{address}: {error}"))
}
