//! A process's place, found by looking at all sources.

use rondo_core::cluster::{
    Accelerators, Chain, Error, Fault, Finding, Place, Report, Seen, described, host_accelerators,
};

use super::Finder;

/// Looks at all sources, again and again while those that count are not ready or do not answer and the
/// finder's time is not up.
///
/// # Errors
/// What keeps detection itself from its end; what is wrong with a source stands in the report.
pub async fn detect(finder: &Finder, chain: &Chain) -> Result<Report, Error> {
    let early = |found: &Result<Report, Error>| {
        let error = match found {
            Ok(report) => report.settled().err(),
            Err(error) => Some(error.clone()),
        };
        error.is_some_and(|error| may_pass(error.fault))
    };
    finder.find_ready(|seen| chain.detect(seen), early).await
}

/// Whether a failure may pass with time.
pub const fn may_pass(fault: Fault) -> bool {
    matches!(fault, Fault::NotReady | Fault::Unreachable)
}

/// Finds the process's place for Rondo's own commands: [`detect`], and what to go by. `port` is where the
/// server listens unless the cluster spec says it.
///
/// # Errors
/// NOT_PRESENT where nothing tells of a cluster, CONFLICT where sources contradict each other, and the
/// failure of a source that is there and comes first.
pub async fn find_place(finder: &Finder, chain: &Chain, port: u16) -> Result<Place, Error> {
    let report = detect(finder, chain).await?;
    let nothing = || Error::new(Fault::NotPresent, "cluster", nothing_tells(&report));
    let finding = report.settled()?.ok_or_else(nothing)?;
    Ok(Place::of(finding.clone(), port))
}

/// That nothing tells of a cluster, what comes nearest, and where to look.
pub fn nothing_tells(report: &Report) -> String {
    let hints = match report.hints.join("; ") {
        hints if hints.is_empty() => hints,
        hints => format!(" ({hints})"),
    };
    format!("nothing tells of a cluster{hints}: `rondo cluster` shows what each source misses")
}

/// How many accelerators the process has: those that it was granted, else as its resolver counts them.
///
/// # Errors
/// What keeps the resolver, or the host, from being asked.
pub async fn accelerators(finder: Finder, finding: &Finding) -> Result<Accelerators, Error> {
    if let Some(gpus) = &finding.gpus {
        let count = u32::try_from(gpus.len()).unwrap_or(u32::MAX);
        return Ok(Accelerators::from([("GPU".to_owned(), count)]));
    }
    let Some(settings) = &finding.resolver else {
        return finder.find(host_accelerators).await;
    };
    let task = finding.task_type.as_deref().zip(finding.task_id);
    let finder = match task {
        Some((job, index)) => finder.with_task(job, index),
        None => finder,
    };
    let (job, index) = task.unzip();
    let count = |seen: &Seen| described(settings)?.num_accelerators(seen, job, index, None);
    finder.find(count).await
}
