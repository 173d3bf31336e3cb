//! Why jobs that read datasets are not moving.

use std::fmt::Write;

use rondo_core::dispatcher::{
    ClientReport, IterationReport, JobReport, Report, TaskReport, WorkerReport,
};

use super::plain::plain;
use super::status_tables::span;

/// Iterations shown; the newest come first.
const ITERATIONS_MAX: usize = 6;
/// A worker or client that was not heard for so long is named, in ms.
const SILENT_MS: u64 = 20_000;
/// Workers named in one line.
const NAMED_MAX: usize = 4;

/// What each job that is not finished waits for.
pub(super) fn jobs(report: &Report) -> Option<String> {
    let of_jobs = |it: &&IterationReport| {
        it.state == "running" && report.jobs.iter().any(|job| job.name == it.job)
    };
    let running: Vec<_> = report.iterations.iter().rev().filter(of_jobs).collect();
    if running.is_empty() {
        return idle(&report.jobs);
    }
    let mut text = String::new();
    for iteration in running.iter().take(ITERATIONS_MAX) {
        one(report, iteration, &mut text);
    }
    if let Some(left) = running.len().checked_sub(ITERATIONS_MAX).filter(|left| *left > 0) {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "… and {left} more iterations: rondo status shows them");
    }
    Some(text)
}

fn idle(jobs: &[JobReport]) -> Option<String> {
    let names: Vec<String> = jobs.iter().map(|job| plain(&job.name)).collect();
    let shown = names.iter().rev().take(NAMED_MAX).cloned().collect::<Vec<_>>().join(", ");
    (!names.is_empty()).then(|| format!("{} jobs, none is being read: {shown}\n", names.len()))
}

fn one(report: &Report, iteration: &IterationReport, text: &mut String) {
    let tasks: Vec<_> = report.tasks.iter().filter(|it| it.iteration == iteration.id).collect();
    let clients: Vec<_> = report.clients.iter().filter(|it| it.iteration == iteration.id).collect();
    // Writing to a string cannot fail.
    let _ = writeln!(
        text,
        "{}, repetition {}: {} clients, {} tasks, {} of them finished",
        plain(&iteration.job),
        iteration.repetition,
        iteration.clients,
        iteration.tasks,
        iteration.tasks_finished
    );
    for line in reasons(report, iteration, &tasks, &clients) {
        let _ = writeln!(text, "  {}", plain(&line));
    }
}

fn reasons(
    report: &Report,
    of: &IterationReport,
    tasks: &[&TaskReport],
    clients: &[&ClientReport],
) -> Vec<String> {
    let mut lines: Vec<String> = about_workers(&report.workers, tasks).into_iter().collect();
    if of.clients == 0 {
        lines.push("no client reads it".into());
    }
    let silent = clients.iter().filter(|it| it.silent_ms.is_some_and(|ms| ms >= SILENT_MS));
    let longest = silent.clone().filter_map(|it| it.silent_ms).max();
    if let Some(longest) = longest {
        let count = silent.count();
        lines.push(format!(
            "{count} clients have not been heard, one of them for {}",
            span(longest)
        ));
    }
    if let Some(round) = of.block_round {
        let pending = of.tasks_pending;
        lines.push(format!(
            "{pending} tasks wait until all consumers agree to begin with them in round {round}"
        ));
    }
    let (again, waiting, held) = (of.splits_again, of.splits_waiting, of.splits_held);
    if again > 0 || waiting > 0 {
        lines.push(format!(
            "{again} splits of lost workers and {waiting} of readers that left wait for somebody to take them"
        ));
    }
    if held > 0 {
        lines.push(format!("readers hold {held} splits that they have not acknowledged"));
    }
    if of.splits_lost > 0 || of.splits_in_doubt > 0 {
        let (lost, doubt) = (of.splits_lost, of.splits_in_doubt);
        lines.push(format!("{lost} splits are lost with their workers, and {doubt} may be"));
    }
    if lines.is_empty() {
        lines.push("nothing is missing: it goes as fast as its workers and clients".into());
    }
    lines
}

