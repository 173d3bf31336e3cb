//! What of a pod bears on its place in a cluster.

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;

use super::super::error::{Error, Fault, quoted};
use super::super::json::Json;

/// The label, and the annotation, that tells a pod's place in its Job.
const COMPLETION_INDEX: &str = "batch.kubernetes.io/job-completion-index";

#[derive(Clone, Debug)]
pub(super) struct Pod {
    pub(super) name: String,
    /// Its place in its Job.
    pub(super) index: Option<u32>,
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
            index: index_of(item)?,
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
        ["Succeeded", "Failed"].contains(&self.phase.as_str())
    }

    /// Why it cannot be talked to; `None` if it can.
    pub(super) fn unready(&self) -> Option<String> {
        if self.phase != "Running" {
            return Some(format!("its phase is {}, not Running", quoted(&self.phase)));
        }
        (self.is_ready == Some(false)).then(|| "its condition Ready is not True".into())
    }
}

fn index_of(item: &Json) -> Result<Option<u32>, Error> {
    let places = ["labels", "annotations"];
    let text = places.iter().find_map(|at| item.text_at(&["metadata", at, COMPLETION_INDEX]));
    let Some(text) = text else { return Ok(None) };
    super::super::options::whole(COMPLETION_INDEX, text).map(Some)
}
