//! The endpoints of a service, as its EndpointSlices list them.

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::super::asking::{Outcome, Seen};
use super::super::error::{Error, Fault};
use super::super::json::Json;
use super::super::options::{Options, address};
use super::super::order::{indices, natural, ordinal};
use super::super::resolver::{ClusterResolver, MasterOf, with_layer};
use super::super::spec::ClusterSpec;
use super::access::Access;
use super::pods::Unready;
use super::watching::Watch;

const JOB: &str = "worker";
const LABEL: &str = "kubernetes.io/service-name";

/// The endpoints of a service. Where each has a host name that ends in a number (StatefulSets, indexed
/// Jobs), that is its index; else they are numbered in the order of their names.
#[derive(Clone, Debug, Default)]
pub struct KubernetesService {
    /// The way to the API.
    pub access: Access,
    /// The service's name.
    pub service: String,
    /// The port's name; unset: the only one.
    pub port_name: Option<String>,
    /// What becomes of endpoints that are not ready.
    pub unready: Unready,
    /// The job that the tasks are of; unset: `worker`.
    pub task_type: Option<String>,
    /// The process's index, if known.
    pub task_id: Option<u32>,
    /// The layer before addresses.
    pub rpc_layer: Option<String>,
}

/// The families of addresses, in the order in which they are taken where a pod has several.
const FAMILIES: [&str; 3] = ["IPv4", "IPv6", "FQDN"];

struct Endpoint {
    /// Its host's name, or that of what it stands for; `None` where only its address is told.
    named: Option<String>,
    /// That name, or its address.
    name: String,
    /// `None` where it has none yet.
    address: Option<String>,
    port: u16,
    is_ready: bool,
    is_leaving: bool,
    family: usize,
}

impl KubernetesService {
    pub(in super::super) fn of(settings: &Json) -> Result<Self, Error> {
        let known = [
            "service",
            "port_name",
            "unready",
            "task_type",
            "task_id",
            "rpc_layer",
            "api_server",
            "namespace",
        ];
        let options = Options::of("kubernetes_service", settings, &known)?;
        let unready = [("refuse", Unready::Refuse), ("leave_out", Unready::LeaveOut)];
        Ok(Self {
            access: Access::of(&options)?,
            service: options.needed_text("service")?,
            port_name: options.text("port_name")?,
            unready: options.choice("unready", &unready)?.unwrap_or_default(),
            task_type: options.text("task_type")?,
            task_id: options.number("task_id")?,
            rpc_layer: options.text_or("rpc_layer", "grpc")?,
        })
    }

    /// Where its slices are listed, and behind which label selector.
    fn listed(&self, seen: &Seen) -> Outcome<(String, String)> {
        let path = self.access.path(seen, "/apis/discovery.k8s.io/v1", "endpointslices")?;
        Ok((path, format!("{LABEL}={}", self.service)))
    }

    /// One endpoint for each pod. Pods of a service of two families stand in a slice of each, and one that
    /// moves from slice to slice may stand in two.
    fn endpoints(&self, seen: &Seen) -> Outcome<Vec<Endpoint>> {
        let (path, selector) = self.listed(seen)?;
        let slices = self.access.list(seen, &path, &[("labelSelector", &selector)])?;
        let mut found = Vec::new();
        for slice in slices {
            let listed = slice.get("endpoints").and_then(Json::as_list).unwrap_or_default();
            if listed.is_empty() {
                continue;
            }
            let port = self.port_of(slice)?;
            let family = family_of(slice);
            let endpoints = listed.iter().map(|endpoint| Endpoint::of(endpoint, port, family));
            found.extend(endpoints.filter(Endpoint::has_a_place));
        }
        let families: BTreeSet<usize> = found.iter().map(|endpoint| endpoint.family).collect();
        if let (Some(nameless), 2..) =
            (found.iter().find(|endpoint| endpoint.named.is_none()), families.len())
        {
            let text = format!(
                "its slices have addresses of several families, and of the endpoint {:?} no name \
                 tells which of them are of one task",
                nameless.name
            );
            return Err(Error::new(Fault::Conflict, self.service.clone(), text).into());
        }
        let standing = |it: &Endpoint| (it.is_leaving, it.family, !it.is_ready);
        found.sort_by(|left, right| {
            let order = natural(&left.name, &right.name);
            order.then_with(|| standing(left).cmp(&standing(right)))
        });
        found.dedup_by(|later, first| later.name == first.name);
        Ok(found)
    }

