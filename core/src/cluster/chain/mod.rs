//! Detection: which of the sources of a process's cluster is there, in one order, and why the others are not
//! taken.

mod finding;
mod report;
mod sources;

use alloc::format;
use alloc::vec::Vec;

pub(super) use finding::COORDINATING;
pub use finding::Finding;
pub use report::{Contradiction, Entry, Report, Verdict};

use super::asking::{Outcome, Seen, Stop};
use super::describing::described;
use super::error::Fault;
use super::json::Json;
use super::kubernetes::{Access, Watch};
use super::process::LocalDevices;
use crate::limits::CLUSTER_WATCHES_MAX;
use sources::{SOURCES, Source};

/// How the cluster is to be found.
#[derive(Clone, Debug)]
pub struct Chain {
    /// A resolver that is given ([`super::described`]): it is taken, and the others are only told of.
    pub explicit: Option<Json>,
    /// Where tasks listen, for sources that tell hosts only.
    pub port: u16,
    /// The way to Kubernetes.
    pub access: Access,
    /// Whether sources that cost requests are asked even if another one was found before.
    pub asks_all: bool,
}

impl Default for Chain {
    fn default() -> Self {
        Self { explicit: None, port: 8470, access: Access::default(), asks_all: false }
    }
}

impl Chain {
    /// Looks at all sources.
    ///
    /// # Errors
    /// None but questions: what goes wrong with a source stands in the report.
    pub fn detect(&self, seen: &Seen) -> Outcome<Report> {
        let mut report = Report::default();
        let mut questions = Vec::new();
        let mut is_found = false;
        for source in SOURCES {
            let asked = !source.costs || !is_found || self.asks_all;
            let verdict = match asked.then(|| self.look(source, seen)) {
                None => Verdict::NotAsked,
                Some(Ok(finding)) if is_found => Verdict::Shadowed(finding),
                Some(Ok(finding)) => Verdict::Chosen(finding),
                Some(Err(Stop::Fail(error))) if error.fault == Fault::NotPresent => {
                    if source.left_traces(seen) {
                        report.hints.push(format!("{}: {error}", source.name));
                    }
                    Verdict::Absent(error)
                }
                Some(Err(Stop::Fail(error))) => Verdict::Broken(error),
                Some(Err(Stop::Ask(more))) => {
                    questions.extend(more);
                    continue;
                }
            };
            is_found |= matches!(verdict, Verdict::Chosen(_) | Verdict::Broken(_));
            report.entries.push(Entry { source: source.name, verdict });
        }
        if is_found {
            report.hints.clear();
        }
        if !questions.is_empty() {
            return Err(Stop::Ask(questions));
        }
        report.contradict();
        Ok(report)
    }

    /// Watches over the cluster that a resolver which is given tells of, from this look on. None where there
    /// is no such resolver, where only looking again tells of changes, and where a list could not be read;
    /// more than [`CLUSTER_WATCHES_MAX`] are not kept up either.
    ///
    /// # Errors
    /// None but questions.
    pub fn watches(&self, seen: &Seen) -> Outcome<Vec<Watch>> {
        let Some(Ok(resolver)) = self.explicit.as_ref().map(described) else {
            return Ok(Vec::new());
        };
        match resolver.watches(seen) {
            Ok(watches) if watches.len() <= CLUSTER_WATCHES_MAX => Ok(watches),
            Ok(_) | Err(Stop::Fail(_)) => Ok(Vec::new()),
            Err(ask) => Err(ask),
        }
    }

    fn look(&self, source: &Source, seen: &Seen) -> Outcome<Finding> {
        if let Some(missing) = (source.missing)(self, seen) {
            return Err(missing.into());
        }
        let mut finding = (source.find)(self, seen)?;
        finding.complete(source.name);
        if finding.process.local_rank.is_some() && seen.is_tpu_machine()? {
            finding.local_devices = LocalDevices::All;
        }
        Ok(finding)
    }
}
