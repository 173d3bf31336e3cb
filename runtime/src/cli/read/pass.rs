//! How the pass that is to be read stands at the dispatcher before anybody reads on.

use rondo_proto::admin::{DispatcherStatus, IterationStatus};

/// Whether there is nothing left to read of a pass of a job, because others have read it to its end or it was
/// abandoned. A pass of an empty dataset never is: whoever reads it has all of it. Nor is one that was
/// collected, by maintenance or for a position that was restored: the next reader begins it anew.
pub(super) fn is_over(status: &DispatcherStatus, job: &str, repetition: i64) -> bool {
    let is_it = |it: &&IterationStatus| it.job == job && it.repetition == repetition;
    match status.iterations.iter().rev().find(is_it) {
        Some(iteration) if iteration.state == "finished" => !has_no_splits(iteration),
        Some(iteration) if iteration.state == "running" => false,
        _ => is_known_to_be_over(status, job, repetition),
    }
}

/// Whether the dispatcher remembers that a pass was read or given up, after it has freed the pass or its job.
pub(super) fn is_known_to_be_over(status: &DispatcherStatus, job: &str, repetition: i64) -> bool {
    let jobs = status.jobs.iter().map(|it| (&it.name, &it.finished, &it.abandoned));
    let freed = status.freed_jobs.iter().map(|it| (&it.name, &it.finished, &it.abandoned));
    jobs.chain(freed).filter(|(name, ..)| *name == job).any(|(_, finished, abandoned)| {
        finished.iter().chain(abandoned).any(|range| contains(range, repetition))
    })
}

fn has_no_splits(iteration: &IterationStatus) -> bool {
    !iteration.sources.is_empty() && iteration.sources.iter().all(|source| source.total == 0)
}

/// Whether a range such as `0-4` or `7` has a number.
fn contains(range: &str, number: i64) -> bool {
    let (first, last) = range.split_once('-').unwrap_or((range, range));
    match (first.parse::<i64>(), last.parse::<i64>()) {
        (Ok(first), Ok(last)) => (first..=last).contains(&number),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use rondo_proto::admin::{FreedJobStatus, JobStatus, SourceStatus};

    use super::*;

    fn iteration(repetition: i64, state: &str, totals: &[u64]) -> IterationStatus {
        let source = |total: &u64| SourceStatus { total: *total, ..SourceStatus::default() };
        IterationStatus {
            job: "train".into(),
            repetition,
            state: state.into(),
            sources: totals.iter().map(source).collect(),
            ..IterationStatus::default()
        }
    }

    #[test]
    fn a_pass_is_over_once_its_newest_iteration_is() {
        let is_read = |iterations: &[IterationStatus]| {
            let status = DispatcherStatus { iterations: iterations.to_vec(), ..Default::default() };
            is_over(&status, "train", 1)
        };
        assert!(!is_read(&[]) && !is_read(&[iteration(0, "finished", &[9])]));
        assert!(!is_read(&[iteration(1, "running", &[9])]));
        assert!(is_read(&[iteration(1, "finished", &[9])]));
        // The next reader begins it anew, as after a position was restored.
        assert!(!is_read(&[iteration(1, "collected", &[9])]));
        assert!(!is_read(&[iteration(1, "finished", &[9]), iteration(1, "collected", &[9])]));
        // Without splits nobody knows whether there were elements.
        assert!(is_read(&[iteration(1, "finished", &[])]));
        assert!(!is_read(&[iteration(1, "finished", &[0, 0])]));
        assert!(is_read(&[iteration(1, "finished", &[0, 9])]));
        // A position was restored over it since.
        assert!(!is_read(&[iteration(1, "finished", &[9]), iteration(1, "running", &[9])]));
    }

    #[test]
    fn what_was_freed_is_remembered() {
        let freed = FreedJobStatus {
            name: "train".into(),
            finished: vec!["0-2".into(), "5".into()],
            abandoned: vec!["7".into()],
            ..Default::default()
        };
        let job =
            JobStatus { name: "eval".into(), finished: vec!["0".into()], ..Default::default() };
        let status =
            DispatcherStatus { freed_jobs: vec![freed], jobs: vec![job], ..Default::default() };
        for (pass, over) in [(0, true), (2, true), (3, false), (5, true), (6, false), (7, true)] {
            assert_eq!(is_over(&status, "train", pass), over, "{pass}");
        }
        assert!(is_over(&status, "eval", 0) && !is_over(&status, "eval", 1));
        assert!(!is_over(&status, "other", 0));
    }
}
