//! Processes on TPU machines: one on each host of a slice, several slices joined by MegaScale's variables.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::super::asking::{Outcome, Seen};
use super::super::error::{Error, Fault};
use super::super::metadata;
use super::super::options::whole;
use super::super::process::{Process, coordinator_at};

const PORT: u16 = 8482;
const SKIP: &str = "TPU_SKIP_MDS_QUERY";
const WORKER_NUMBER: &str = "agent-worker-number";
const ENDPOINTS: &str = "worker-network-endpoints";
const WORKER_ID: &str = "TPU_WORKER_ID";
const HOSTS: [&str; 2] = ["TPU_PROCESS_ADDRESSES", "TPU_WORKER_HOSTNAMES"];
const COORDINATOR: &str = "MEGASCALE_COORDINATOR_ADDRESS";
const SLICES: &str = "MEGASCALE_NUM_SLICES";
const SLICE: &str = "MEGASCALE_SLICE_ID";

/// Whether this is a TPU machine of Compute Engine, by the metadata server.
pub(in super::super) fn is_gce(seen: &Seen) -> Outcome<bool> {
    Ok(seen.variable(SKIP).is_none()
        && seen.is_tpu_machine()?
        && metadata::attribute(seen, WORKER_NUMBER)?.is_some())
}

/// Whether this is a pod on a TPU machine.
pub(in super::super) fn is_gke(seen: &Seen) -> Outcome<bool> {
    Ok(HOSTS.iter().any(|name| seen.filled(name).is_some()) && seen.is_tpu_machine()?)
}

/// The place of a process on a TPU machine of Compute Engine.
pub(in super::super) fn gce_process(seen: &Seen) -> Outcome<Process> {
    let slices = Slices::of(seen)?;
    let number = metadata::needed(seen, &format!("instance/attributes/{WORKER_NUMBER}"))?;
    let listed = metadata::needed(seen, &format!("instance/attributes/{ENDPOINTS}"))?;
    let hosts = listed.split(',').map(gce_host).collect::<Result<Vec<_>, _>>()?;
    slices.process(seen, &hosts, whole(WORKER_NUMBER, &number)?)
}

/// The place of a process in a pod on a TPU machine.
pub(in super::super) fn gke_process(seen: &Seen) -> Outcome<Process> {
    let slices = Slices::of(seen)?;
    let listed = HOSTS.iter().find_map(|name| seen.filled(name));
    let listed = listed.ok_or_else(|| Error::missing(HOSTS[1], "a list of hosts is wanted"))?;
    let wanted = "Kubernetes Engine sets it in each pod on a TPU machine";
    let number = seen.filled(WORKER_ID).ok_or_else(|| Error::missing(WORKER_ID, wanted))?;
    let hosts = hosts_of(listed)?;
    slices.process(seen, &hosts, whole(WORKER_ID, number)?)
}

/// Reads a list of hosts with commas between them. Commas after the last host do not count.
fn hosts_of(listed: &str) -> Result<Vec<&str>, Error> {
    let hosts: Vec<&str> = listed.trim().trim_end_matches(',').split(',').map(str::trim).collect();
    match hosts.iter().any(|host| host.is_empty()) {
        true => Err(Error::malformed(HOSTS[1], listed, "has a comma without a host before it")),
        false => Ok(hosts),
    }
}

/// A host, or the third part of `NAME:ID:HOST`. An IPv6 address is a host, alone or as that part.
fn gce_host(text: &str) -> Result<&str, Error> {
    let text = text.trim();
    if text.parse::<core::net::Ipv6Addr>().is_ok() {
        return Ok(text);
    }
    let host = match text.splitn(3, ':').collect::<Vec<_>>().as_slice() {
        [host] => host.trim(),
        [name, _, host] if !name.is_empty() => host.trim(),
        _ => "",
    };
    let is_host = !host.contains(':') || host.parse::<core::net::Ipv6Addr>().is_ok();
    match host.is_empty() || !is_host {
        true => Err(Error::malformed(ENDPOINTS, text, "is neither HOST nor NAME:ID:HOST")),
        false => Ok(host),
    }
}

/// How slices are joined.
struct Slices {
    coordinator: Option<String>,
    count: u32,
    own: u32,
}

impl Slices {
    fn of(seen: &Seen) -> Outcome<Self> {
        let number = |name: &str, default: u32| match setting(seen, name)? {
            Some(text) => Ok::<_, super::super::asking::Stop>(whole(name, &text)?),
            None => Ok(default),
        };
        let slices = Self {
            coordinator: setting(seen, COORDINATOR)?,
            count: number(SLICES, 1)?,
            own: number(SLICE, 0)?,
        };
        if slices.own >= slices.count {
            let wanted = format!("is no slice of {} ({SLICES})", slices.count);
            return Err(Error::malformed(SLICE, &slices.own.to_string(), &wanted).into());
        }
        Ok(slices)
    }

    fn process(&self, seen: &Seen, hosts: &[&str], worker: u32) -> Outcome<Process> {
        let workers = u32::try_from(hosts.len()).unwrap_or(u32::MAX);
        if worker >= workers {
            let wanted = format!("is no worker of a slice of {workers}");
            return Err(Error::malformed("worker", &worker.to_string(), &wanted).into());
        }
        let first = hosts.first().copied().unwrap_or_default();
        let host = host_of(self.coordinator.as_deref().unwrap_or(first));
        // Peers could not reach a name that does not resolve here either.
        seen.host(host)?;
        let size = workers.checked_mul(self.count).ok_or_else(|| {
            let text = format!("{} slices of {workers} workers are too many", self.count);
            Error::new(Fault::TooLarge, SLICES, text)
        })?;
        Ok(Process {
            coordinator: Some(coordinator_at(seen, host, PORT)?),
            size: Some(size),
            rank: Some(workers.saturating_mul(self.own).saturating_add(worker)),
            ..Process::default()
        })
    }
}

/// An address without its port.
fn host_of(address: &str) -> &str {
    if let Some((host, _)) = address.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        return host;
    }
    match address.split_once(':') {
        Some((host, port)) if !port.contains(':') => host,
        _ => address,
    }
}

/// A variable, of the environment or of the lines `NAME: 'VALUE'` of the instance's attribute `tpu-env`.
fn setting(seen: &Seen, name: &str) -> Outcome<Option<String>> {
    if let Some(value) = seen.variable(name) {
        return Ok(Some(value.into()).filter(|value: &String| !value.is_empty()));
    }
    if seen.variable(SKIP).is_some() {
        return Ok(None);
    }
    let Some(lines) = metadata::attribute(seen, "tpu-env")? else { return Ok(None) };
    let found = lines.lines().find_map(|line| {
        let (known, value) = line.split_once(':')?;
        (known.trim() == name).then(|| value.trim().trim_matches(['\'', '"']).to_string())
    });
    Ok(found.filter(|value| !value.is_empty()))
}
