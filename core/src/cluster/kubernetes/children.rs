//! The Job that a pod is of, and its siblings in a JobSet.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::super::asking::{Outcome, Seen};
use super::super::error::{Error, Fault, quoted};
use super::super::json::Json;
use super::super::options::whole;
use super::super::url::with_query;
use super::access::Access;
use crate::limits::CLUSTER_TASKS_MAX;

const JOBSET: &str = "jobset.sigs.k8s.io/jobset-name";
const GROUP: &str = "jobset.sigs.k8s.io/replicatedjob-name";
const GLOBAL_INDEX: &str = "jobset.sigs.k8s.io/job-global-index";
const GLOBAL_REPLICAS: &str = "jobset.sigs.k8s.io/global-replicas";
const COORDINATOR: &str = "jobset.sigs.k8s.io/coordinator";
/// The environment's word for a pod's place in its Job.
pub(super) const COMPLETION_INDEX: &str = "JOB_COMPLETION_INDEX";

/// A Job of the process's cluster.
#[derive(Clone, Debug)]
pub(super) struct Child {
    pub(super) name: String,
    /// What tasks of it are called: the name of the replicated job, or `worker`.
    pub(super) group: String,
    pub(super) pods: u32,
    global_index: u32,
}

/// The Jobs in order, and the process's place among their pods.
#[derive(Clone, Debug)]
pub(super) struct Family {
    pub(super) children: Vec<Child>,
    /// Which one is the process's own.
    pub(super) own: usize,
    /// Its pod's place in that one.
    pub(super) index: u32,
    /// What follows `POD.` in the pods' host names.
    pub(super) domain: String,
    /// The coordinator's host, where the JobSet says.
    pub(super) coordinator: Option<String>,
}

impl Family {
    pub(super) fn of(seen: &Seen, access: &Access) -> Outcome<Self> {
        let pod = own_pod(seen, access)?;
        let job = own_job(seen, access, pod)?;
        check_owner(pod)?;
        let text = seen.filled(COMPLETION_INDEX).ok_or_else(|| {
            let wanted = "the Job has to be an indexed one (completionMode: Indexed)";
            Error::missing(COMPLETION_INDEX, wanted)
        })?;
        let index = whole(COMPLETION_INDEX, text)?;
        let set = marked(job, JOBSET).map(ToString::to_string);
        let domain = match &set {
            Some(set) => set.clone(),
            None => subdomain(seen, access, pod)?,
        };
        let replicas = marked(job, GLOBAL_REPLICAS).map(|text| whole(GLOBAL_REPLICAS, text));
        let jobs = access.path(seen, "/apis/batch/v1", "jobs")?;
        let own = Child::of(job).map_err(|error| access.blame(seen, &jobs, error))?;
        let children = match (set, replicas.transpose()?) {
            (Some(set), Some(2..)) => siblings(seen, access, &set)?,
            _ => alloc::vec![own.clone()],
        };
        let place = children.iter().position(|child| child.name == own.name);
        let missing = || {
            let text = format!("the JobSet's list of Jobs lacks the process's own, {:?}", own.name);
            Error::new(Fault::NotReady, JOBSET, text)
        };
        let own_place = place.ok_or_else(missing)?;
        if index >= own.pods {
            let wanted = format!("is no place in a Job of {} pods", own.pods);
            return Err(Error::malformed(COMPLETION_INDEX, text, &wanted).into());
        }
        let coordinator = marked(job, COORDINATOR).map(ToString::to_string);
        Ok(Self { children, own: own_place, index, domain, coordinator })
    }

    /// Pods of all Jobs.
    pub(super) fn size(&self) -> u32 {
        self.children.iter().fold(0, |size, child| size.saturating_add(child.pods))
    }

    /// The process's place among all pods.
    pub(super) fn rank(&self) -> u32 {
        let before = self.children.iter().take(self.own);
        before.fold(self.index, |rank, child| rank.saturating_add(child.pods))
    }

    pub(super) fn host(&self, child: &Child, index: u32) -> String {
        format!("{}-{index}.{}", child.name, self.domain)
    }
}

impl Child {
    fn of(job: &Json) -> Result<Self, Error> {
        let name = job.text_at(&["metadata", "name"]).unwrap_or_default();
        let pods = job.at(&["spec", "parallelism"]).map_or(Some(1), Json::as_u32);
        let pods = pods.filter(|pods| (1..=CLUSTER_TASKS_MAX).contains(&(*pods as usize)));
        let pods = pods.ok_or_else(|| {
            let found = job.at(&["spec", "parallelism"]).map(ToString::to_string);
            let wanted = format!("is no number of pods: 1 to {CLUSTER_TASKS_MAX} are allowed");
            let about = format!("spec.parallelism of the Job {name:?}");
            Error::malformed(about, &found.unwrap_or_default(), &wanted)
        })?;
        let place = marked(job, GLOBAL_INDEX).map(|text| whole(GLOBAL_INDEX, text)).transpose()?;
        Ok(Self {
            name: name.into(),
            group: marked(job, GROUP).unwrap_or("worker").into(),
            pods,
            global_index: place.unwrap_or_default(),
        })
    }
}

