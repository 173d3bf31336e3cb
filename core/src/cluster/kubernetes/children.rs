//! The Job that a pod is of, and its siblings in a JobSet.

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::super::asking::{Outcome, Seen};
use super::super::error::{Error, Fault, quoted};
use super::super::json::Json;
use super::super::options::whole;
use super::super::url::with_query;
use super::access::Access;
use super::pod::{controller_of, is_over};
use crate::limits::CLUSTER_TASKS_MAX;

const JOBSET: &str = "jobset.sigs.k8s.io/jobset-name";
const GROUP: &str = "jobset.sigs.k8s.io/replicatedjob-name";
const GLOBAL_INDEX: &str = "jobset.sigs.k8s.io/job-global-index";
const REPLICAS: &str = "jobset.sigs.k8s.io/replicatedjob-replicas";
const GLOBAL_REPLICAS: &str = "jobset.sigs.k8s.io/global-replicas";
const COORDINATOR: &str = "jobset.sigs.k8s.io/coordinator";
/// The environment's word for a pod's place in its Job.
pub(super) const COMPLETION_INDEX: &str = "JOB_COMPLETION_INDEX";

/// Addresses of the process's host name under which its pod is looked for.
const OWN_ADDRESSES_MAX: usize = 8;

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
        let set = marked(job, JOBSET);
        let domain = subdomain(seen, access, pod, set)?;
        let jobs = access.path(seen, "/apis/batch/v1", "jobs")?;
        let own = Child::of(job).map_err(|error| access.blame(seen, &jobs, error))?;
        let children = match set {
            Some(set) => all_of_set(seen, access, set, &own, job)?,
            None => alloc::vec![own.clone()],
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

/// The pod that has one of the process's addresses. The API finds pods by their first address only, which
/// may be of either family.
fn own_pod<'a>(seen: &'a Seen, access: &Access) -> Outcome<&'a Json> {
    let name = seen
        .filled("HOSTNAME")
        .ok_or_else(|| Error::missing("HOSTNAME", "a pod's host name is that of the pod"))?;
    let addresses = seen.host(name)?;
    let path = access.path(seen, "/api/v1", "pods")?;
    for ip in addresses.iter().take(OWN_ADDRESSES_MAX) {
        let field = format!("status.podIP={ip}");
        let request = access.get(seen, &with_query(&path, &[("fieldSelector", &field)]))?;
        let list = seen.document(&request)?;
        let listed = list.get("items").and_then(Json::as_list).unwrap_or_default();
        // An ended pod keeps its address in the list, though another one may have it by now.
        let alive: Vec<&Json> = listed.iter().filter(|pod| !is_over(pod)).collect();
        let named: Vec<&Json> = alive.iter().copied().filter(|pod| is_called(pod, name)).collect();
        match (alive.as_slice(), named.as_slice()) {
            ([], _) => {}
            ([pod], _) | (_, [pod]) => return Ok(pod),
            (pods, _) => {
                let text = format!(
                    "{} running pods have the address {ip}, and none of them alone is called {}",
                    pods.len(),
                    quoted(name)
                );
                return Err(Error::new(Fault::Conflict, path, text).into());
            }
        }
    }
    let tried: Vec<String> = addresses.iter().map(ToString::to_string).collect();
    let text = format!("no running pod has the address {} yet", tried.join(" or "));
    Err(Error::new(Fault::NotReady, path, text).into())
}

/// Whether a pod or its host has this name.
fn is_called(pod: &Json, name: &str) -> bool {
    [["metadata", "name"], ["spec", "hostname"]].iter().any(|at| pod.text_at(at) == Some(name))
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
    match controller_of(pod).and_then(|owner| owner.text_at(&["kind"])) {
        Some("Job") => Ok(()),
        other => {
            let wanted = "controls the process's pod: only pods of a Job have a place in it";
            Err(Error::malformed("metadata.ownerReferences", other.unwrap_or("nobody"), wanted))
        }
    }
}

/// The domain of the pods' host names. A JobSet gives its pods one: its own name, or what its
/// `network.subdomain` says.
fn subdomain(seen: &Seen, access: &Access, pod: &Json, set: Option<&str>) -> Outcome<String> {
    if let Some(own) = pod.text_at(&["spec", "subdomain"]).filter(|own| !own.is_empty()) {
        return Ok(own.into());
    }
    if let Some(set) = set {
        let text = format!(
            "the process's pod has none, so pods cannot find each other by name: set \
             network.enableDNSHostnames of the JobSet {} to true",
            quoted(set)
        );
        return Err(Error::new(Fault::PlacementUnknown, "spec.subdomain", text).into());
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

/// All Jobs of the process's JobSet, once the controller has made them all.
fn all_of_set(
    seen: &Seen,
    access: &Access,
    set: &str,
    own: &Child,
    job: &Json,
) -> Outcome<Vec<Child>> {
    let Some(text) = marked(job, GLOBAL_REPLICAS) else {
        check_alone(seen, access, set, own, job)?;
        return Ok(alloc::vec![own.clone()]);
    };
    let replicas = whole(GLOBAL_REPLICAS, text)?;
    if replicas <= 1 {
        return Ok(alloc::vec![own.clone()]);
    }
    let children = siblings(seen, access, set)?;
    let places: BTreeSet<u32> = children.iter().map(|child| child.global_index).collect();
    let is_whole = places.iter().copied().eq(0..replicas) && children.len() == places.len();
    if is_whole {
        return Ok(children);
    }
    let text = format!(
        "the JobSet {} has {} of its {replicas} Jobs, in {} places",
        quoted(set),
        children.len(),
        places.len()
    );
    Err(Error::new(Fault::NotReady, JOBSET, text).into())
}

/// Refuses a Job that does not say how many its JobSet has, unless it can be no more than this one.
fn check_alone(seen: &Seen, access: &Access, set: &str, own: &Child, job: &Json) -> Outcome<()> {
    // No controller leaves out both: somebody else wrote the label of the JobSet.
    let is_alone = match marked(job, REPLICAS) {
        None => true,
        Some(replicas) => replicas == "1" && siblings(seen, access, set)?.len() == 1,
    };
    if is_alone {
        return Ok(());
    }
    let text = format!(
        "the Job {:?} has no such label, so how many Jobs the JobSet {} has cannot be told: \
         JobSet 0.7 and newer set it",
        own.name,
        quoted(set)
    );
    Err(Error::new(Fault::PlacementUnknown, GLOBAL_REPLICAS, text).into())
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