/// What is wrong with the workers that an iteration needs.
fn about_workers(workers: &[WorkerReport], tasks: &[&TaskReport]) -> Option<String> {
    let live = workers.iter().filter(|worker| !worker.lost);
    match (workers.len(), live.clone().count()) {
        (0, _) => return Some("no worker has registered".into()),
        (all, 0) => return Some(format!("all {all} workers are lost")),
        _ => {}
    }
    if tasks.is_empty() {
        return Some("no worker has a task of it".into());
    }
    let runs = |worker: &&WorkerReport| {
        tasks.iter().any(|task| task.worker == worker.address && task.state != "finished")
    };
    let silent = live.filter(runs).filter(|it| it.silent_ms.is_some_and(|ms| ms >= SILENT_MS));
    let named: Vec<String> = silent
        .clone()
        .take(NAMED_MAX)
        .map(|it| format!("{} for {}", it.address, span(it.silent_ms.unwrap_or_default())))
        .collect();
    let count = silent.count();
    (count > 0).then(|| format!("{count} of its workers have not been heard: {}", named.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(name: &str) -> JobReport {
        JobReport {
            id: 5000,
            name: name.into(),
            dataset: "data".into(),
            sharding: "DYNAMIC".into(),
            consumers: None,
            target_workers: "AUTO".into(),
            use_cross_trainer_cache: false,
        }
    }

    fn running(name: &str) -> IterationReport {
        IterationReport {
            id: 2000,
            job: name.into(),
            repetition: 0,
            state: "running".into(),
            clients: 1,
            tasks: 1,
            tasks_finished: 0,
            tasks_pending: 0,
            round: None,
            block_round: None,
            sources: Vec::new(),
            splits_lost: 0,
            splits_again: 0,
            splits_in_doubt: 0,
            splits_held: 0,
            splits_waiting: 0,
            records_acknowledged: 0,
        }
    }

    fn worker(address: &str, silent_ms: u64, lost: bool) -> WorkerReport {
        WorkerReport {
            address: address.into(),
            uid: 1,
            tags: Vec::new(),
            tasks: 1,
            silent_ms: Some(silent_ms),
            lost,
        }
    }

    fn told(workers: Vec<WorkerReport>, iteration: IterationReport) -> String {
        let task = |worker: &WorkerReport| TaskReport {
            id: 4000,
            iteration: 2000,
            worker: worker.address.clone(),
            state: "running".into(),
            starting_round: 0,
        };
        let tasks = workers.iter().filter(|worker| !worker.lost).map(task).collect();
        let (jobs_, iterations) = (vec![job("train")], vec![iteration]);
        jobs(&Report { workers, tasks, jobs: jobs_, iterations, ..Report::default() }).unwrap()
    }

    #[test]
    fn what_a_job_lacks_is_said() {
        for (workers, words) in [
            (vec![], "no worker has registered"),
            (vec![worker("w:1", 90_000, true)], "all 1 workers are lost"),
            (
                vec![worker("w:1", 42_000, false)],
                "1 of its workers have not been heard: w:1 for 42 s",
            ),
            (vec![worker("w:1", 4_000, false)], "nothing is missing"),
        ] {
            let text = told(workers, running("train"));
            assert!(
                text.contains("train, repetition 0: 1 clients") && text.contains(words),
                "{text}"
            );
        }
        let worker = || vec![worker("w:1", 4_000, false)];
        for (iteration, words) in [
            (IterationReport { clients: 0, ..running("train") }, "no client reads it"),
            (IterationReport { splits_held: 3, ..running("train") }, "readers hold 3 splits"),
            (IterationReport { splits_lost: 2, ..running("train") }, "2 splits are lost"),
            (
                IterationReport { block_round: Some(9), tasks_pending: 1, ..running("train") },
                "1 tasks wait until all consumers agree to begin with them in round 9",
            ),
        ] {
            let text = told(worker(), iteration);
            assert!(text.contains(words) && !text.contains("nothing is missing"), "{text}");
        }
    }

    #[test]
    fn jobs_that_nobody_reads_take_one_line() {
        assert_eq!(jobs(&Report::default()), None);
        let report = Report { jobs: vec![job("a"), job("b")], ..Report::default() };
        assert_eq!(jobs(&report).unwrap(), "2 jobs, none is being read: b, a\n");
    }
}
