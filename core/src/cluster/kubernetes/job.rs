//! The pods of the process's own Job or JobSet, by the names that a headless service gives them.

use alloc::collections::BTreeMap;
use alloc::string::String;

use super::super::asking::{Outcome, Seen};
use super::super::error::Error;
use super::super::json::Json;
use super::super::options::{Options, address};
use super::super::process::{Process, coordinator_at};
use super::super::resolver::{ClusterResolver, MasterOf, with_layer};
use super::super::spec::ClusterSpec;
use super::access::{Access, HOST};
use super::children::{COMPLETION_INDEX, Family};

/// Where JAX's coordinator listens in a Job.
const COORDINATOR_PORT: u16 = 55527;
const PORT: u16 = 8470;

/// Whether the process runs in a pod.
pub(in super::super) fn is_there(seen: &Seen) -> bool {
    seen.variable(HOST).is_some()
}

/// Whether the pod is of an indexed Job.
pub(in super::super) fn is_job(seen: &Seen) -> bool {
    is_there(seen) && seen.filled(COMPLETION_INDEX).is_some()
}

/// The process's place in its Job, or JobSet, as the API tells it.
pub(in super::super) fn process(seen: &Seen, access: &Access) -> Outcome<Process> {
    let family = Family::of(seen, access)?;
    let first = family.children.first().map(|child| family.host(child, 0)).unwrap_or_default();
    let host = family.coordinator.clone().unwrap_or(first);
    // Peers could not reach a name that does not resolve here either.
    seen.host(&host)?;
    Ok(Process {
        coordinator: Some(coordinator_at(seen, &host, COORDINATOR_PORT)?),
        size: Some(family.size()),
        rank: Some(family.rank()),
        ..Process::default()
    })
}

/// The pods of the process's own Job, or of all Jobs of its JobSet, by name. A job of the spec is a
/// replicated job of the JobSet, or `worker`.
#[derive(Clone, Debug)]
pub struct KubernetesJob {
    /// The way to the API.
    pub access: Access,
    /// Where each task listens.
    pub port: u16,
    /// The layer before addresses.
    pub rpc_layer: Option<String>,
}

impl Default for KubernetesJob {
    fn default() -> Self {
        Self { access: Access::default(), port: PORT, rpc_layer: Some("grpc".into()) }
    }
}

impl KubernetesJob {
    pub(in super::super) fn of(settings: &Json) -> Result<Self, Error> {
        let known = ["port", "rpc_layer", "api_server", "namespace"];
        let options = Options::of("kubernetes_job", settings, &known)?;
        Ok(Self {
            access: Access::of(&options)?,
            port: options.port_or("port", PORT)?,
            rpc_layer: options.text_or("rpc_layer", "grpc")?,
        })
    }

    /// The spec, and the process's own task in it.
    fn resolved(&self, seen: &Seen) -> Outcome<(ClusterSpec, String, u32)> {
        let family = Family::of(seen, &self.access)?;
        let mut spec = ClusterSpec::new();
        let mut next: BTreeMap<&str, u32> = BTreeMap::new();
        let mut own = (String::new(), 0);
        for (place, child) in family.children.iter().enumerate() {
            let first = next.entry(&child.group).or_default();
            for index in 0..child.pods {
                let task = first.saturating_add(index);
                spec.add_task(&child.group, task, address(&family.host(child, index), self.port))?;
                if place == family.own && index == family.index {
                    own = (child.group.clone(), task);
                }
            }
            *first = first.saturating_add(child.pods);
        }
        Ok((spec, own.0, own.1))
    }
}

impl ClusterResolver for KubernetesJob {
    fn name(&self) -> &'static str {
        "kubernetes_job"
    }

    fn cluster_spec(&mut self, seen: &Seen) -> Outcome<ClusterSpec> {
        Ok(self.resolved(seen)?.0)
    }

    fn master(&mut self, seen: &Seen, of: &MasterOf<'_>) -> Outcome<String> {
        let (spec, job, index) = self.resolved(seen)?;
        let layer = of.rpc_layer.or(self.rpc_layer.as_deref());
        let task = (of.task_type.unwrap_or(&job), of.task_id.unwrap_or(index));
        Ok(with_layer(spec.task_address(task.0, task.1)?, layer))
    }

    fn task_type(&self, seen: &Seen) -> Outcome<Option<String>> {
        Ok(Some(self.resolved(seen)?.1))
    }

    fn task_id(&self, seen: &Seen) -> Outcome<Option<u32>> {
        Ok(Some(self.resolved(seen)?.2))
    }

    fn rpc_layer(&self, _: &Seen) -> Outcome<Option<String>> {
        Ok(self.rpc_layer.clone())
    }
}
