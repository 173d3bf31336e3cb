//! All sources, and what the chosen one comes to.

use pyo3::prelude::*;
use rondo::resolve::{accelerators, detect};
use rondo_core::cluster::kubernetes::Access;
use rondo_core::cluster::{Accelerators, Chain, Error, Export, Json, Place, Report};

use super::looking::{Looking, counts, parsed, told};
use crate::waiting::wait;

/// What detection takes.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(super) struct Sources {
    explicit: Option<String>,
    port: u16,
    server_port: u16,
    api_server: Option<String>,
    namespace: Option<String>,
    asks_all: bool,
}

/// Looks at all sources: the report as JSON, with what follows from the chosen one.
#[pyfunction]
pub(super) fn _detect_cluster(
    py: Python<'_>,
    sources: Sources,
    looking: Looking,
) -> PyResult<String> {
    let explicit = sources.explicit.map(|text| parsed(py, "settings", &text)).transpose()?;
    let access = Access { api_server: sources.api_server, namespace: sources.namespace };
    let chain = Chain { explicit, port: sources.port, access, asks_all: sources.asks_all };
    let finder = looking.finder(py)?;
    let document = wait(py, async {
        let report = detect(&finder, &chain).await?;
        let accelerators = match report.chosen() {
            Some(finding) => Some(accelerators(finder, finding).await),
            None => None,
        };
        Ok(document(&report, accelerators, sources.server_port))
    })?;
    Ok(told(document).to_string())
}

fn document(
    report: &Report,
    accelerators: Option<Result<Accelerators, Error>>,
    server_port: u16,
) -> Json {
    let mut members = vec![("report".to_owned(), report.to_json())];
    // A source that is wrong and comes first, or a contradiction.
    let settled = report.settled().map(|_| Json::Null);
    members.push(("settled".to_owned(), told(settled)));
    if let Some(finding) = report.chosen() {
        let place = Place::of(finding.clone(), server_port);
        members.extend([
            ("server".to_owned(), told(place.server().map(Json::text))),
            ("task".to_owned(), told(place.task().map(Json::number))),
            ("tasks".to_owned(), told(place.tasks().map(Json::number))),
        ]);
        for (name, form) in Export::ALL {
            members.push((format!("as_{name}"), told(form.write(finding).map(Json::text))));
        }
    }
    if let Some(accelerators) = accelerators {
        let found = accelerators.map(|found| counts(&found));
        members.push(("accelerators".to_owned(), told(found)));
    }
    Json::Map(members)
}
