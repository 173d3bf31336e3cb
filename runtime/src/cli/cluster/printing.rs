//! What was found, for people and for programs.

use rondo_core::cluster::{Accelerators, Entry, Error, Finding, Json, Report, Verdict};

use super::super::plain::plain;
use super::super::table::Table;

/// The report with the accelerators of the process.
pub(super) fn json(report: &Report, accelerators: Option<&Result<Accelerators, Error>>) -> Json {
    let mut document = report.to_json();
    let counted = |found: &Accelerators| {
        let member = |(kind, count): (&String, &u32)| (kind.clone(), Json::number(*count));
        Json::Map(found.iter().map(member).collect())
    };
    let (found, why) = match accelerators {
        None => (Json::Null, Json::Null),
        Some(Ok(found)) => (counted(found), Json::Null),
        Some(Err(error)) => (Json::Null, Json::text(error.to_string())),
    };
    if let Json::Map(members) = &mut document {
        members.push(("accelerators".to_owned(), found));
        members.push(("accelerators_unknown".to_owned(), why));
    }
    document
}

/// Tables: the process, the cluster's tasks, all sources; then contradictions.
pub(super) fn text(
    report: &Report,
    accelerators: Option<&Result<Accelerators, Error>>,
    limit: usize,
) -> String {
    let mut out = String::new();
    if let Some(finding) = report.chosen() {
        let rows = process(finding, accelerators);
        let row = |row: &(&'static str, String)| vec![row.0.to_owned(), row.1.clone()];
        let table = Table::new("Process", &["what", "value"], true);
        out += &table.fill(&rows, usize::MAX, row).to_string();
        out += &tasks(finding, limit);
    }
    let columns = ["source", "verdict", "why"];
    let table = Table::new("Sources", &columns, true);
    out += &table.fill(&report.entries, usize::MAX, source).to_string();
    for contradiction in &report.contradictions {
        out += &format!("contradiction: {contradiction}\n");
    }
    out
}

fn process(
    finding: &Finding,
    accelerators: Option<&Result<Accelerators, Error>>,
) -> Vec<(&'static str, String)> {
    let task = finding.task_type.as_ref().zip(finding.task_id);
    let number = |number: Option<u32>| number.map(|number| number.to_string());
    let process = &finding.process;
    let counted = accelerators.map(|found| match found {
        Ok(found) if found.values().all(|count| *count == 0) => "none".to_owned(),
        Ok(found) => {
            let counts = found.iter().map(|(kind, count)| format!("{count} {kind}"));
            counts.collect::<Vec<_>>().join(", ")
        }
        Err(error) => format!("unknown: {error}"),
    });
    let mut rows: Vec<(&'static str, String)> = [
        ("source", Some(finding.source.to_owned())),
        ("task", task.map(|(job, index)| format!("{job}:{index}"))),
        ("master", finding.master.clone().filter(|master| !master.is_empty())),
        ("coordinator", process.coordinator.clone()),
        ("rank", number(process.rank)),
        ("size", number(process.size)),
        ("local rank", number(process.local_rank)),
        ("local size", number(process.local_size)),
        ("node", number(process.node_rank)),
        ("nodes", number(process.nodes)),
        ("per node", number(process.per_node)),
        ("GPUs", finding.gpus.as_ref().map(|gpus| gpus.join(","))),
        ("accelerators", counted),
    ]
    .into_iter()
    .filter_map(|(name, value)| Some((name, value?)))
    .collect();
    rows.extend(finding.notes.iter().map(|note| ("note", note.clone())));
    rows
}

fn tasks(finding: &Finding, limit: usize) -> String {
    let Some(spec) = &finding.spec else { return String::new() };
    let own = finding.task_type.as_deref().zip(finding.task_id);
    let rows: Vec<(&str, u32, &str, bool)> = spec
        .iter()
        .take(limit)
        .map(|(job, index, address)| (job, index, address, own == Some((job, index))))
        .collect();
    let row = |&(job, index, address, is_own): &(&str, u32, &str, bool)| {
        let mark = if is_own { "this one" } else { "" };
        vec![job.to_owned(), index.to_string(), address.to_owned(), mark.to_owned()]
    };
    let table = Table::new("Tasks", &["job", "index", "address", ""], true);
    table.fill(&rows, limit, row).out_of(spec.tasks_count()).to_string()
}

fn source(entry: &Entry) -> Vec<String> {
    let (verdict, why) = match &entry.verdict {
        Verdict::Chosen(_) => ("chosen", String::new()),
        Verdict::Shadowed(finding) => ("shadowed", shadowed(finding)),
        Verdict::Absent(error) => ("absent", error.to_string()),
        Verdict::NotAsked => {
            ("not asked", "asking costs requests, and another one was found".to_owned())
        }
        Verdict::Broken(error) => ("broken", format!("{}: {error}", error.fault.name())),
    };
    vec![entry.source.to_owned(), verdict.to_owned(), plain(&why)]
}

/// What a source tells that comes after the chosen one.
fn shadowed(finding: &Finding) -> String {
    let process = &finding.process;
    let told = [("rank", process.rank), ("size", process.size)];
    let told: Vec<String> =
        told.into_iter().filter_map(|(name, value)| Some(format!("{name} {}", value?))).collect();
    let told = if told.is_empty() { "a cluster".to_owned() } else { told.join(", ") };
    format!("comes after the chosen one; tells {told}")
}
