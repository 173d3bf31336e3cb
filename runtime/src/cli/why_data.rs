//! Why jobs that read datasets are not moving.

use std::fmt::Write;

use rondo_core::dispatcher::{
    ClientReport, FreedJobReport, IterationReport, JobReport, Report, TaskReport, WorkerReport,
};

use super::plain::plain;
use super::status_tables::span;

/// Iterations shown; the newest come first.
const ITERATIONS_MAX: usize = 6;
/// A worker that was not heard for so long is named, in ms. TensorFlow's workers send a heartbeat each 30 s,
/// and Rondo's each 5 s: no healthy one is silent for one and a half of the longer interval. A server loses
/// a worker after 1 min by default, or after three of its own intervals if that is longer, so a dead one is
/// named before it counts as lost. The status has neither the intervals nor the server's time-out.
const WORKER_SILENT_MS: u64 = 45_000;
/// A client that was not heard for so long is counted, in ms. Rondo's readers and TensorFlow's send a
/// heartbeat each second.
const CLIENT_SILENT_MS: u64 = 20_000;
/// Workers, or jobs that nobody reads, named at once.
const NAMED_MAX: usize = 4;

/// A dispatcher, as its status shows it.
pub(super) struct Data<'a> {
    pub(super) report: &'a Report,
    /// How long its process has run.
    pub(super) uptime_ms: u64,
}

impl Data<'_> {
    /// Says what each unfinished job waits for.
    pub(super) fn text(&self) -> Option<String> {
        let report = self.report;
        let of_jobs = |it: &&IterationReport| {
            it.state == "running" && report.jobs.iter().any(|job| job.name == it.job)
        };
        let running: Vec<_> = report.iterations.iter().rev().filter(of_jobs).collect();
        if running.is_empty() {
            return idle(report);
        }
        let mut text = String::new();
        for iteration in running.iter().take(ITERATIONS_MAX) {
            self.one(iteration, &mut text);
        }
        if let Some(left) = running.len().checked_sub(ITERATIONS_MAX).filter(|left| *left > 0) {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "… and {left} more iterations: rondo status shows them");
        }
        Some(text)
    }

    fn one(&self, iteration: &IterationReport, text: &mut String) {
        let report = self.report;
        let tasks: Vec<_> = report.tasks.iter().filter(|it| it.iteration == iteration.id).collect();
        let clients: Vec<_> =
            report.clients.iter().filter(|it| it.iteration == iteration.id).collect();
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
        let about_workers = about_workers(&report.workers, &tasks, self.uptime_ms);
        let mut lines: Vec<String> =
            about_workers.into_iter().chain(reasons(iteration, &clients)).collect();
        if lines.is_empty() {
            let text = "nothing is known to be missing: it goes as fast as its workers and clients";
            lines.push(text.into());
        }
        lines.extend(silence(&report.workers, &tasks, &clients));
        for line in lines {
            let _ = writeln!(text, "  {}", plain(&line));
        }
    }
}

/// Says how far the jobs are when nobody reads any.
fn idle(report: &Report) -> Option<String> {
    let jobs = report.jobs.iter().rev().map(|job| (&job.name, state_of(job, &report.iterations)));
    let freed = report.freed_jobs.iter().map(|job| (&job.name, state_of_freed(job)));
    let lines = jobs.chain(freed).map(|(name, state)| format!("{}: {state}", plain(name)));
    let lines: Vec<String> = lines.collect();
    let mut shown =
        lines.iter().take(NAMED_MAX).fold(String::new(), |text, line| text + line + "\n");
    if let Some(left) = lines.len().checked_sub(NAMED_MAX).filter(|left| *left > 0) {
        // Writing to a string cannot fail.
        let _ = writeln!(shown, "… and {left} more jobs, none is being read: rondo job list");
    }
    (!lines.is_empty()).then_some(shown)
}

/// Says how far a job is that nobody reads.
fn state_of(job: &JobReport, iterations: &[IterationReport]) -> String {
    match iterations.iter().rev().find(|it| it.job == job.name) {
        None => {
            let known = read_or_given_up(&job.finished, &job.abandoned);
            known.unwrap_or_else(|| "nobody has begun to read it".into())
        }
        Some(it) if it.state == "finished" => {
            format!("finished: repetition {} was read to its end", it.repetition)
        }
        Some(it) => format!(
            "repetition {} ended before its end: it was given up, or set back to a position",
            it.repetition
        ),
    }
}

/// How far a job was that was freed since.
fn state_of_freed(job: &FreedJobReport) -> String {
    let known = read_or_given_up(&job.finished, &job.abandoned);
    format!("freed: {}", known.as_deref().unwrap_or("nobody had begun to read it"))
}

