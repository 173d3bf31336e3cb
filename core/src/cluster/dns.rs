//! DNS: the hosts behind a name, or its SRV records.

use alloc::string::{String, ToString};

use super::asking::{Outcome, Seen};
use super::error::{Error, Fault};
use super::json::Json;
use super::options::{Options, address};
use super::order::{indices, natural};
use super::resolver::{ClusterResolver, MasterOf, with_layer};
use super::spec::ClusterSpec;

const JOB: &str = "worker";

/// The hosts behind a name. Of SRV records each has its host and port; where all hosts' names end in numbers
/// of one set (`worker-3.svc`), those are the indices. Plain addresses are numbered in ascending order, which
/// changes when hosts come and go.
#[derive(Clone, Debug, Default)]
pub struct Dns {
    /// The name: a host's, or `_PORT._PROTOCOL.NAME` for SRV records.
    pub name: String,
    /// Where each task listens; unset: SRV records say.
    pub port: Option<u16>,
    /// The job that all are of; unset: `worker`.
    pub task_type: Option<String>,
    /// The process's index, if known.
    pub task_id: Option<u32>,
    /// The layer before addresses.
    pub rpc_layer: Option<String>,
}

impl Dns {
    pub(super) fn of(settings: &Json) -> Result<Self, Error> {
        let known = ["name", "port", "task_type", "task_id", "rpc_layer"];
        let options = Options::of("dns", settings, &known)?;
        let port = options.get("port").map(|_| options.port_or("port", 0)).transpose()?;
        let dns = Self {
            name: options.needed_text("name")?,
            port,
            task_type: options.text("task_type")?,
            task_id: options.number("task_id")?,
            rpc_layer: options.text_or("rpc_layer", "grpc")?,
        };
        if dns.port.is_none() && !dns.name.starts_with('_') {
            let wanted = "addresses of a host do not tell where tasks listen; SRV records of \
                          _PORT._PROTOCOL.NAME do";
            return Err(Error::missing("dns.port", wanted));
        }
        Ok(dns)
    }

    fn job(&self) -> &str {
        self.task_type.as_deref().unwrap_or(JOB)
    }

    fn by_service(&self, seen: &Seen) -> Outcome<ClusterSpec> {
        let mut found = seen.services(&self.name)?.to_vec();
        for service in &mut found {
            service.target = service.target.trim_end_matches('.').to_string();
        }
        // The root as a target says that there is no such service here (RFC 2782).
        found.retain(|service| !service.target.is_empty());
        found.sort_by(|left, right| {
            natural(&left.target, &right.target).then_with(|| left.port.cmp(&right.port))
        });
        found.dedup_by(|left, right| left.target == right.target && left.port == right.port);
        if found.is_empty() {
            let text =
                "the name has no SRV records, or none that names a host: no task is ready yet";
            return Err(Error::new(Fault::Unreachable, self.name.clone(), text).into());
        }
        let indices = indices(found.iter().map(|service| service.target.as_str()));
        let mut spec = ClusterSpec::new();
        for (index, service) in indices.into_iter().zip(&found) {
            let port = self.port.unwrap_or(service.port);
            spec.add_task(self.job(), index, address(&service.target, port))?;
        }
        Ok(spec)
    }
}

impl ClusterResolver for Dns {
    fn name(&self) -> &'static str {
        "dns"
    }

    fn cluster_spec(&mut self, seen: &Seen) -> Outcome<ClusterSpec> {
        match self.port {
            Some(port) if !self.name.starts_with('_') => {
                let hosts = seen.host(&self.name)?;
                let addresses = hosts.iter().map(|host| address(&host.to_string(), port));
                Ok(ClusterSpec::dense(self.job(), addresses)?)
            }
            _ => self.by_service(seen),
        }
    }

    fn master(&mut self, seen: &Seen, of: &MasterOf<'_>) -> Outcome<String> {
        let Some(index) = of.task_id.or(self.task_id) else { return Ok(String::new()) };
        let spec = self.cluster_spec(seen)?;
        let layer = of.rpc_layer.or(self.rpc_layer.as_deref());
        let job = of.task_type.unwrap_or(self.job());
        Ok(with_layer(spec.task_address(job, index)?, layer))
    }

    fn task_type(&self, _: &Seen) -> Outcome<Option<String>> {
        Ok(self.task_type.clone())
    }

    fn task_id(&self, _: &Seen) -> Outcome<Option<u32>> {
        Ok(self.task_id)
    }

    fn rpc_layer(&self, _: &Seen) -> Outcome<Option<String>> {
        Ok(self.rpc_layer.clone())
    }

    fn set_task_id(&mut self, task_id: u32) -> Result<(), Error> {
        self.task_id = Some(task_id);
        Ok(())
    }
}
