//! `rondo why`: why a job is not moving, on one screen.

use std::fmt::Write;

use clap::Args;
use rondo_core::coordination::{CoordinationTaskReport, NamespaceReport, Report, WaitReport};

use super::ask::{ServerArgs, run};
use super::exit::{Exit, Failure};
use super::journal::say;
use super::namespace::report;
use super::plain::plain;
use super::status_coordination::expected;
use super::status_tables::span;

/// Waits shown of one namespace; the longest come first.
const WAITS_MAX: usize = 6;
/// Failed tasks shown of one namespace.
const FAILED_MAX: usize = 4;
/// Stuck tasks shown of one namespace.
const STUCK_MAX: usize = 4;

/// Which job of which server.
#[derive(Args, Clone, Debug, PartialEq, Eq)]
pub(super) struct WhyArgs {
    /// The namespace of the job [default: all]
    #[arg(value_name = "NAMESPACE")]
    namespace: Option<String>,

    #[command(flatten)]
    server: ServerArgs,
}

/// Says why jobs are not moving.
pub(super) fn why(args: &WhyArgs) -> Result<(), Failure> {
    let mut report = run(report(&args.server))?;
    if let Some(wanted) = &args.namespace {
        report.namespaces.retain(|namespace| namespace.name == *wanted);
        if report.namespaces.is_empty() {
            let text = format!("no namespace {wanted:?} has had a task yet");
            return Err(Failure::new(Exit::Other, text));
        }
    }
    say(render(&report).trim_end())
}

fn render(report: &Report) -> String {
    if report.namespaces.is_empty() {
        return "no task has ever called\n".into();
    }
    report.namespaces.iter().map(one).collect::<Vec<_>>().join("\n")
}

fn one(namespace: &NamespaceReport) -> String {
    let mut text = format!(
        "{}: {} of {} tasks connected, life {}\n",
        namespace.name,
        namespace.tasks_connected,
        expected(namespace),
        namespace.life
    );
    for line in reasons(namespace) {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "  {}", plain(&line));
    }
    text
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
    let stuck: Vec<_> = namespace.tasks.iter().filter(|task| task.stuck.is_some()).collect();
    lines.extend(stuck.iter().take(STUCK_MAX).map(|task| is_stuck(task)));
    lines.extend(more(stuck.len(), STUCK_MAX, "stuck tasks"));
    lines.extend(namespace.waits.iter().take(WAITS_MAX).flat_map(wait));
    lines.extend(more(namespace.waits.len(), WAITS_MAX, "waits"));
    if lines.is_empty() {
        lines.push("nobody waits for anything here".into());
    }
    lines
}

fn more(all: usize, shown: usize, what: &str) -> Option<String> {
    let left = all.checked_sub(shown).filter(|left| *left > 0)?;
    Some(format!("… and {left} more {what}: rondo status shows them"))
}

fn in_error(task: &CoordinationTaskReport) -> String {
    let peer = task.peer.as_ref().map_or_else(String::new, |peer| format!(" at {peer}"));
    let error = task.error.as_deref().unwrap_or_default();
    format!("task {}{peer} in error for {}: {error}", task.task, span(task.since_ms))
}

fn is_stuck(task: &CoordinationTaskReport) -> String {
    let peer = task.peer.as_ref().map_or_else(String::new, |peer| format!(" at {peer}"));
    let how = task.stuck.as_deref().unwrap_or_default();
    format!("task {}{peer} is STUCK: {how}", task.task)
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
        }
    }

    #[test]
    fn the_missing_task_is_named_with_its_host_and_since_when() {
        let text = render(&Report { namespaces: vec![stuck()] });
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
            task: 1,
            state: "connected".into(),
            since_ms: 0,
            incarnation: "9".into(),
            recoverable: false,
            peer: Some("10.0.0.4:9".into()),
            silent_ms: Some(10),
            last_did: None,
            last_did_ms: None,
            error: None,
            progress: Some("1041".into()),
            progress_ms: Some(312_000),
            stuck: Some("its key step/1 has been 1041 for 312.0 s".into()),
        }];
        let text = render(&Report { namespaces: vec![namespace.clone()] });
        let line = "task 1 at 10.0.0.4:9 is STUCK: its key step/1 has been 1041 for 312.0 s";
        assert!(text.contains(line), "{text}");
        namespace.tasks = vec![namespace.tasks[0].clone(); 100];
        let text = render(&Report { namespaces: vec![namespace] });
        assert!(text.contains("96 more stuck tasks") && text.lines().count() < 24, "{text}");
    }

    #[test]
    fn it_stays_on_one_screen() {
        let mut namespace = stuck();
        namespace.waits = vec![namespace.waits[0].clone(); 100];
        let text = render(&Report { namespaces: vec![namespace] });
        assert!(text.lines().count() < 24, "{text}");
        assert!(text.contains("94 more waits"), "{text}");
    }
}
