//! A server's namespaces as tables.

use rondo_core::coordination::{CoordinationTaskReport, NamespaceReport, WaitReport};

use super::status_tables::{heard, or_dash, size, span};
use super::table::Table;

/// Namespaces, one a row.
pub(super) fn namespaces(all: &[NamespaceReport], limit: usize, wide: bool) -> String {
    let columns = ["name", "life", "tasks", "keys", "size", "waiting", "error", "incarnation"];
    let row = |namespace: &NamespaceReport| {
        vec![
            namespace.name.clone(),
            namespace.life.to_string(),
            format!("{}/{}", namespace.tasks_connected, expected(namespace)),
            namespace.keys.to_string(),
            size(namespace.size_bytes),
            namespace.waiting_calls.to_string(),
            or_dash(namespace.error.as_ref()),
            namespace.incarnation.clone(),
        ]
    };
    Table::new("Namespaces", &columns, wide).fill(all, limit, row).to_string()
}

/// How many tasks there will be, if known.
pub(super) fn expected(namespace: &NamespaceReport) -> String {
    namespace.tasks_expected.map_or_else(|| "?".into(), |tasks| tasks.to_string())
}

/// Tasks of all namespaces, one a row.
pub(super) fn tasks(all: &[NamespaceReport], limit: usize, wide: bool) -> String {
    let columns = [
        "namespace",
        "task",
        "state",
        "since",
        "heard",
        "peer",
        "last did",
        "ago",
        "progress",
        "error",
    ];
    let of = |namespace: &NamespaceReport| {
        let name = namespace.name.clone();
        let named = move |task: &CoordinationTaskReport| (name.clone(), task.clone());
        namespace.tasks.iter().map(named).collect::<Vec<_>>()
    };
    let rows: Vec<_> = all.iter().flat_map(of).collect();
    let row = |(namespace, task): &(String, CoordinationTaskReport)| {
        vec![
            namespace.clone(),
            task.task.to_string(),
            state(task),
            span(task.since_ms),
            heard(task.silent_ms),
            or_dash(task.peer.as_ref()),
            or_dash(task.last_did.as_ref()),
            task.last_did_ms.map_or_else(|| "-".into(), span),
            or_dash(task.stuck.as_ref().or(task.progress.as_ref())),
            or_dash(task.error.as_ref()),
        ]
    };
    Table::new("Coordinated tasks", &columns, wide).fill(&rows, limit, row).to_string()
}

fn state(task: &CoordinationTaskReport) -> String {
    match (&*task.state, &task.stuck) {
        ("error", _) => "ERROR".into(),
        (state, Some(_)) => format!("{state}, STUCK"),
        (state, None) => state.into(),
    }
}

/// What tasks wait for, in all namespaces, one a row.
pub(super) fn waits(all: &[NamespaceReport], limit: usize, wide: bool) -> String {
    let columns = ["namespace", "waits for", "since", "left", "came", "missing"];
    let of = |namespace: &NamespaceReport| {
        let name = namespace.name.clone();
        let named = move |wait: &WaitReport| (name.clone(), wait.clone());
        namespace.waits.iter().map(named).collect::<Vec<_>>()
    };
    let rows: Vec<_> = all.iter().flat_map(of).collect();
    let row = |(namespace, wait): &(String, WaitReport)| {
        vec![
            namespace.clone(),
            format!("{} {}", wait.kind, wait.what),
            span(wait.waiting_ms),
            wait.remaining_ms.map_or_else(|| "-".into(), span),
            wait.came.clone(),
            wait.missing.clone(),
        ]
    };
    Table::new("Waits", &columns, wide).fill(&rows, limit, row).to_string()
}
