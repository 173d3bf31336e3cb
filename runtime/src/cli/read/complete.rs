//! Whether a file that is complete is so for the job that is to be read now.

use std::ops::RangeInclusive;
use std::path::Path;

use rondo_proto::admin::{DispatcherStatus, JobStatus};

use super::super::exit::{Exit, Failure};
use super::note::{Note, Source};
use super::pass::is_known_to_be_over;

/// The job that was read and its dataset, as the server has them now.
pub(super) fn source(status: &DispatcherStatus, job: &str) -> Option<Source> {
    job_of(status, job).map(|job| Source { job: job.id, dataset: job.dataset.clone() })
}

/// A complete file is for the job that the server has under this name, and for the dataset that is asked for.
///
/// # Errors
/// When the job was deleted since, or the dataset is another one.
pub(super) fn check(
    path: &Path,
    note: &Note,
    dataset: Option<&str>,
    status: &DispatcherStatus,
) -> Result<(), Failure> {
    let (job, repetition) = (note.of.job.as_str(), note.of.repetition);
    let source = note.source.as_ref();
    let present = job_of(status, job);
    let freed = status.freed_jobs.iter().find(|it| it.name == job);
    let ids = match (present, freed) {
        (Some(present), _) => ids(present.first_id, Some(present.id)),
        (None, freed) => freed.and_then(|freed| ids(freed.first_id, freed.id)),
    };
    let is_the_same = match (source, ids) {
        _ if present.is_none() && freed.is_none() => false,
        (None, _) => true,
        (Some(source), Some(ids)) => ids.contains(&source.job),
        // The server keeps less of a job that a former release has made.
        (Some(source), None) => present.is_none_or(|present| {
            present.id == source.job || is_known_to_be_over(status, job, repetition)
        }),
    };
    let path = path.display();
    if !is_the_same {
        let text = format!(
            "{path} is complete with what a former job {job:?} had for it, and the server does not know \
             that job any more. To read anew, name another file"
        );
        return Err(Failure::new(Exit::Other, text));
    }
    let held = present.map(|it| &it.dataset).or(source.map(|source| &source.dataset));
    match (dataset, held) {
        (Some(wanted), Some(held)) if !is_of(status, held, wanted) => {
            let text = format!(
                "{path} is complete with dataset {held:?}, which job {job:?} reads, and not with dataset \
                 {wanted:?}. Name another job and another file"
            );
            Err(Failure::new(Exit::Usage, text))
        }
        _ => Ok(()),
    }
}

/// The ids that a job and those before it, which it continues, have among them: one that was freed and asked
/// for again has another id, and remembers its passes. A job that was deleted has none of these ids. `None`
/// if the server does not know them all.
fn ids(first: Option<i64>, last: Option<i64>) -> Option<RangeInclusive<i64>> {
    Some(first?..=last?)
}

fn job_of<'a>(status: &'a DispatcherStatus, name: &str) -> Option<&'a JobStatus> {
    status.jobs.iter().rev().find(|job| job.name == name)
}

/// Whether a dataset is the one of this name, or a version of it. A version that was freed since is known by
/// its id alone.
fn is_of(status: &DispatcherStatus, held: &str, wanted: &str) -> bool {
    let is_version = match status.datasets.iter().find(|it| it.id == held) {
        Some(dataset) => dataset.version_of.as_deref() == Some(wanted),
        None => held.strip_prefix(wanted).is_some_and(|rest| rest.starts_with('@')),
    };
    held == wanted || is_version
}

#[cfg(test)]
mod tests {
    use rondo_proto::admin::{DatasetStatus, FreedJobStatus};

    use super::super::note::Contents;
    use super::*;

    fn note(source: Option<(i64, &str)>) -> Note {
        let of =
            Contents { job: "train".into(), repetition: 0, part: None, output: "jsonl".into() };
        let source = source.map(|(job, dataset)| Source { job, dataset: dataset.into() });
        let mut note = Note::new(of);
        (note.source, note.complete) = (source, true);
        note
    }

