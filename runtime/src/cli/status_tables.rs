//! A server's status as tables.

use rondo_core::dispatcher::{
    ClientReport, DatasetReport, FreedJobReport, IterationReport, JobReport, SourceReport,
    TaskReport, WorkerReport,
};

use super::status::{Section, ServerStatus, Status};
use super::status_coordination as coordination;
use super::table::Table;

/// The chosen sections as text.
pub(super) fn render(status: &Status, sections: &[Section], limit: usize, wide: bool) -> String {
    let section = |section: &Section| one(status, *section, limit, wide);
    sections.iter().map(section).collect::<Vec<_>>().join("\n")
}

fn one(status: &Status, section: Section, limit: usize, wide: bool) -> String {
    let report = &status.dispatcher;
    let namespaces = &status.coordination.namespaces;
    let table = |title, columns: &[&'static str]| Table::new(title, columns, wide);
    let table = match section {
        Section::Server => return server(status),
        Section::Journal => return journal(status),
        Section::Namespaces => return coordination::namespaces(namespaces, limit, wide),
        Section::Coordinated => return coordination::tasks(namespaces, limit, wide),
        Section::Waits => return coordination::waits(namespaces, limit, wide),
        Section::Datasets => table(
            "Datasets",
            &[
                "id",
                "definition",
                "elements",
                "sources",
                "compression off",
                "digest",
                "not splittable",
            ],
        )
        .fill(&report.datasets, limit, dataset),
        Section::Workers => return workers(&report.workers, limit, wide),
        Section::Jobs => return jobs(&report.jobs, limit, wide),
        Section::Iterations => table(
            "Iterations",
            &[
                "id",
                "job",
                "rep",
                "state",
                "clients",
                "tasks",
                "round",
                "splits",
                "read by split",
                "missing",
            ],
        )
        .fill_newest(&report.iterations, limit, iteration),
        Section::Tasks => table("Tasks", &["id", "iteration", "worker", "state", "from round"])
            .fill_newest(&report.tasks, limit, task),
        Section::Clients => table("Clients", &["id", "iteration", "heard", "splits held"])
            .fill_newest(&report.clients, limit, client),
    };
    table.to_string()
}

/// Workers as a table.
pub(super) fn workers(workers: &[WorkerReport], limit: usize, wide: bool) -> String {
    let columns = ["address", "state", "tasks", "heard", "uid", "tags"];
    Table::new("Workers", &columns, wide).fill_newest(workers, limit, worker).to_string()
}

/// Jobs as a table.
pub(super) fn jobs(jobs: &[JobReport], limit: usize, wide: bool) -> String {
    let columns = ["id", "name", "dataset", "sharding", "consumers", "target", "cross-trainer"];
    Table::new("Jobs", &columns, wide).fill_newest(jobs, limit, job).to_string()
}

/// Jobs that were freed, as a table.
pub(super) fn freed_jobs(jobs: &[FreedJobReport]) -> String {
    let columns = ["name", "passes read", "passes abandoned"];
    let row = |job: &FreedJobReport| {
        vec![job.name.clone(), none_or(&job.finished), none_or(&job.abandoned)]
    };
    Table::new("Freed jobs", &columns, true).fill(jobs, usize::MAX, row).to_string()
}

fn none_or(ranges: &[String]) -> String {
    match ranges.is_empty() {
        true => "-".into(),
        false => ranges.join(","),
    }
}

fn server(status: &Status) -> String {
    let server = &status.server;
    let health =
        if server.healthy { "healthy".into() } else { format!("NOT HEALTHY: {}", server.reason) };
    let (version, address) = (&server.version, &server.listen_address);
    let (up, memory) = (span(server.uptime_ms), memory(server));
    format!("Server\n  rondo {version} on {address}, up {up}, {health}\n{memory}")
}

/// The process's memory; nothing where it is not known.
fn memory(server: &ServerStatus) -> String {
    match (server.memory_bytes, server.memory_bytes_max) {
        (0, _) => String::new(),
        (there, 0) => format!("  memory: {}\n", size(there)),
        (there, most) => {
            let refused = match server.refuses_state {
                _ if there >= most => ": NEW WORK IS REFUSED",
                true => ": NEW KEYS, DATASETS, JOBS, WORKERS AND POSITIONS ARE REFUSED",
                false => "",
            };
            format!("  memory: {} of {} (--memory-max){refused}\n", size(there), size(most))
        }
    }
}

fn journal(status: &Status) -> String {
    let journal = &status.journal;
    format!(
        "Journal\n  {}, {}; record {} durable, next {}, snapshot at {}; {} segments of {} in all, \
         {} blobs\n",
        journal.store,
        journal.state,
        journal.durable_lsn,
        journal.next_lsn,
        journal.snapshot_lsn,
        journal.segments,
        size(journal.size_bytes),
        journal.blobs
    )
}

fn dataset(dataset: &DatasetReport) -> Vec<String> {
    let elements = match dataset.cardinality {
        -1 => "infinite".into(),
        -2 => "unknown".into(),
        count => count.to_string(),
    };
    vec![
        dataset.id.clone(),
        size(dataset.size_bytes),
        elements,
        or_dash(dataset.split_sources),
        or_dash(dataset.compression_disabled),
        dataset.digest.chars().take(12).collect(),
        dataset.unsplittable.clone().unwrap_or_default(),
    ]
}

fn worker(worker: &WorkerReport) -> Vec<String> {
    vec![
        worker.address.clone(),
        if worker.lost { "LOST" } else { "ok" }.into(),
        worker.tasks.to_string(),
        heard(worker.silent_ms),
        worker.uid.to_string(),
        worker.tags.join(","),
    ]
}

fn job(job: &JobReport) -> Vec<String> {
    vec![
        job.id.to_string(),
        job.name.clone(),
        job.dataset.clone(),
        job.sharding.clone(),
        or_dash(job.consumers),
        job.target_workers.clone(),
        if job.use_cross_trainer_cache { "yes" } else { "no" }.into(),
    ]
}

fn iteration(iteration: &IterationReport) -> Vec<String> {
    vec![
        iteration.id.to_string(),
        iteration.job.clone(),
        iteration.repetition.to_string(),
        iteration.state.clone(),
        iteration.clients.to_string(),
        tasks(iteration),
        rounds(iteration),
        splits(&iteration.sources),
        by_split(iteration),
        missing(iteration),
    ]
}

/// Splits that clients hold or are to hold, and how much they have read.
fn by_split(iteration: &IterationReport) -> String {
    let counts = [
        (iteration.splits_held, "held"),
        (iteration.splits_waiting, "waiting"),
        (iteration.records_acknowledged, "records"),
    ];
    told(&counts)
}

/// Splits that went with lost workers.
fn missing(iteration: &IterationReport) -> String {
    let counts = [
        (iteration.splits_lost, "lost"),
        (iteration.splits_again, "again"),
        (iteration.splits_in_doubt, "in doubt"),
    ];
    told(&counts)
}

/// Those of the counts that are not zero, or a dash.
fn told(counts: &[(u64, &str)]) -> String {
    let counts = counts.iter().filter(|(count, _)| *count > 0);
    let texts: Vec<String> = counts.map(|(count, what)| format!("{count} {what}")).collect();
    match texts.is_empty() {
        true => "-".into(),
        false => texts.join(", "),
    }
}

fn tasks(iteration: &IterationReport) -> String {
    let mut text = format!("{}/{} done", iteration.tasks_finished, iteration.tasks);
    if iteration.tasks_pending > 0 {
        text += &format!(" +{} pending", iteration.tasks_pending);
    }
    text
}

fn rounds(iteration: &IterationReport) -> String {
    match iteration.block_round {
        Some(block) => format!("{}, blocks before {block}", or_dash(iteration.round)),
        None => or_dash(iteration.round),
    }
}

fn splits(sources: &[SourceReport]) -> String {
    if sources.is_empty() {
        return "-".into();
    }
    let one = |source: &SourceReport| {
        format!("{}/{} of pass {}", source.produced, source.total, source.repetition)
    };
    sources.iter().map(one).collect::<Vec<_>>().join(", ")
}

fn task(task: &TaskReport) -> Vec<String> {
    vec![
        task.id.to_string(),
        task.iteration.to_string(),
        task.worker.clone(),
        task.state.clone(),
        task.starting_round.to_string(),
    ]
}

fn client(client: &ClientReport) -> Vec<String> {
    let (id, iteration) = (client.id.to_string(), client.iteration.to_string());
    vec![id, iteration, heard(client.silent_ms), held(client)]
}

/// Splits that a client holds, such as `2 from 17, 300 records`.
fn held(client: &ClientReport) -> String {
    match client.first_split {
        Some(first) => {
            format!("{} from {first}, {} records", client.splits_held, client.records_acknowledged)
        }
        None => "-".into(),
    }
}

/// A value, or a dash for none.
pub(super) fn or_dash<T: ToString>(value: Option<T>) -> String {
    value.map_or_else(|| "-".into(), |value| value.to_string())
}

/// How long ago the server heard somebody. It does not know whom its former process heard, and somebody
/// new may have sent no heartbeat yet.
pub(super) fn heard(silent_ms: Option<u64>) -> String {
    let never = || "no heartbeat since the server's start".into();
    silent_ms.map_or_else(never, |ms| format!("{} ago", span(ms)))
}

/// A span of time in its two largest units.
pub(super) fn span(ms: u64) -> String {
    let seconds = ms / 1000;
    match seconds {
        0 => format!("{ms} ms"),
        1..60 => format!("{seconds} s"),
        60..3600 => format!("{} min {} s", seconds / 60, seconds % 60),
        3600..86_400 => format!("{} h {} min", seconds / 3600, seconds / 60 % 60),
        _ => format!("{} d {} h", seconds / 86_400, seconds / 3600 % 24),
    }
}

/// A size in its largest binary unit, rounded down.
pub(super) fn size(bytes: u64) -> String {
    match bytes {
        0..0x400 => format!("{bytes} B"),
        0x400..0x10_0000 => format!("{} KiB", bytes >> 10),
        0x10_0000..0x4000_0000 => format!("{} MiB", bytes >> 20),
        _ => format!("{} GiB", bytes >> 30),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::ValueEnum;
    use rondo_proto::admin as wire;
    use rondo_proto::convert;

    #[test]
    fn who_has_not_been_heard_was_not_heard_just_now() {
        assert_eq!(heard(Some(4_000)), "4 s ago");
        assert_eq!(heard(None), "no heartbeat since the server's start");
    }

    #[test]
    fn the_memory_is_shown_with_its_bound() {
        let shown = |memory_bytes, memory_bytes_max| {
            let server = ServerStatus { memory_bytes, memory_bytes_max, ..Default::default() };
            render(&Status { server, ..Status::default() }, &[Section::Server], 50, false)
        };
        assert!(shown(120 << 20, 6 << 30).contains("memory: 120 MiB of 6 GiB (--memory-max)\n"));
        assert!(shown(6 << 30, 6 << 30).contains("NEW WORK IS REFUSED"));
        let server = ServerStatus {
            memory_bytes: 4 << 30,
            memory_bytes_max: 6 << 30,
            refuses_state: true,
            ..Default::default()
        };
        let short = Status { server, ..Status::default() };
        let short = render(&short, &[Section::Server], 50, false);
        let text = "memory: 4 GiB of 6 GiB (--memory-max): \
                    NEW KEYS, DATASETS, JOBS, WORKERS AND POSITIONS ARE REFUSED\n";
        assert!(short.contains(text), "{short}");
        assert!(shown(120 << 20, 0).contains("memory: 120 MiB\n"));
        assert!(!shown(0, 0).contains("memory"));
    }

    #[test]
    fn spans_and_sizes_have_readable_units() {
        let spans = [(0, "0 ms"), (999, "999 ms"), (59_999, "59 s"), (61_000, "1 min 1 s")];
        let spans = spans.into_iter().chain([(3_660_000, "1 h 1 min"), (90_000_000, "1 d 1 h")]);
        for (ms, text) in spans {
            assert_eq!(span(ms), text);
        }
        for (bytes, text) in
            [(1023, "1023 B"), (1024, "1 KiB"), (3 << 20, "3 MiB"), (5 << 30, "5 GiB")]
        {
            assert_eq!(size(bytes), text);
        }
    }

    fn example() -> Status {
        let mut status = Status::default();
        status.dispatcher.iterations = vec![IterationReport {
            id: 2000,
            job: "train".into(),
            repetition: 3,
            state: "running".into(),
            clients: 2,
            tasks: 5,
            tasks_finished: 1,
            tasks_pending: 1,
            round: Some(17),
            block_round: Some(19),
            sources: vec![SourceReport { repetition: 0, produced: 42, total: 100 }],
            splits_lost: 3,
            splits_again: 0,
            splits_in_doubt: 5,
            splits_held: 4,
            splits_waiting: 0,
            records_acknowledged: 1234,
        }];
        status.dispatcher.clients = vec![ClientReport {
            id: 3000,
            iteration: 2000,
            silent_ms: None,
            splits_held: 4,
            first_split: Some(38),
            records_acknowledged: 77,
        }];
        status
    }

    #[test]
    fn an_iterations_row_tells_its_progress() {
        let text = render(&example(), &[Section::Iterations], 50, false);
        let expected = ["2000", "train", "1/5 done +1 pending", "17, blocks before 19"];
        let splits = ["42/100 of pass 0", "4 held, 1234 records", "3 lost, 5 in doubt"];
        for cell in expected.into_iter().chain(splits) {
            assert!(text.contains(cell), "{cell} in {text}");
        }
        let text = render(&example(), &[Section::Clients], 50, false);
        assert!(text.contains("4 from 38, 77 records"), "{text}");
    }

    /// Three of each of what comes and goes, numbered in the order in which they came.
    fn three_of_each() -> Status {
        let mut all = wire::DispatcherStatus::default();
        for number in 0..3 {
            let address = format!("worker-{number}:1");
            all.iterations.push(wire::IterationStatus { id: 2000 + number, ..Default::default() });
            all.clients.push(wire::ClientStatus { id: 3000 + number, ..Default::default() });
            all.tasks.push(wire::TaskStatus { id: 4000 + number, ..Default::default() });
            all.jobs.push(wire::JobStatus { id: 5000 + number, ..Default::default() });
            all.workers.push(wire::WorkerStatus { address, ..Default::default() });
        }
        Status { dispatcher: convert::report(all), ..Status::default() }
    }

    #[test]
    fn the_newest_rows_of_what_comes_and_goes_are_shown() {
        for (section, oldest, newest) in [
            (Section::Iterations, "  2000  ", "  2002  "),
            (Section::Clients, "  3000  ", "  3002  "),
            (Section::Tasks, "  4000  ", "  4002  "),
            (Section::Jobs, "  5000  ", "  5002  "),
            (Section::Workers, "worker-0:1", "worker-2:1"),
        ] {
            let text = render(&three_of_each(), &[section], 2, true);
            assert!(text.contains(newest) && !text.contains(oldest), "{text}");
            assert!(text.contains("… and 1 older ones (--limit 0 shows all)"), "{text}");
        }
    }

    #[test]
    fn the_size_of_a_definition_is_called_so() {
        let dataset =
            wire::DatasetStatus { id: "digits".into(), size_bytes: 2048, ..Default::default() };
        let all = wire::DispatcherStatus { datasets: vec![dataset], ..Default::default() };
        let status = Status { dispatcher: convert::report(all), ..Status::default() };
        let text = render(&status, &[Section::Datasets], 50, true);
        assert!(text.contains("  ID      DEFINITION  ELEMENTS"), "{text}");
        assert!(text.contains("  digits  2 KiB       "), "{text}");
    }

    #[test]
    fn every_section_has_its_heading() {
        let text = render(&example(), Section::value_variants(), 50, true);
        for heading in ["Server", "Journal", "Datasets (0)", "Workers (0)", "Jobs (0)"] {
            assert!(text.contains(heading), "{heading} in {text}");
        }
        assert!(text.contains("Iterations (1)") && text.contains("Clients (1)"), "{text}");
    }
}
