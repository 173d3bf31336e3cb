//! One spec of several: what a union of resolvers answers.

use alloc::collections::BTreeSet;
use alloc::format;

use super::error::{Error, Fault, quoted};
use super::spec::ClusterSpec;

/// Puts specs together, in order. A job that is a list in all of them is one long list; as soon as one has
/// it with holes (or without tasks), each task keeps its own index.
///
/// # Errors
/// CONFLICT where two have the same index of such a job, even with the same address; TOO_LARGE.
pub fn merge<'a>(
    specs: impl IntoIterator<Item = &'a ClusterSpec> + Clone,
) -> Result<ClusterSpec, Error> {
    let mut sparse = BTreeSet::new();
    for spec in specs.clone() {
        sparse.extend(spec.jobs().filter(|job| !spec.is_dense(job)));
    }
    let mut merged = ClusterSpec::new();
    for spec in specs {
        for job in spec.jobs() {
            merged.add_job(job)?;
        }
        for (job, index, address) in spec.iter() {
            let index = if sparse.contains(job) { index } else { next_index(&merged, job)? };
            merged.add_task(job, index, address).map_err(|error| explained(error, job))?;
        }
    }
    Ok(merged)
}

fn next_index(merged: &ClusterSpec, job: &str) -> Result<u32, Error> {
    let count = merged.num_tasks(job)?;
    u32::try_from(count).map_err(|_| Error::new(Fault::TooLarge, quoted(job), "too many tasks"))
}

fn explained(mut error: Error, job: &str) -> Error {
    if error.fault == Fault::Conflict {
        error.text = format!(
            "{}; members that have {} with holes must not share indices with the others",
            error.text,
            quoted(job)
        );
    }
    error
}