    fn has(job: i64, dataset: &str) -> DispatcherStatus {
        let job = JobStatus {
            id: job,
            name: "train".into(),
            dataset: dataset.into(),
            ..JobStatus::default()
        };
        let version = DatasetStatus {
            id: "weather@2".into(),
            version_of: Some("weather".into()),
            ..DatasetStatus::default()
        };
        DispatcherStatus { jobs: vec![job], datasets: vec![version], ..Default::default() }
    }

    fn told(note: &Note, dataset: Option<&str>, status: &DispatcherStatus) -> Option<String> {
        check(Path::new("out.jsonl"), note, dataset, status).err().map(|failure| failure.text)
    }

    #[test]
    fn a_file_is_complete_for_its_own_job_only() {
        let own = note(Some((5, "weather")));
        assert_eq!(told(&own, None, &has(5, "weather")), None);
        assert_eq!(told(&own, Some("weather"), &has(5, "weather")), None);
        for status in [DispatcherStatus::default(), has(6, "weather")] {
            let text = told(&own, None, &status).unwrap();
            assert!(text.contains("does not know that job any more"), "{text}");
        }
        let freed = FreedJobStatus { name: "train".into(), ..FreedJobStatus::default() };
        let status = DispatcherStatus { freed_jobs: vec![freed], ..Default::default() };
        assert_eq!(told(&own, None, &status), None);
        let other = FreedJobStatus { name: "eval".into(), ..FreedJobStatus::default() };
        let status = DispatcherStatus { freed_jobs: vec![other], ..Default::default() };
        assert!(told(&own, None, &status).is_some(), "another job was freed");
        // Freed, and asked for again.
        let mut again = has(6, "weather");
        again.jobs[0].finished = vec!["0".into()];
        assert_eq!(told(&own, None, &again), None);
        // A note of a former release does not know the job's number.
        assert_eq!(told(&note(None), None, &has(6, "weather")), None);
    }

    /// Of two jobs that were asked for under one name, the second either continues the first or has
    /// nothing to do with it.
    #[test]
    fn a_file_of_a_deleted_job_is_not_complete_for_the_next_one() {
        let own = note(Some((5, "weather")));
        let freed = |first_id, id| {
            let freed = FreedJobStatus { name: "train".into(), first_id, id, ..Default::default() };
            DispatcherStatus { freed_jobs: vec![freed], ..Default::default() }
        };
        assert_eq!(told(&own, None, &freed(Some(5), Some(5))), None);
        assert_eq!(told(&own, None, &freed(Some(3), Some(9))), None);
        assert!(told(&own, None, &freed(Some(6), Some(9))).is_some());
        // Of another server's data.
        assert!(told(&own, None, &freed(Some(3), Some(4))).is_some());
        let present = |first_id, id| {
            let mut status = has(id, "weather");
            status.jobs[0].first_id = first_id;
            status.jobs[0].finished = vec!["0".into()];
            status
        };
        assert_eq!(told(&own, None, &present(Some(5), 9)), None);
        assert!(told(&own, None, &present(Some(9), 9)).is_some());
        assert!(told(&own, None, &present(Some(2), 4)).is_some());
    }

    #[test]
    fn a_file_is_complete_for_its_own_dataset_only() {
        let text = told(&note(Some((5, "weather"))), Some("tides"), &has(5, "weather")).unwrap();
        assert!(text.contains("dataset \"weather\"") && text.contains("\"tides\""), "{text}");
        let version = note(Some((5, "weather@2")));
        assert_eq!(told(&version, Some("weather"), &has(5, "weather@2")), None);
        assert_eq!(told(&version, Some("weather@2"), &has(5, "weather@2")), None);
        assert!(told(&version, Some("weather@3"), &has(5, "weather@2")).is_some());
        // The job was freed, and then the version.
        let freed = FreedJobStatus {
            name: "train".into(),
            finished: vec!["0".into()],
            ..FreedJobStatus::default()
        };
        let status = DispatcherStatus { freed_jobs: vec![freed], ..Default::default() };
        assert_eq!(told(&version, Some("weather"), &status), None);
        assert!(told(&version, Some("tides"), &status).is_some());
    }
}