/// A label or an annotation of that name.
fn marked<'a>(object: &'a Json, name: &str) -> Option<&'a str> {
    let found =
        ["labels", "annotations"].iter().find_map(|at| object.text_at(&["metadata", at, name]));
    found.filter(|text| !text.is_empty())
}

fn own_pod<'a>(seen: &'a Seen, access: &Access) -> Outcome<&'a Json> {
    let name = seen
        .filled("HOSTNAME")
        .ok_or_else(|| Error::missing("HOSTNAME", "a pod's host name is that of the pod"))?;
    let own = seen.host(name)?;
    let ip = own.first().map(ToString::to_string).unwrap_or_default();
    let path = access.path(seen, "/api/v1", "pods")?;
    let field = format!("status.podIP={ip}");
    let request = access.get(seen, &with_query(&path, &[("fieldSelector", &field)]))?;
    let list = seen.document(&request)?;
    match list.get("items").and_then(Json::as_list).unwrap_or_default() {
        [pod] => Ok(pod),
        pods => {
            let text = format!("{} pods have the address {ip}, and not one", pods.len());
            Err(Error::new(Fault::Conflict, path, text).into())
        }
    }
}

fn own_job<'a>(seen: &'a Seen, access: &Access, pod: &Json) -> Outcome<&'a Json> {
    let labels = ["batch.kubernetes.io/job-name", "job-name"];
    let name = labels.iter().find_map(|label| pod.text_at(&["metadata", "labels", label]));
    let name = name.ok_or_else(|| {
        Error::new(
            Fault::NotPresent,
            "job-name",
            "the process's pod has no such label: it is of no Job",
        )
    })?;
    let path = access.path(seen, "/apis/batch/v1", "jobs")?;
    let name = super::super::url::encoded(name);
    seen.document(&access.get(seen, &format!("{path}/{name}"))?)
}

fn check_owner(pod: &Json) -> Result<(), Error> {
    let owners =
        pod.at(&["metadata", "ownerReferences"]).and_then(Json::as_list).unwrap_or_default();
    let controller =
        owners.iter().find(|owner| owner.get("controller").and_then(Json::as_bool) == Some(true));
    match controller.and_then(|owner| owner.text_at(&["kind"])) {
        Some("Job") => Ok(()),
        other => {
            let wanted = "controls the process's pod: only pods of a Job have a place in it";
            Err(Error::malformed("metadata.ownerReferences", other.unwrap_or("nobody"), wanted))
        }
    }
}

fn subdomain(seen: &Seen, access: &Access, pod: &Json) -> Outcome<String> {
    if let Some(own) = pod.text_at(&["spec", "subdomain"]).filter(|own| !own.is_empty()) {
        return Ok(own.into());
    }
    let path = access.path(seen, "/api/v1", "services")?;
    let list = seen.document(&access.get(seen, &path)?)?;
    let services = list.get("items").and_then(Json::as_list).unwrap_or_default();
    let is_headless = |service: &&Json| service.text_at(&["spec", "clusterIP"]) == Some("None");
    let headless =
        services.iter().find(is_headless).and_then(|it| it.text_at(&["metadata", "name"]));
    let advice = match headless {
        Some(name) => format!("set it to a headless service, such as {}", quoted(name)),
        None => "create a headless service (clusterIP: None) and set it to its name".into(),
    };
    let text =
        format!("the process's pod has none, so pods cannot find each other by name: {advice}");
    Err(Error::new(Fault::PlacementUnknown, "spec.subdomain", text).into())
}

fn siblings(seen: &Seen, access: &Access, set: &str) -> Outcome<Vec<Child>> {
    let path = access.path(seen, "/apis/batch/v1", "jobs")?;
    let selector = format!("{JOBSET}={set}");
    let items = access.list(seen, &path, &[("labelSelector", &selector)])?;
    let children = items.into_iter().map(Child::of).collect::<Result<Vec<_>, _>>();
    let mut children = children.map_err(|error| access.blame(seen, &path, error))?;
    children.sort_by(|left, right| {
        (left.global_index, &left.name).cmp(&(right.global_index, &right.name))
    });
    Ok(children)
}
