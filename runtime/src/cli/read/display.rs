//! What `rondo read` tells of its progress, on standard error.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

use super::super::plain::plain;
use crate::reader::Progress;

/// Time between two plain lines.
const INTERVAL: Duration = Duration::from_secs(2);

/// Where progress is told.
pub(super) enum Display {
    /// On a terminal.
    Bar(ProgressBar),
    /// In lines, now and then.
    Lines { told: Instant },
}

/// How many records there are.
#[derive(Clone, Copy, Debug)]
pub(super) struct Records {
    /// Read by this run.
    pub(super) read: u64,
    /// Read by this run, or in its file from former ones.
    pub(super) there: u64,
    /// In all passes of the dataset, of which other readers may read some; none if it is unknown.
    pub(super) total: Option<u64>,
}

impl Display {
    /// A bar if standard error is a terminal, unless `plain`.
    pub(super) fn new(plain: bool) -> Self {
        if plain || !std::io::stderr().is_terminal() {
            return Self::Lines { told: Instant::now() };
        }
        let bar = ProgressBar::new_spinner();
        // The template is this one, and has no mistake.
        if let Ok(style) = ProgressStyle::with_template("{spinner} {elapsed_precise} {wide_msg}") {
            bar.set_style(style);
        }
        Self::Bar(bar)
    }

    /// Tells how far it is.
    pub(super) fn show(&mut self, progress: &Progress, records: Records) {
        match self {
            Self::Bar(bar) => {
                bar.set_message(standing(progress, records));
                bar.tick();
            }
            Self::Lines { told } if told.elapsed() >= INTERVAL => {
                *told = Instant::now();
                line(&standing(progress, records));
            }
            Self::Lines { .. } => {}
        }
    }

    /// Nothing more is told.
    pub(super) fn end(&self) {
        if let Self::Bar(bar) = self {
            bar.finish_and_clear();
        }
    }
}

/// A line for people.
pub(super) fn line(text: &str) {
    // Whoever closed stderr does not want to know.
    let _ = writeln!(std::io::stderr(), "{text}");
}

fn standing(progress: &Progress, records: Records) -> String {
    let report = &progress.report;
    // What waits in memory has not been read yet.
    let read_bytes = report.counts.bytes.saturating_sub(report.buffered_bytes);
    let mut parts = vec![
        counted(records),
        bytes(read_bytes),
        format!("{} records/s", per_second(records.read, progress.elapsed)),
    ];
    match report.workers.iter().filter(|worker| worker.counts.records > 0).count() {
        0 => {}
        1 => parts.push("from 1 worker".into()),
        workers => parts.push(format!("from {workers} workers")),
    }
    if report.splits_held > 0 {
        parts.push(format!("{} splits held", report.splits_held));
    }
    if let Some(round) = report.round {
        parts.push(format!("round {round}"));
    }
    if let Some(stall) = &report.stall {
        parts.push(format!("waits: {}", stall.sentence()));
    }
    parts.join(", ")
}

/// Records, and which part of all of them they are.
fn counted(Records { there, total, .. }: Records) -> String {
    let percent = |total| there.saturating_mul(100).checked_div(total);
    match total.and_then(|total| Some((total, percent(total)?))) {
        Some((total, percent)) => format!("{there} of {total} records ({percent} %)"),
        None => format!("{there} records"),
    }
}

/// What was read, in one line.
pub(super) fn summary(progress: &Progress, records: u64, is_by_split: bool) -> String {
    let counts = &progress.report.counts;
    let what = if is_by_split { "records" } else { "elements" };
    let seconds = progress.elapsed.as_secs_f64();
    let mut text = format!(
        "read {records} {what} ({}) in {seconds:.2} s: {} {what}/s, {}/s; skipped {}, retries {}, \
         duplicates dropped {}",
        bytes(counts.bytes),
        per_second(records, progress.elapsed),
        bytes(per_second(counts.bytes, progress.elapsed)),
        counts.skipped,
        counts.retries,
        counts.duplicates,
    );
    for skipped in &progress.report.skipped {
        text.push_str("\n  skipped: ");
        text.push_str(&plain(skipped));
    }
    text
}

fn per_second(count: u64, elapsed: Duration) -> u64 {
    let millis = u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX).max(1);
    count.saturating_mul(1000) / millis
}

/// A size with a decimal, so that it moves while much is read.
fn bytes(count: u64) -> String {
    let (unit, shift) = match count {
        0..0x400 => return format!("{count} B"),
        0x400..0x10_0000 => ("KiB", 10_u32),
        0x10_0000..0x4000_0000 => ("MiB", 20),
        _ => ("GiB", 30),
    };
    let tenths = (count >> shift.saturating_sub(10)).saturating_mul(10) >> 10;
    format!("{}.{} {unit}", tenths / 10, tenths % 10)
}

#[cfg(test)]
mod tests {
    use crate::reader::{Counts, Report, Stall, WorkerCounts, WorkerReport};

    use super::*;

    #[test]
    fn a_line_tells_the_part_of_all_and_who_it_came_from() {
        let worker = |records, load| WorkerReport {
            worker: "w:1".into(),
            counts: WorkerCounts { records, bytes: 0 },
            load,
            failure: None,
        };
        let counts = Counts { bytes: 3 << 20, ..Counts::default() };
        // Between two calls a worker has no load; one that was only asked has given nothing.
        let workers = vec![worker(300, 0), worker(200, 1), worker(0, 1)];
        let report = Report { counts, buffered_bytes: 1 << 19, workers, ..Report::default() };
        let progress = Progress { report, elapsed: Duration::from_secs(1) };
        let records = |there, total| Records { read: 500, there, total };
        assert_eq!(
            standing(&progress, records(500, Some(1500))),
            "500 of 1500 records (33 %), 2.5 MiB, 500 records/s, from 2 workers"
        );
        let with_former_runs = standing(&progress, records(1500, Some(1500)));
        assert!(
            with_former_runs.starts_with("1500 of 1500 records (100 %), "),
            "{with_former_runs}"
        );
        assert!(with_former_runs.contains(", 500 records/s"), "{with_former_runs}");
        assert!(standing(&progress, records(0, Some(0))).starts_with("0 records, "));
    }

    #[test]
    fn a_line_tells_rates_and_why_it_waits() {
        let counts = Counts { records: 500, bytes: 3 << 20, skipped: 1, ..Counts::default() };
        let report = Report { counts, stall: Some(Stall::NoSplits), ..Report::default() };
        let progress = Progress { report, elapsed: Duration::from_millis(500) };
        let line = standing(&progress, Records { read: 500, there: 500, total: None });
        assert_eq!(
            line,
            "500 records, 3.0 MiB, 1000 records/s, waits: other readers hold what is left to read"
        );
        let line = summary(&progress, 500, true);
        assert!(
            line.starts_with("read 500 records (3.0 MiB) in 0.50 s: 1000 records/s, 6.0 MiB/s")
        );
        assert!(line.contains("skipped 1"), "{line}");
        let report = Report { skipped: vec!["a\u{1b}[2J's end".into()], ..Report::default() };
        let progress = Progress { report, elapsed: Duration::from_millis(500) };
        assert!(summary(&progress, 0, true).ends_with("\n  skipped: a\u{fffd}[2J's end"));
    }
}
