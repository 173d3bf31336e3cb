//! The workers of a TPU.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::super::accelerators::DeviceName;
use super::super::asking::{Outcome, Seen};
use super::super::error::{Error, Fault, quoted};
use super::super::json::Json;
use super::super::options::{Options, address, port};
use super::super::question::{Credentials, Http};
use super::super::resolver::{Accelerators, ClusterResolver, DeviceCounts, MasterOf, with_layer};
use super::super::spec::ClusterSpec;
use super::name::{Target, node_name};

const API: &str = "https://tpu.googleapis.com";
const JOB: &str = "worker";
const KIND: &str = "TPU";

/// The workers of a TPU: those it is given as addresses, or those of a node of the API.
#[derive(Clone, Debug)]
pub struct Tpu {
    /// A node's name, `grpc://` and addresses, or `local`; unset: as variables say.
    pub tpu: Option<String>,
    /// The project; unset: the machine's own.
    pub project: Option<String>,
    /// The zone; unset: the machine's own.
    pub zone: Option<String>,
    /// The job of the workers.
    pub job_name: String,
    /// A job of one task beside them, and its address.
    pub coordinator: Option<(String, String)>,
    /// The API's URL without a path.
    pub api_server: String,
}

impl Default for Tpu {
    fn default() -> Self {
        Self {
            tpu: None,
            project: None,
            zone: None,
            job_name: JOB.into(),
            coordinator: None,
            api_server: API.into(),
        }
    }
}

impl Tpu {
    pub(in super::super) fn of(settings: &Json) -> Result<Self, Error> {
        let known = [
            "tpu",
            "project",
            "zone",
            "job_name",
            "coordinator_name",
            "coordinator_address",
            "api_server",
        ];
        let options = Options::of("tpu", settings, &known)?;
        let name = options.text("coordinator_name")?;
        let address = options.text("coordinator_address")?;
        if name.is_some() && address.is_none() {
            let wanted = "a coordinator needs an address: no server is started for it";
            return Err(Error::missing("tpu.coordinator_address", wanted));
        }
        Ok(Self {
            tpu: one_name(&options)?,
            project: options.text("project")?,
            zone: options.text("zone")?,
            job_name: options.text("job_name")?.unwrap_or_else(|| JOB.into()),
            coordinator: name.zip(address),
            api_server: options.text("api_server")?.unwrap_or_else(|| API.into()),
        })
    }

    fn workers(&self, seen: &Seen) -> Outcome<Option<Vec<String>>> {
        match Target::of(seen, self.tpu.as_deref())? {
            Target::Local => Ok(None),
            Target::Addresses(found) => Ok(Some(found)),
            Target::Node { name, project, zone } => {
                let project = self.project.as_ref().or(project.as_ref());
                let zone = self.zone.as_ref().or(zone.as_ref());
                let name = node_name(seen, &name, project, zone)?;
                let url = format!("{}/v1/{name}", self.api_server.trim_end_matches('/'));
                let credentials = Credentials::Google;
                let request = Http { body: None, url, headers: Vec::new(), credentials };
                Ok(Some(endpoints(&name, &request.url, seen.document(&request)?)?))
            }
        }
    }
}

/// A name, or a list of one.
fn one_name(options: &Options<'_>) -> Result<Option<String>, Error> {
    let Some(Json::List(names)) = options.get("tpu") else {
        return Ok(options.text("tpu")?.filter(|name| !name.is_empty()));
    };
    match names.as_slice() {
        [Json::Text(name)] => Ok(Some(name.clone())),
        [] => Err(Error::missing("tpu.tpu", "the list of TPUs is empty")),
        names => {
            let text = format!("a list of {} where one TPU's name is wanted", names.len());
            Err(Error::new(Fault::Unsupported, "tpu.tpu", text))
        }
    }
}

fn endpoints(name: &str, url: &str, node: &Json) -> Result<Vec<String>, Error> {
    let state = node.text_at(&["state"]).unwrap_or("unknown");
    if state != "READY" {
        let text = format!("its state is {}, not READY", quoted(state));
        return Err(Error::new(Fault::NotReady, name, text));
    }
    let one = [node.clone()];
    let listed = node.get("networkEndpoints").and_then(Json::as_list);
    let entries = listed.filter(|listed| !listed.is_empty()).unwrap_or(&one);
    let address_of = |entry: &Json| {
        let missing = |field: &str| {
            Error::new(Fault::NotReady, name, format!("an endpoint of the node has no {field}"))
        };
        let host = entry.text_at(&["ipAddress"]).ok_or_else(|| missing("ipAddress"))?;
        let number = match entry.get("port").ok_or_else(|| missing("port"))? {
            Json::Text(text) | Json::Number(text) => text,
            _ => return Err(missing("port")),
        };
        let number = port("networkEndpoints[].port", number);
        Ok(address(host, number.map_err(|error| error.answered_by(url))?))
    };
    entries.iter().map(address_of).collect()
}

impl ClusterResolver for Tpu {
    fn name(&self) -> &'static str {
        "tpu"
    }

    fn cluster_spec(&mut self, seen: &Seen) -> Outcome<ClusterSpec> {
        let Some(workers) = self.workers(seen)? else { return Ok(ClusterSpec::new()) };
        let mut spec = ClusterSpec::dense(&self.job_name, workers)?;
        if let Some((job, address)) = &self.coordinator {
            spec.add_task(job, 0, address.clone())?;
        }
        Ok(spec)
    }

    fn master(&mut self, seen: &Seen, of: &MasterOf<'_>) -> Outcome<String> {
        let spec = self.cluster_spec(seen)?;
        if spec.is_empty() {
            return Ok(String::new());
        }
        let job = of.task_type.unwrap_or(&self.job_name);
        // The layer asked for is not heeded: TPUs speak gRPC.
        Ok(with_layer(spec.task_address(job, of.task_id.unwrap_or_default())?, Some("grpc")))
    }

    fn num_accelerators(
        &mut self,
        seen: &Seen,
        _: Option<&str>,
        _: Option<u32>,
        config: Option<&DeviceCounts>,
    ) -> Outcome<Accelerators> {
        let mut hosts: BTreeMap<u32, u32> = BTreeMap::new();
        for device in seen.devices()? {
            let device = DeviceName::of(device);
            if device.kind == Some(KIND)
                && let Some(task) = device.task
            {
                *hosts.entry(task).or_default() += 1;
            }
        }
        let each = hosts.values().next().copied().unwrap_or_default();
        if let Some((task, other)) = hosts.iter().find(|(_, count)| **count != each) {
            let text =
                format!("task {task} has {other} TPU cores, others {each}: all must have as many");
            return Err(Error::new(Fault::Conflict, "devices", text).into());
        }
        let most = config.and_then(|config| config.get(KIND)).copied().unwrap_or(u32::MAX);
        Ok(BTreeMap::from([(KIND.to_string(), each.min(most))]))
    }

    fn task_type(&self, _: &Seen) -> Outcome<Option<String>> {
        Ok(Some(self.job_name.clone()))
    }

    fn task_id(&self, _: &Seen) -> Outcome<Option<u32>> {
        Ok(Some(0))
    }

    fn rpc_layer(&self, _: &Seen) -> Outcome<Option<String>> {
        Ok(Some("grpc".into()))
    }
}
