//! Settings of a process of an exchange.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use rondo_core::exchange::member::{self, Identity};
use rondo_core::exchange::membership::Sizes;
use rondo_core::exchange::{Config, InstanceRank, Role};
use rondo_core::ids::Incarnation;
use rondo_core::status::{Code, Status};
use rondo_proto::convert::exchange::FrameLimits;

use super::engine::Engine;
use super::error::Error;
use super::folder::Folder;
use super::link::{Names, SharedMemory, Sharing, SystemNames, Tcp, Transport, Unix};
use super::process::Process;
use super::{engine, span};
use crate::arena::Allowance;
use crate::clock::Clock;
use crate::entropy::Entropy;
use crate::tensor::cuda::Cuda;

/// The settings of a process.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Server or worker.
    pub role: Role,
    /// The rank it wants among those of its role; `None` for any.
    pub rank: Option<InstanceRank>,
    /// How many there are.
    pub sizes: Sizes,
    /// Where the scheduler is: `host:port`.
    pub scheduler: String,
    /// The name or address by which other hosts know this one.
    pub host: String,
    /// The port that a server listens on; 0 for any.
    pub port: u16,
    /// Whether a server may listen where other machines can reach it: there is no TLS.
    pub insecure: bool,
    /// Bounds and spans.
    pub config: Config,
    /// Ways between processes.
    pub ways: Ways,
    /// Shared memory of all links together, in bytes of what this process sends; what finds none left goes
    /// over sockets.
    pub shared_bytes_max: u64,
    /// The GPUs that it exchanges tensors from and to; `None` for the host's memory alone.
    pub cuda: Option<Cuda>,
    /// How long a call that waits looks for what it waits for before it sleeps.
    pub spin: Duration,
    /// How long to wait until all processes have come; `None` for as long as it takes.
    pub join_timeout: Option<Duration>,
    /// How long the scheduler may be away until calls that need it fail; `None` for ever.
    pub scheduler_patience: Option<Duration>,
    /// Who knows the addresses of hosts.
    pub names: Arc<dyn Names>,
    /// How long the address of a host may be looked up.
    pub lookup_timeout: Duration,
    /// Its clock, which stamps count. Those of one exchange need not agree.
    pub clock: Clock,
}

/// Ways between processes. TCP is always there; processes of one host prefer the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ways {
    /// Whether Unix sockets are used.
    pub unix: bool,
    /// Shared memory for each direction of each link between processes of one host, in bytes; 0 for none.
    pub shared_bytes: u64,
}

impl Default for Ways {
    fn default() -> Self {
        Self { unix: true, shared_bytes: 256 << 20 }
    }
}

impl Settings {
    /// A process of this role, with defaults for everything that there is one for.
    pub fn new(role: Role, sizes: Sizes, scheduler: impl Into<String>) -> Self {
        Self {
            role,
            rank: None,
            sizes,
            scheduler: scheduler.into(),
            host: "127.0.0.1".into(),
            port: 0,
            insecure: false,
            config: Config::default(),
            ways: Ways::default(),
            shared_bytes_max: 4 << 30,
            cuda: None,
            spin: Duration::ZERO,
            join_timeout: None,
            scheduler_patience: Some(Duration::from_secs(60)),
            names: Arc::new(SystemNames),
            lookup_timeout: Duration::from_secs(5),
            clock: Clock::start(),
        }
    }

    /// The folder for a server's sockets; `None` if it has none there.
    fn folder(&self) -> Result<Option<Folder>, Status> {
        let has_sockets = self.ways.unix || self.ways.shared_bytes > 0;
        if self.role != Role::Server || !has_sockets {
            return Ok(None);
        }
        let parent = std::env::temp_dir();
        Folder::make(&parent).map(Some).map_err(|error| {
            let text = format!("no folder for sockets in {}: {error}", parent.display());
            Status::new(Code::Unavailable, text)
        })
    }

    /// Begins; the folder has this process' sockets.
    pub(super) fn start(&self) -> Result<(Engine<Process>, Option<Folder>), Error> {
        let folder = self.folder()?;
        let mut entropy = Entropy::from_system().map_err(|error| {
            Status::new(Code::Unavailable, format!("the system gives no randomness: {error}"))
        })?;
        let incarnation = Incarnation::new(entropy.next());
        let limits = self.limits();
        let mut transports: Vec<Arc<dyn Transport>> = Vec::new();
        let directory = folder.as_ref().map(Folder::path).unwrap_or_default();
        if self.ways.shared_bytes > 0 {
            let bytes = self.ways.shared_bytes;
            let (directory, devices) = (directory.clone(), Sharing::of(self.cuda.clone()));
            let allowance = Allowance::new(self.shared_bytes_max);
            let memory = SharedMemory { limits, directory, bytes, allowance, devices };
            transports.push(Arc::new(memory));
        }
        if self.ways.unix {
            transports.push(Arc::new(Unix { limits, directory }));
        }
        transports.push(Arc::new(Tcp { limits, insecure: self.insecure }));
        let mut refused = None;
        let clock = self.clock;
        let started = engine(self, transports, clock, |links| {
            let addresses = match self.role {
                Role::Server => links.listen(&self.host, self.port)?,
                _ => Vec::new(),
            };
            let process = self.process(incarnation, addresses, clock);
            process.map_err(|status| {
                refused = Some(status.clone());
                io::Error::other(status)
            })
        });
        match (started, refused) {
            (_, Some(status)) => Err(status.into()),
            (Ok(engine), None) => Ok((engine, folder)),
            (Err(error), None) => Err(error),
        }
    }

    fn process(
        &self,
        incarnation: Incarnation,
        addresses: Vec<Arc<str>>,
        clock: Clock,
    ) -> Result<Process, Status> {
        let identity = Identity {
            role: self.role,
            rank: self.rank,
            incarnation,
            addresses,
            host: this_host().into(),
            sizes: self.sizes,
        };
        let settings = member::Settings {
            identity,
            config: self.config.clone(),
            scheduler_patience: self.scheduler_patience.map(span),
        };
        Process::new(settings, &self.scheduler, self.limits(), clock)
    }

    /// What comes in one message. Links carry what the scheduler says, too, which may be longer.
    fn limits(&self) -> FrameLimits {
        FrameLimits {
            header_bytes_max: FrameLimits::of_scheduler().header_bytes_max,
            body_bytes_max: self.config.request_bytes_max,
            tensors_max: self.config.tensors_max,
        }
    }
}

/// A name of this host that no other has: that of its present boot. Where the system has none, processes do
/// not know that they share one.
fn this_host() -> String {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id");
    boot.map_or_else(|_| format!("process {}", std::process::id()), |id| id.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_servers_with_sockets_of_their_own_have_a_folder() {
        let sizes = Sizes { workers: 1, servers: 1, group: 1 };
        let has_folder = |role, ways| {
            let settings = Settings { ways, ..Settings::new(role, sizes, "127.0.0.1:1") };
            settings.folder().unwrap().is_some()
        };
        let (tcp, unix) = (Ways { unix: false, shared_bytes: 0 }, Ways::default());
        assert!(!has_folder(Role::Worker, unix));
        assert!(!has_folder(Role::Server, tcp));
        assert!(has_folder(Role::Server, unix));
        assert!(has_folder(Role::Server, Ways { shared_bytes: 1, ..tcp }));
    }
}