/// Which repetitions of a job were read, and which given up.
fn read_or_given_up(finished: &[String], abandoned: &[String]) -> Option<String> {
    let of = |what: &str, ranges: &[String]| {
        (!ranges.is_empty()).then(|| format!("repetitions {what}: {}", ranges.join(", ")))
    };
    let read = of("read to their end", finished);
    let given_up = of("given up before their end", abandoned);
    let known: Vec<String> = read.into_iter().chain(given_up).collect();
    (!known.is_empty()).then(|| known.join("; "))
}

fn reasons(of: &IterationReport, clients: &[&ClientReport]) -> Vec<String> {
    let mut lines = Vec::new();
    if of.clients == 0 {
        lines.push("no client reads it".into());
    }
    let silent = clients.iter().filter(|it| it.silent_ms.is_some_and(|ms| ms >= CLIENT_SILENT_MS));
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
    lines
}

/// Says what is wrong with the workers that an iteration needs. A worker may have spoken to a former process
/// of the server only: it counts as silent once this process has run for long.
fn about_workers(
    workers: &[WorkerReport],
    tasks: &[&TaskReport],
    uptime_ms: u64,
) -> Option<String> {
    let live = workers.iter().filter(|worker| !worker.lost);
    match (workers.len(), live.clone().count()) {
        (0, _) => return Some("no worker is registered".into()),
        (all, 0) => return Some(format!("all {all} workers are lost")),
        _ => {}
    }
    if tasks.is_empty() {
        return Some("no worker has a task of it".into());
    }
    let silent = live.filter(|it| has_unfinished(it, tasks));
    let silent = silent.filter(|it| it.silent_ms.unwrap_or(uptime_ms) >= WORKER_SILENT_MS);
    let for_how_long = |it: &WorkerReport| match it.silent_ms {
        Some(ms) => format!("{} for {}", it.address, span(ms)),
        None => format!("{} since the server began {} ago", it.address, span(uptime_ms)),
    };
    let named: Vec<String> = silent.clone().take(NAMED_MAX).map(for_how_long).collect();
    let count = silent.count();
    (count > 0).then(|| format!("{count} of its workers have not been heard: {}", named.join(", ")))
}

/// Whether a worker has a task among these that is not finished.
fn has_unfinished(worker: &WorkerReport, tasks: &[&TaskReport]) -> bool {
    tasks.iter().any(|task| task.worker == worker.address && task.state != "finished")
}

