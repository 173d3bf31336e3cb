//! SageMaker: a list of hosts and the name of this one.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::asking::{Outcome, Seen, parsed};
use super::error::{Error, Fault, quoted};
use super::json::Json;
use super::options::{Options, address, check_host};
use super::resolver::{Accelerators, ClusterResolver, DeviceCounts, MasterOf, with_layer};
use super::spec::ClusterSpec;

/// The variable that lists hosts.
pub const SM_HOSTS: &str = "SM_HOSTS";
/// The variable that names this host.
pub const SM_CURRENT_HOST: &str = "SM_CURRENT_HOST";
/// Where tasks listen unless told otherwise.
const PORT: u16 = 2223;
const JOB: &str = "worker";

/// Reads `SM_HOSTS` and `SM_CURRENT_HOST`. Hosts are numbered in the order of their names as texts, as
/// every peer does (`algo-10` before `algo-2`).
#[derive(Clone, Debug)]
pub struct SageMaker {
    /// Where each task listens.
    pub port: u16,
    /// The process's job, instead of `worker`.
    pub task_type: Option<String>,
    /// Its index, instead of the host's place.
    pub task_id: Option<u32>,
    /// The layer before addresses.
    pub rpc_layer: Option<String>,
    /// The environment's name.
    pub environment: Option<String>,
}

impl Default for SageMaker {
    fn default() -> Self {
        Self { port: PORT, task_type: None, task_id: None, rpc_layer: None, environment: None }
    }
}

impl SageMaker {
    pub(super) fn of(settings: &Json) -> Result<Self, Error> {
        let known = ["port", "task_type", "task_id", "rpc_layer", "environment"];
        let options = Options::of("sagemaker", settings, &known)?;
        Ok(Self {
            port: options.port_or("port", PORT)?,
            task_type: options.text("task_type")?,
            task_id: options.number("task_id")?,
            rpc_layer: options.text("rpc_layer")?,
            environment: options.text("environment")?,
        })
    }

    fn spec(&self, hosts: &Hosts) -> Result<ClusterSpec, Error> {
        if hosts.own.is_none() {
            return Ok(ClusterSpec::new());
        }
        ClusterSpec::dense(JOB, hosts.names.iter().map(|host| address(host, self.port)))
    }
}

/// The hosts in order, and this one's place among them.
pub(super) struct Hosts {
    pub(super) names: Vec<String>,
    pub(super) own: Option<u32>,
}

impl Hosts {
    pub(super) fn of(seen: &Seen) -> Result<Self, Error> {
        let wanted = "SageMaker sets it in each container of a job";
        let list = seen.variable(SM_HOSTS).ok_or_else(|| Error::missing(SM_HOSTS, wanted))?;
        let current = seen
            .variable(SM_CURRENT_HOST)
            .ok_or_else(|| Error::missing(SM_CURRENT_HOST, wanted))?;
        if list.is_empty() {
            return Ok(Self { names: Vec::new(), own: None });
        }
        let document = parsed(SM_HOSTS, list)?;
        let wrong = || {
            let wanted = format!("is {}: a list of host names is wanted", document.kind());
            Error::malformed(SM_HOSTS, &document.to_string(), &wanted)
        };
        let hosts = document.as_list().ok_or_else(wrong)?.iter();
        let names = hosts.map(|host| host.as_text().map(String::from));
        let mut names: Vec<String> = names.collect::<Option<_>>().ok_or_else(wrong)?;
        names.sort();
        if let Some(twice) = names.windows(2).find(|pair| pair.first() == pair.last()) {
            let name = twice.first().map_or("", String::as_str);
            let text = format!("the host {} is listed twice", quoted(name));
            return Err(Error::new(Fault::Conflict, SM_HOSTS, text));
        }
        for name in &names {
            check_host(SM_HOSTS, name)?;
        }
        let own = names.iter().position(|host| host == current);
        Ok(Self { own: own.and_then(|place| u32::try_from(place).ok()), names })
    }
}

impl ClusterResolver for SageMaker {
    fn name(&self) -> &'static str {
        "sagemaker"
    }

    fn cluster_spec(&mut self, seen: &Seen) -> Outcome<ClusterSpec> {
        Ok(self.spec(&Hosts::of(seen)?)?)
    }

    fn master(&mut self, seen: &Seen, of: &MasterOf<'_>) -> Outcome<String> {
        let spec = self.cluster_spec(seen)?;
        if super::tf_config::is_alone(&spec) {
            return Ok(String::new());
        }
        let own_type = self.task_type(seen)?;
        let own_id = self.task_id(seen)?;
        let task = of.task_type.or(own_type.as_deref()).zip(of.task_id.or(own_id));
        let Some((job, index)) = task else {
            let wanted =
                "the master of no particular task is asked for, and this host is in no list";
            return Err(Error::missing(SM_CURRENT_HOST, wanted).into());
        };
        let layer = of.rpc_layer.or(self.rpc_layer.as_deref());
        Ok(with_layer(spec.task_address(job, index)?, layer))
    }

    fn num_accelerators(
        &mut self,
        seen: &Seen,
        task_type: Option<&str>,
        task_id: Option<u32>,
        config: Option<&DeviceCounts>,
    ) -> Outcome<Accelerators> {
        let own_type = self.task_type(seen)?;
        let own_id = self.task_id(seen)?;
        let job = task_type.or(own_type.as_deref());
        super::accelerators::listed(seen, job, task_id.or(own_id), config)
    }

    fn task_type(&self, seen: &Seen) -> Outcome<Option<String>> {
        let hosts = Hosts::of(seen)?;
        Ok(self.task_type.clone().or_else(|| hosts.own.map(|_| JOB.into())))
    }

    fn task_id(&self, seen: &Seen) -> Outcome<Option<u32>> {
        let hosts = Hosts::of(seen)?;
        Ok(self.task_id.or(hosts.own))
    }

    fn rpc_layer(&self, seen: &Seen) -> Outcome<Option<String>> {
        Hosts::of(seen)?;
        Ok(self.rpc_layer.clone())
    }

    fn environment(&self, _: &Seen) -> Outcome<Option<String>> {
        Ok(self.environment.clone())
    }

    fn set_task_type(&mut self, task_type: &str) -> Result<(), Error> {
        self.task_type = Some(task_type.into());
        Ok(())
    }

    fn set_task_id(&mut self, task_id: u32) -> Result<(), Error> {
        self.task_id = Some(task_id);
        Ok(())
    }
}
