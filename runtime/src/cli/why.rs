//! `rondo why`: why a job is not moving, on one screen.

use std::fmt::Write;

use clap::Args;
use rondo_core::coordination::{CoordinationTaskReport, NamespaceReport, Report, WaitReport};
use rondo_proto::admin::GetStatusResponse;
use rondo_proto::convert;

use super::ask::{ServerArgs, run};
use super::exit::{Exit, Failure};
use super::journal::say;
use super::plain::plain;
use super::status_coordination::expected;
use super::status_tables::span;
use super::why_data::Data;

/// Waits shown of one namespace; the longest come first.
const WAITS_MAX: usize = 6;
/// Failed tasks shown of one namespace.
const FAILED_MAX: usize = 4;
/// Silent tasks shown of one namespace.
const SILENT_MAX: usize = 4;
/// Connected tasks shown with when they were last heard; those heard longest ago come first.
const HEARD_MAX: usize = 4;
/// Stuck tasks shown of one namespace.
const STUCK_MAX: usize = 4;

/// The time-out of a server that does not say its own, in ms.
const TIMEOUT_MS: u64 = 100_000;
/// Keys that every task of a healthy job waits for as long as it runs: JAX's preemption notice.
const WAITED_FOR_ALWAYS: &str = "RECEIVED_PREEMPTION_NOTICE";

/// Which job of which server.
#[derive(Args, Clone, Debug, PartialEq, Eq)]
pub(super) struct WhyArgs {
    /// The namespace of a job's processes, or the name of a job that reads a dataset [default: all]
    #[arg(value_name = "JOB")]
    job: Option<String>,

    #[command(flatten)]
    server: ServerArgs,
}

/// Says why jobs are not moving.
pub(super) fn why(args: &WhyArgs) -> Result<(), Failure> {
    let status = run(args.server.status())?;
    say(text(status, args.job.as_deref())?.trim_end())
}

/// Why all jobs of a server are not moving, or the wanted one.
fn text(status: GetStatusResponse, wanted: Option<&str>) -> Result<String, Failure> {
    let mut report = convert::coordination_report(status.coordination.unwrap_or_default());
    let uptime_ms = status.server.map_or(0, |server| server.uptime_ms);
    let mut data = convert::report(status.dispatcher.unwrap_or_default());
    if let Some(wanted) = wanted {
        report.namespaces.retain(|namespace| namespace.name == wanted);
        data.jobs.retain(|job| job.name == wanted);
        data.freed_jobs.retain(|job| job.name == wanted);
        if report.namespaces.is_empty() && data.jobs.is_empty() && data.freed_jobs.is_empty() {
            let text = format!("no namespace {wanted:?} has had a task, and no job has this name");
            return Err(Failure::new(Exit::Other, text));
        }
    }
    Ok(render(&report, &Data { report: &data, uptime_ms }))
}

fn render(report: &Report, data: &Data<'_>) -> String {
    let mut parts: Vec<String> = report.namespaces.iter().map(one).collect();
    parts.extend(data.text());
    if parts.is_empty() {
        return "no task has called, and no job reads a dataset\n".into();
    }
    parts.join("\n")
}

/// Connected tasks that have not been heard for long: more than a heartbeat is missing. JAX's tasks send one
/// in half of their own time-out, which is not above the server's.
fn silent(namespace: &NamespaceReport) -> Vec<&CoordinationTaskReport> {
    let after_ms = silent_after_ms(namespace);
    let is_silent = |task: &&CoordinationTaskReport| {
        task.state == "connected" && task.silent_ms.is_some_and(|silent| silent >= after_ms)
    };
    namespace.tasks.iter().filter(is_silent).collect()
}

/// After how long a connected task is called silent, in ms.
fn silent_after_ms(namespace: &NamespaceReport) -> u64 {
    namespace.heartbeat_timeout_ms.unwrap_or(TIMEOUT_MS) / 5 * 3
}

fn one(namespace: &NamespaceReport) -> String {
    let mut text = head(namespace);
    for line in reasons(namespace) {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "  {}", plain(&line));
    }
    text
}

fn head(namespace: &NamespaceReport) -> String {
    let name = &namespace.name;
    if namespace.tasks.is_empty() && namespace.tasks_expected.is_none() {
        let (keys, calls) = (namespace.keys, namespace.waiting_calls);
        return format!("{name}: {keys} keys, {calls} calls wait; no tasks register here\n");
    }
    let silent = silent(namespace).len();
    let silent = if silent > 0 { format!(" ({silent} of them silent)") } else { String::new() };
    format!(
        "{name}: {} of {} tasks connected{silent}, life {}\n",
        namespace.tasks_connected,
        expected(namespace),
        namespace.life
    )
}