/// Says how old the server's knowledge of workers and clients is: one that died a moment ago looks like a
/// healthy one.
fn silence(
    workers: &[WorkerReport],
    tasks: &[&TaskReport],
    clients: &[&ClientReport],
) -> Option<String> {
    let workers = workers.iter().filter(|it| !it.lost && has_unfinished(it, tasks));
    let silences = workers.map(|it| it.silent_ms).chain(clients.iter().map(|it| it.silent_ms));
    let silences: Vec<Option<u64>> = silences.collect();
    let of = "its clients and of the workers that work for it";
    let longest = silences.iter().flatten().max();
    let longest = longest.map(|ms| format!("the longest silence of {of} is {}", span(*ms)));
    let unheard = silences.iter().filter(|it| it.is_none()).count();
    let unheard = (unheard > 0)
        .then(|| format!("{unheard} of {of} have sent no heartbeat since the server's start"));
    let known: Vec<String> = longest.into_iter().chain(unheard).collect();
    (!known.is_empty()).then(|| known.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(name: &str) -> JobReport {
        JobReport {
            id: 5000,
            first_id: Some(5000),
            name: name.into(),
            dataset: "data".into(),
            sharding: "DYNAMIC".into(),
            consumers: None,
            target_workers: "AUTO".into(),
            use_cross_trainer_cache: false,
            finished: Vec::new(),
            abandoned: Vec::new(),
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
        let (jobs, iterations) = (vec![job("train")], vec![iteration]);
        text(&Report { workers, tasks, jobs, iterations, ..Report::default() }).unwrap()
    }

    #[test]
    fn a_worker_that_has_not_been_heard_is_given_time_when_the_server_begins() {
        let unheard = WorkerReport { silent_ms: None, ..worker("w:1", 0, false) };
        let task = TaskReport {
            id: 4000,
            iteration: 2000,
            worker: "w:1".into(),
            state: "running".into(),
            starting_round: 0,
        };
        let report = Report {
            workers: vec![unheard],
            tasks: vec![task],
            jobs: vec![job("train")],
            iterations: vec![running("train")],
            ..Report::default()
        };
        let text = Data { report: &report, uptime_ms: 5_000 }.text().unwrap();
        assert!(text.contains("nothing is known to be missing"), "{text}");
        let words = "1 of its clients and of the workers that work for it have sent no heartbeat";
        assert!(text.contains(words), "{text}");
    }

    /// TensorFlow's workers send a heartbeat each 30 s.
    #[test]
    fn a_worker_is_not_named_between_two_heartbeats_of_tensorflow() {
        for silent_ms in [29_000, 31_000, 44_000] {
            let text = told(vec![worker("w:1", silent_ms, false)], running("train"));
            assert!(text.contains("nothing is known to be missing"), "{text}");
            assert!(!text.contains("w:1"), "{text}");
        }
        let text = told(vec![worker("w:1", 46_000, false)], running("train"));
        assert!(text.contains("1 of its workers have not been heard: w:1 for 46 s"), "{text}");
    }

    /// A worker or client that has just died is not missing yet: the reader can tell from its silence.
    #[test]
    fn it_is_said_how_long_workers_and_clients_have_been_silent() {
        let text =
            told(vec![worker("w:1", 4_000, false), worker("w:2", 38_000, false)], running("train"));
        let words =
            "the longest silence of its clients and of the workers that work for it is 38 s";
        assert!(text.contains(words), "{text}");
        assert!(!text.contains("no heartbeat"), "{text}");
        // It may also be silence that keeps readers from acknowledging what they hold.
        let held = IterationReport { splits_held: 3, ..running("train") };
        let text = told(vec![worker("w:2", 38_000, false)], held);
        assert!(text.contains(words) && text.contains("readers hold 3 splits"), "{text}");
    }

    /// A lost worker's tasks are left to others: its silence says nothing of those that go on.
    #[test]
    fn the_silence_of_a_lost_worker_is_not_told() {
        let (live, lost) = (worker("w:1", 4_000, false), worker("w:2", 90_000, true));
        let task = |id: i64, worker: &WorkerReport| TaskReport {
            id,
            iteration: 2000,
            worker: worker.address.clone(),
            state: "running".into(),
            starting_round: 0,
        };
        let tasks = vec![task(4000, &live), task(4001, &lost)];
        let (jobs, iterations) = (vec![job("train")], vec![running("train")]);
        let workers = vec![live, lost];
        let all = Report { workers, tasks, jobs, iterations, ..Report::default() };
        let text = text(&all).unwrap();
        let words = "the longest silence of its clients and of the workers that work for it is 4 s";
        assert!(text.contains(words), "{text}");
    }

    /// The text of `rondo why` for a server that began 50 s ago.
    fn text(report: &Report) -> Option<String> {
        Data { report, uptime_ms: 50_000 }.text()
    }

    #[test]
    fn what_a_job_lacks_is_said() {
        for (workers, words) in [
            (vec![], "no worker is registered"),
            (vec![worker("w:1", 90_000, true)], "all 1 workers are lost"),
            (
                vec![worker("w:1", 52_000, false)],
                "1 of its workers have not been heard: w:1 for 52 s",
            ),
            (
                vec![WorkerReport { silent_ms: None, ..worker("w:1", 0, false) }],
                "1 of its workers have not been heard: w:1 since the server began 50 s ago",
            ),
            (vec![worker("w:1", 4_000, false)], "nothing is known to be missing"),
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
            assert!(text.contains(words) && !text.contains("nothing is known"), "{text}");
        }
    }

    #[test]
    fn of_jobs_that_nobody_reads_it_is_said_how_far_they_are() {
        assert_eq!(text(&Report::default()), None);
        let over = |job: &str, repetition, state: &str| IterationReport {
            repetition,
            state: state.into(),
            ..running(job)
        };
        let report = Report {
            jobs: vec![
                job("a"),
                job("b"),
                job("c"),
                JobReport { finished: vec!["0".into()], ..job("f") },
            ],
            iterations: vec![
                over("b", 0, "finished"),
                over("b", 1, "finished"),
                over("c", 0, "collected"),
            ],
            freed_jobs: vec![FreedJobReport {
                name: "d".into(),
                id: Some(4000),
                first_id: Some(4000),
                finished: vec!["0-4".into()],
                abandoned: vec!["5".into()],
            }],
            ..Report::default()
        };
        let lines = "f: repetitions read to their end: 0\n\
                     c: repetition 0 ended before its end: it was given up, or set back to a \
                     position\n\
                     b: finished: repetition 1 was read to its end\n\
                     a: nobody has begun to read it\n\
                     … and 1 more jobs, none is being read: rondo job list\n";
        assert_eq!(text(&report).unwrap(), lines);
        let freed = Report { jobs: Vec::new(), ..report };
        let line = "d: freed: repetitions read to their end: 0-4; repetitions given up before their \
                    end: 5\n";
        assert_eq!(text(&freed).unwrap(), line);
        let many = Report { jobs: vec![job("e"); 9], ..Report::default() };
        let text = text(&many).unwrap();
        assert!(text.contains("… and 5 more jobs") && text.lines().count() == 5, "{text}");
    }
}
