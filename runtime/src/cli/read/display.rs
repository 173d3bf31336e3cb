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
    pub(super) fn show(&mut self, progress: &Progress, records: u64) {
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

fn standing(progress: &Progress, records: u64) -> String {
    let report = &progress.report;
    let workers = report.workers.iter().filter(|worker| worker.load > 0).count();
    let mut parts = vec![
        format!("{records} records"),
        bytes(report.counts.bytes),
        format!("{} records/s", per_second(records, progress.elapsed)),
        format!("of {workers} workers"),
    ];
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

fn bytes(count: u64) -> String {
    match count {
        0..0x400 => format!("{count} B"),
        0x400..0x10_0000 => format!("{} KiB", count >> 10),
        0x10_0000..0x4000_0000 => format!("{} MiB", count >> 20),
        _ => format!("{} GiB", count >> 30),
    }
}

#[cfg(test)]
mod tests {
    use crate::reader::{Counts, Report, Stall};

    use super::*;

    #[test]
    fn a_line_tells_rates_and_why_it_waits() {
        let counts = Counts { records: 500, bytes: 3 << 20, skipped: 1, ..Counts::default() };
        let report = Report { counts, stall: Some(Stall::NoSplits), ..Report::default() };
        let progress = Progress { report, elapsed: Duration::from_millis(500) };
        let line = standing(&progress, 500);
        assert_eq!(
            line,
            "500 records, 3 MiB, 1000 records/s, of 0 workers, \
             waits: other readers hold what is left to read"
        );
        let line = summary(&progress, 500, true);
        assert!(line.starts_with("read 500 records (3 MiB) in 0.50 s: 1000 records/s, 6 MiB/s"));
        assert!(line.contains("skipped 1"), "{line}");
        let report = Report { skipped: vec!["a\u{1b}[2J's end".into()], ..Report::default() };
        let progress = Progress { report, elapsed: Duration::from_millis(500) };
        assert!(summary(&progress, 0, true).ends_with("\n  skipped: a\u{fffd}[2J's end"));
    }
}
