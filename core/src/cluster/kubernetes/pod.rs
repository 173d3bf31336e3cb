//! What of a pod bears on its place in a cluster.

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;

use super::super::error::{Error, Fault, quoted};
use super::super::json::Json;
use super::super::order::ordinal;

/// Labels, and annotations, that tell a pod's place: in its Job, in its StatefulSet, among the replicas of
/// Kubeflow's training jobs.
const INDICES: [&str; 3] = [
    "batch.kubernetes.io/job-completion-index",
    "apps.kubernetes.io/pod-index",
    "training.kubeflow.org/replica-index",
];
/// Among which of the replicas of a Kubeflow's training job a pod has its place: `master`, `worker`.
const REPLICA_TYPE: &str = "training.kubeflow.org/replica-type";
/// The label that each pod of a StatefulSet has. Older controllers tell the place in the name only.
const STATEFUL_SET: &str = "statefulset.kubernetes.io/pod-name";

/// Phases of a pod that has ended.
const ENDED: [&str; 2] = ["Succeeded", "Failed"];

#[derive(Clone, Debug)]
pub(super) struct Pod {
    pub(super) name: String,
    /// The pod's unique id; its name where the API gives no id.
    pub(super) id: String,
    /// Its place among the pods of its owner that have its role.
    pub(super) index: Option<u32>,
    /// Its role among the pods of its owner, where the owner has several.
    pub(super) role: Option<String>,
    /// Who made it: the controller's namespace, kind and name. A Job that is deleted and made again has
    /// another id and the same name.
    pub(super) owner: Option<String>,
    phase: String,
    is_ready: Option<bool>,
    pub(super) is_leaving: bool,
    pub(super) pod_ip: Option<String>,
    pub(super) host_ip: Option<String>,
}

impl Pod {
    pub(super) fn of(item: &Json) -> Result<Self, Error> {
        let name = item.text_at(&["metadata", "name"]).ok_or_else(|| {
            Error::new(Fault::Malformed, "items[].metadata.name", "a pod of the list has no name")
        })?;
        let text = |path: &[&str]| item.text_at(path).filter(|text| !text.is_empty());
        let conditions = item.at(&["status", "conditions"]).and_then(Json::as_list);
        let ready =
            conditions.unwrap_or_default().iter().find(|it| it.text_at(&["type"]) == Some("Ready"));
        Ok(Self {
            name: name.to_owned(),
            id: text(&["metadata", "uid"]).unwrap_or(name).to_owned(),
            index: index_of(item, name)?,
            role: item.text_at(&["metadata", "labels", REPLICA_TYPE]).map(str::to_owned),
            owner: owner_of(item),
            phase: text(&["status", "phase"]).unwrap_or("Unknown").to_owned(),
            is_ready: ready.map(|it| it.text_at(&["status"]) == Some("True")),
            is_leaving: item
                .at(&["metadata", "deletionTimestamp"])
                .is_some_and(|when| !when.is_null()),
            pod_ip: text(&["status", "podIP"]).map(str::to_owned),
            host_ip: text(&["status", "hostIP"]).map(str::to_owned),
        })
    }

    /// Whether it has ended, well or badly.
    pub(super) fn is_over(&self) -> bool {
        ENDED.contains(&self.phase.as_str())
    }

    /// How well it fills its place: one that runs before one that leaves before one that ended.
    pub(super) fn standing(&self) -> (bool, bool, bool) {
        (self.is_over(), self.is_leaving, self.unready().is_some())
    }

    /// Why it cannot be talked to; `None` if it can. One that leaves may still answer.
    pub(super) fn unready(&self) -> Option<String> {
        if self.phase != "Running" {
            return Some(format!("its phase is {}, not Running", quoted(&self.phase)));
        }
        (self.is_ready == Some(false)).then(|| "its condition Ready is not True".into())
    }
}

fn index_of(item: &Json, name: &str) -> Result<Option<u32>, Error> {
    let marked = |key: &str| {
        let places = ["labels", "annotations"];
        places.iter().find_map(|at| item.text_at(&["metadata", at, key]))
    };
    if let Some((key, text)) = INDICES.iter().find_map(|key| Some((*key, marked(key)?))) {
        return super::super::options::whole(key, text).map(Some);
    }
    Ok(marked(STATEFUL_SET).and_then(|_| ordinal(name)))
}

/// The owner that controls a pod.
pub(super) fn controller_of(item: &Json) -> Option<&Json> {
    let owners = item.at(&["metadata", "ownerReferences"]).and_then(Json::as_list)?;
    owners.iter().find(|owner| owner.get("controller").and_then(Json::as_bool) == Some(true))
}

fn owner_of(item: &Json) -> Option<String> {
    let owner = controller_of(item)?;
    let kind = owner.text_at(&["kind"]).unwrap_or_default();
    let name = owner.text_at(&["name"]).or_else(|| owner.text_at(&["uid"]))?;
    let namespace = item.text_at(&["metadata", "namespace"]).unwrap_or_default();
    Some(format!("{namespace}/{kind}/{name}"))
}

/// Whether a pod has ended, well or badly.
pub(super) fn is_over(item: &Json) -> bool {
    item.text_at(&["status", "phase"]).is_some_and(|phase| ENDED.contains(&phase))
}
