//! A process's place among all: who coordinates, how many there are, and which one asks.

use alloc::string::String;

use super::asking::Seen;
use super::error::Error;
use super::options::{address, port};

/// The first port that JAX's coordinator may have where its port is worked out of a job's id.
pub(super) const JAX_PORT_BASE: u16 = 61440;
/// How many ports it may have.
pub(super) const JAX_PORTS: u32 = 4096;
/// The variable that replaces the coordinator's port everywhere.
pub(super) const COORDINATOR_PORT: &str = "JAX_COORDINATOR_PORT";

/// What launchers tell a process of its place. What they do not tell is `None`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Process {
    /// Where process 0 listens, `HOST:PORT`.
    pub coordinator: Option<String>,
    /// Processes.
    pub size: Option<u32>,
    /// The process that asks, from 0.
    pub rank: Option<u32>,
    /// Its number among those of its host.
    pub local_rank: Option<u32>,
    /// Processes on its host.
    pub local_size: Option<u32>,
    /// Hosts.
    pub nodes: Option<u32>,
    /// Its host, from 0.
    pub node_rank: Option<u32>,
    /// Processes that are to be started on each host.
    pub per_node: Option<u32>,
}

/// Which of the devices that it sees a process uses. Devices are numbered in the order in which it sees them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum LocalDevices {
    /// The one at its local rank, which JAX takes where processes of a host see the same devices.
    #[default]
    OfLocalRank,
    /// The first so many: the launcher shows each process its own devices only.
    First(u32),
    /// All of them, as on a TPU machine.
    All,
}

/// The coordinator's address, its port replaced if [`COORDINATOR_PORT`] says so.
pub(super) fn coordinator_at(seen: &Seen, host: &str, default: u16) -> Result<String, Error> {
    let replaced = seen.filled(COORDINATOR_PORT).map(|text| port(COORDINATOR_PORT, text));
    Ok(address(host, replaced.transpose()?.unwrap_or(default)))
}