    fn port_of(&self, slice: &Json) -> Result<u16, Error> {
        let ports = slice.get("ports").and_then(Json::as_list).unwrap_or_default();
        let is_wanted = |port: &&Json| match &self.port_name {
            None => ports.len() == 1,
            Some(name) => port.text_at(&["name"]) == Some(name),
        };
        let port = ports.iter().find(is_wanted).and_then(|port| port.get("port")?.as_u32());
        port.and_then(|port| u16::try_from(port).ok()).ok_or_else(|| {
            let wanted = match &self.port_name {
                Some(name) => format!("the service {:?} has no port {name:?}", self.service),
                None => format!(
                    "the service {:?} has {} ports: port_name has to say which",
                    self.service,
                    ports.len()
                ),
            };
            Error::new(Fault::NotPresent, "ports", wanted)
        })
    }

    fn job(&self) -> &str {
        self.task_type.as_deref().unwrap_or(JOB)
    }
}

/// A slice's family, as its place among [`FAMILIES`].
fn family_of(slice: &Json) -> usize {
    let told = slice.text_at(&["addressType"]).unwrap_or_default();
    FAMILIES.iter().position(|family| *family == told).unwrap_or_default()
}

impl Endpoint {
    fn of(endpoint: &Json, port: u16, family: usize) -> Self {
        let condition = |name: &str| endpoint.at(&["conditions", name]).and_then(Json::as_bool);
        let addresses = endpoint.get("addresses").and_then(Json::as_list).unwrap_or_default();
        let host = addresses.first().and_then(Json::as_text).filter(|host| !host.is_empty());
        let target = endpoint.text_at(&["targetRef", "name"]);
        let named = endpoint.text_at(&["hostname"]).or(target);
        Self {
            named: named.map(String::from),
            name: named.or(host).unwrap_or_default().into(),
            address: host.map(|host| address(host, port)),
            port,
            // Unset means ready.
            is_ready: condition("ready") != Some(false),
            is_leaving: condition("terminating") == Some(true),
            family,
        }
    }

    /// Whether it counts among the tasks. One that leaves does if its name is a place that the next pod
    /// takes, as in a StatefulSet; another one is replaced under another name.
    fn has_a_place(&self) -> bool {
        !self.is_leaving || self.named.as_deref().and_then(ordinal).is_some()
    }

    /// Why it cannot be talked to; `None` if it can.
    fn unready(&self) -> Option<&'static str> {
        if self.is_leaving {
            return Some("its pod is being deleted, and the next one is not there yet");
        }
        if !self.is_ready {
            return Some("its condition ready is false");
        }
        self.address.is_none().then_some("it has no address yet")
    }
}

impl ClusterResolver for KubernetesService {
    fn name(&self) -> &'static str {
        "kubernetes_service"
    }

    fn cluster_spec(&mut self, seen: &Seen) -> Outcome<ClusterSpec> {
        let endpoints = self.endpoints(seen)?;
        let indices = indices(endpoints.iter().map(|endpoint| endpoint.name.as_str()));
        let mut spec = ClusterSpec::new();
        spec.add_job(self.job())?;
        for (index, endpoint) in indices.into_iter().zip(&endpoints) {
            match (endpoint.unready(), &endpoint.address) {
                (None, Some(address)) => spec.add_task(self.job(), index, address.clone())?,
                (Some(why), _) if self.unready == Unready::Refuse => {
                    let about = format!("{}:{index}", self.job());
                    let text = format!(
                        "the endpoint {:?} (port {}) is not ready: {why}",
                        endpoint.name, endpoint.port
                    );
                    return Err(Error::new(Fault::NotReady, about, text).into());
                }
                _ => {}
            }
        }
        Ok(spec)
    }

    fn master(&mut self, seen: &Seen, of: &MasterOf<'_>) -> Outcome<String> {
        let Some(index) = of.task_id.or(self.task_id) else { return Ok(String::new()) };
        let job = String::from(of.task_type.unwrap_or(self.job()));
        let spec = self.cluster_spec(seen)?;
        let layer = of.rpc_layer.or(self.rpc_layer.as_deref());
        Ok(with_layer(spec.task_address(&job, index)?, layer))
    }

    fn watches(&self, seen: &Seen) -> Outcome<Vec<Watch>> {
        let (path, selector) = self.listed(seen)?;
        Ok(self.access.watch(seen, &path, &selector)?.into_iter().collect())
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