fn reasons(namespace: &NamespaceReport) -> Vec<String> {
    let mut lines = Vec::new();
    if let Some(error) = &namespace.error {
        lines.push(format!("FAILED, and every task is told so: {error}"));
    }
    if !namespace.never_registered.is_empty() {
        lines.push(format!("never registered: tasks {}", namespace.never_registered));
    }
    let failed: Vec<_> = namespace.tasks.iter().filter(|task| task.error.is_some()).collect();
    lines.extend(failed.iter().take(FAILED_MAX).map(|task| in_error(task)));
    lines.extend(more(failed.len(), FAILED_MAX, "tasks in error"));
    let silent = silent(namespace);
    lines.extend(silent.iter().take(SILENT_MAX).map(|task| has_been_silent(task)));
    lines.extend(more(silent.len(), SILENT_MAX, "silent tasks"));
    let stuck: Vec<_> = namespace.tasks.iter().filter(|task| task.stuck.is_some()).collect();
    lines.extend(stuck.iter().take(STUCK_MAX).map(|task| is_stuck(task)));
    lines.extend(more(stuck.len(), STUCK_MAX, "stuck tasks"));
    let waits: Vec<_> =
        namespace.waits.iter().filter(|it| !it.what.contains(WAITED_FOR_ALWAYS)).collect();
    lines.extend(waits.iter().take(WAITS_MAX).flat_map(|it| wait(it)));
    lines.extend(more(waits.len(), WAITS_MAX, "waits"));
    if lines.is_empty() {
        lines.push("nobody waits for anything here".into());
    }
    lines.extend(last_heard(namespace));
    lines
}

/// When the connected tasks were last heard, but for those that are named as silent: nothing else tells a
/// task that died a moment ago from a healthy one.
fn last_heard(namespace: &NamespaceReport) -> Option<String> {
    let after_ms = silent_after_ms(namespace);
    let is_heard = |task: &&CoordinationTaskReport| {
        task.state == "connected" && task.silent_ms.is_none_or(|silent| silent < after_ms)
    };
    let mut tasks: Vec<_> = namespace.tasks.iter().filter(is_heard).collect();
    tasks.sort_by_key(|task| std::cmp::Reverse(task.silent_ms.unwrap_or(u64::MAX)));
    let one = |task: &&CoordinationTaskReport| match task.silent_ms {
        Some(ms) => format!("task {} {} ago", task.task, span(ms)),
        None => format!("task {} not since the server's start", task.task),
    };
    let shown: Vec<String> = tasks.iter().take(HEARD_MAX).map(one).collect();
    let left = tasks.len().saturating_sub(HEARD_MAX);
    let left = if left > 0 { format!(" and {left} others no earlier") } else { String::new() };
    let timeout = namespace.heartbeat_timeout_ms.map(|ms| format!(", {}", span(ms)));
    let (shown, timeout) = (shown.join(", "), timeout.unwrap_or_default());
    (!shown.is_empty()).then(|| {
        format!(
            "last heard: {shown}{left}. A dead task counts as connected until its time-out{timeout}"
        )
    })
}

fn more(all: usize, shown: usize, what: &str) -> Option<String> {
    let left = all.checked_sub(shown).filter(|left| *left > 0)?;
    Some(format!("… and {left} more {what}: rondo status shows them"))
}

/// A task with the address it last spoke from.
fn named(task: &CoordinationTaskReport) -> String {
    let peer = task.peer.as_ref().map_or_else(String::new, |peer| format!(" at {peer}"));
    format!("task {}{peer}", task.task)
}

fn in_error(task: &CoordinationTaskReport) -> String {
    let error = task.error.as_deref().unwrap_or_default();
    format!("{} in error for {}: {error}", named(task), span(task.since_ms))
}

fn has_been_silent(task: &CoordinationTaskReport) -> String {
    let silent = span(task.silent_ms.unwrap_or_default());
    format!(
        "{} has not been heard for {silent}: its process or the way to it may be gone. It counts as \
         connected until its time-out",
        named(task)
    )
}

fn is_stuck(task: &CoordinationTaskReport) -> String {
    let how = task.stuck.as_deref().unwrap_or_default();
    format!("{} is STUCK: {how}", named(task))
}

fn wait(wait: &WaitReport) -> Vec<String> {
    let left = wait.remaining_ms.map_or_else(|| "no end".into(), span);
    let mut lines = vec![match wait.kind.as_str() {
        "barrier" => format!(
            "barrier {}: for {} ({left} left), tasks {} wait for tasks {}",
            wait.what,
            span(wait.waiting_ms),
            wait.came,
            wait.missing
        ),
        kind => {
            let (what, for_) = (&wait.what, span(wait.waiting_ms));
            format!("{kind} {what}: for {for_}, {} calls wait until it is put", wait.calls)
        }
    }];
    if !wait.about_missing.is_empty() {
        lines.push(format!("  missing: {}", wait.about_missing));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use rondo_core::coordination::TaskWait;
    use rondo_core::dispatcher;
    use rondo_proto::admin as wire;

    fn told(namespace: NamespaceReport) -> String {
        let report = Report { namespaces: vec![namespace] };
        render(&report, &Data { report: &dispatcher::Report::default(), uptime_ms: 0 })
    }

    fn task(number: i32, silent_ms: u64) -> CoordinationTaskReport {
        CoordinationTaskReport {
            task: number,
            state: "connected".into(),
            since_ms: 0,
            incarnation: "9".into(),
            recoverable: false,
            peer: Some("10.0.0.4:9".into()),
            silent_ms: Some(silent_ms),
            last_did: None,
            last_did_ms: None,
            error: None,
            progress: None,
            progress_ms: None,
            stuck: None,
        }
    }

    #[test]
    fn a_silent_task_is_named_though_it_counts_as_connected() {
        let mut namespace = stuck();
        // A task of JAX before 0.7 is heard each 50 s.
        namespace.tasks = vec![task(0, 51_000), task(1, 72_000)];
        let text = told(namespace);
        assert!(text.contains("2 of 3 tasks connected (1 of them silent)"), "{text}");
        assert!(text.contains("task 1 at 10.0.0.4:9 has not been heard for 1 min 12 s"), "{text}");
        assert!(!text.contains("task 0 at"), "{text}");
    }

    /// A killed task counts as connected until its time-out. What is known of it is when it was heard.
    #[test]
    fn when_connected_tasks_were_last_heard_is_said() {
        let mut namespace = NamespaceReport { tasks_connected: 3, waits: Vec::new(), ..stuck() };
        namespace.never_registered = String::new();
        let unheard = CoordinationTaskReport { silent_ms: None, ..task(2, 0) };
        namespace.tasks = vec![task(0, 31_000), task(1, 42_000), unheard];
        let text = told(namespace.clone());
        assert!(text.contains("3 of 3 tasks connected, life 2"), "{text}");
        let line = "last heard: task 2 not since the server's start, task 1 42 s ago, task 0 31 s ago. A \
                    dead task counts as connected until its time-out, 1 min 40 s\n";
        assert!(text.contains(line), "{text}");
        // Task 8 is named as silent by its own line, and task 0 is not connected.
        namespace.tasks = (0..9).map(|number| task(number, 1_000)).collect();
        namespace.tasks[7] = task(7, 30_000);
        namespace.tasks[8] = task(8, 90_000);
        namespace.tasks[0].state = "disconnected".into();
        let text = told(namespace);
        let line = "last heard: task 7 30 s ago, task 1 1 s ago, task 2 1 s ago, task 3 1 s ago and 3 \
                    others no earlier. A dead";
        assert!(text.contains(line), "{text}");
    }

    #[test]
    fn a_connected_task_is_either_silent_or_last_heard() {
        for silent_ms in [59_999, 60_000] {
            let namespace = NamespaceReport { tasks: vec![task(7, silent_ms)], ..stuck() };
            let text = told(namespace);
            let is_silent = text.contains("task 7 at");
            assert_ne!(is_silent, text.contains("last heard: task 7"), "{text}");
            assert_eq!(is_silent, silent_ms == 60_000, "{text}");
        }
    }

    #[test]
    fn how_long_a_task_may_be_silent_follows_from_the_servers_timeout() {
        let namespace = NamespaceReport { tasks: vec![task(0, 13_000)], ..stuck() };
        let told_with = |heartbeat_timeout_ms| {
            told(NamespaceReport { heartbeat_timeout_ms, ..namespace.clone() })
        };
        assert!(told_with(Some(20_000)).contains("1 of them silent"));
        assert!(!told_with(Some(30_000)).contains("silent"));
        // A server of a former release says nothing of it.
        assert!(!told_with(None).contains("silent"));
    }

    #[test]
    fn what_a_healthy_job_waits_for_is_no_reason() {
        let mut namespace = stuck();
        namespace.never_registered = String::new();
        namespace.waits[0].kind = "key".into();
        namespace.waits[0].what = "RECEIVED_PREEMPTION_NOTICE".into();
        let text = told(namespace);
        assert!(text.contains("nobody waits for anything here"), "{text}");
    }

    #[test]
    fn a_namespace_of_keys_alone_has_no_tasks_to_count() {
        let namespace = NamespaceReport { tasks_expected: None, keys: 7, ..stuck() };
        let text = told(namespace);
        assert!(text.contains("default: 7 keys, 2 calls wait; no tasks register here"), "{text}");
    }

    fn stuck() -> NamespaceReport {
        NamespaceReport {
            name: "default".into(),
            life: 2,
            incarnation: "77".into(),
            tasks_expected: Some(3),
            tasks_connected: 2,
            never_registered: "2".into(),
            tasks: Vec::new(),
            waits: vec![WaitReport {
                kind: "barrier".into(),
                what: "step::4".into(),
                waiting_ms: 12_000,
                remaining_ms: Some(48_000),
                came: "0-1".into(),
                missing: "2".into(),
                about_missing: "task 2: at 10.0.0.3:7, last heard 40.0 s ago".into(),
                waits: vec![TaskWait { task: 0, waiting_ms: 12_000 }],
                calls: 2,
            }],
            error: None,
            keys: 0,
            size_bytes: 0,
            revision: 0,
            waiting_calls: 2,
            heartbeat_timeout_ms: Some(100_000),
        }
    }

    #[test]
    fn the_missing_task_is_named_with_its_host_and_since_when() {
        let text = told(stuck());
        for part in [
            "2 of 3 tasks connected",
            "never registered: tasks 2",
            "step::4",
            "0-1",
            "at 10.0.0.3:7",
            "last heard 40.0 s ago",
        ] {
            assert!(text.contains(part), "{part} in {text}");
        }
    }

    #[test]
    fn a_stuck_task_is_named_with_its_host_and_where_it_is() {
        let mut namespace = stuck();
        namespace.tasks = vec![CoordinationTaskReport {
            progress: Some("1041".into()),
            progress_ms: Some(312_000),
            stuck: Some("its key step/1 has been 1041 for 312.0 s".into()),
            ..task(1, 10)
        }];
        let text = told(namespace.clone());
        let line = "task 1 at 10.0.0.4:9 is STUCK: its key step/1 has been 1041 for 312.0 s";
        assert!(text.contains(line), "{text}");
        namespace.tasks = vec![namespace.tasks[0].clone(); 100];
        let text = told(namespace);
        assert!(text.contains("96 more stuck tasks") && text.lines().count() < 24, "{text}");
    }

    #[test]
    fn a_task_that_is_not_connected_is_not_silent() {
        let gone = CoordinationTaskReport { state: "disconnected".into(), ..task(1, 200_000) };
        let text = told(NamespaceReport { tasks: vec![gone], ..stuck() });
        assert!(!text.contains("silent") && !text.contains("has not been heard"), "{text}");
    }

    /// The status of a server that has run for fifty seconds. It has a freed job, and one that is read.
    fn status() -> GetStatusResponse {
        let job = wire::JobStatus { name: "train".into(), ..Default::default() };
        let iteration = wire::IterationStatus {
            id: 2000,
            job: "train".into(),
            state: "running".into(),
            clients: 1,
            tasks: 1,
            ..Default::default()
        };
        let task = wire::TaskStatus {
            iteration: 2000,
            worker: "w:1".into(),
            state: "running".into(),
            ..Default::default()
        };
        let worker = wire::WorkerStatus { address: "w:1".into(), ..Default::default() };
        let freed = wire::FreedJobStatus { name: "old".into(), ..Default::default() };
        GetStatusResponse {
            server: Some(wire::ServerStatus { uptime_ms: 50_000, ..Default::default() }),
            dispatcher: Some(wire::DispatcherStatus {
                jobs: vec![job],
                iterations: vec![iteration],
                tasks: vec![task],
                workers: vec![worker],
                freed_jobs: vec![freed],
                ..Default::default()
            }),
            ..Default::default()
        }
    }

    #[test]
    fn a_worker_that_the_server_has_not_heard_is_named_once_the_server_has_run_for_long() {
        let text = text(status(), None).unwrap();
        assert!(text.starts_with("train, repetition 0: 1 clients"), "{text}");
        assert!(text.contains("w:1 since the server began 50 s ago"), "{text}");
    }

    #[test]
    fn one_job_is_shown_if_it_is_named_and_a_name_that_nothing_has_is_refused() {
        let text = |wanted| text(status(), Some(wanted));
        assert_eq!(text("old").unwrap(), "old: freed: nobody had begun to read it\n");
        assert!(!text("train").unwrap().contains("old"));
        let refused = text("other").unwrap_err();
        assert_eq!(refused.exit, Exit::Other);
        assert!(refused.text.contains("no job has this name"), "{}", refused.text);
    }

    #[test]
    fn it_stays_on_one_screen() {
        let mut namespace = stuck();
        namespace.waits = vec![namespace.waits[0].clone(); 100];
        let text = told(namespace);
        assert!(text.lines().count() < 24, "{text}");
        assert!(text.contains("94 more waits"), "{text}");
    }
}
