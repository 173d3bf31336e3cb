//! `rondo journal inspect`.

use std::fmt::Display;
use std::path::PathBuf;

use clap::Args;
use rondo_core::ids::Lsn;
use rondo_core::journal::GroupHeader;
use rondo_proto::frame;

use super::exit::Failure;
use super::journal::{AtRest, open, say, unusable};
use super::progress::Progress;
use super::table::Table;
use crate::store::{Found, Segment};

/// What to show of which journal.
#[derive(Args, Clone, Debug, PartialEq, Eq)]
pub(super) struct InspectArgs {
    /// The data directory; no server may use it meanwhile
    #[arg(value_name = "DIR")]
    directory: PathBuf,

    /// Show the records too
    #[arg(long)]
    records: bool,

    /// First record to show
    #[arg(long, value_name = "LSN", default_value_t = 1)]
    from: u64,

    /// Rows to show; 0 shows all
    #[arg(long, value_name = "ROWS", default_value_t = 50)]
    limit: usize,

    /// Cut nothing off
    #[arg(long)]
    wide: bool,
}

/// One record, or what is in its place.
struct Row {
    lsn: String,
    place: String,
    content: String,
}

/// Records, those to be shown and the number of all.
struct Records {
    from: u64,
    limit: usize,
    total: usize,
    shown: Vec<Row>,
}

impl Records {
    fn add(&mut self, found: &[Found]) {
        for (lsn, row) in found.iter().flat_map(rows_of) {
            if lsn < self.from {
                continue;
            }
            self.total = self.total.saturating_add(1);
            if self.shown.len() < self.limit {
                self.shown.push(row);
            }
        }
    }

    fn table(&self, wide: bool) -> Table {
        let cells = |row: &Row| vec![row.lsn.clone(), row.content.clone(), row.place.clone()];
        Table::new("Records", &["record", "content", "place"], wide)
            .fill(&self.shown, self.limit, cells)
            .out_of(self.total)
    }
}

/// Shows a journal.
pub(super) async fn inspect(args: &InspectArgs) -> Result<(), Failure> {
    let journal = open(&args.directory).await?;
    say(&heading(&journal))?;
    let limit = if args.limit == 0 { usize::MAX } else { args.limit };
    let segments = journal.store.segments();
    let mut progress = Progress::of("segments read", segments.len());
    let mut summary = Vec::new();
    let mut records = Records { from: args.from, limit, total: 0, shown: Vec::new() };
    for segment in segments {
        let found = journal.store.read(segment.first).await.map_err(|error| unusable(&error))?;
        summary.push(summary_of(&segment, &found));
        if args.records {
            records.add(&found);
        }
        progress.step();
    }
    let columns = ["first", "size", "groups", "records", "damaged"];
    let table = Table::new("Segments", &columns, args.wide).fill(&summary, limit, Vec::clone);
    say(&table.to_string())?;
    if args.records { say(&records.table(args.wide).to_string()) } else { Ok(()) }
}

fn heading(journal: &AtRest) -> String {
    let snapshot = match journal.manifest.snapshot {
        Some(lsn) => format!("snapshot up to record {lsn}"),
        None => "no snapshot".into(),
    };
    format!(
        "{}: store {}, {snapshot}, the journal counts from record {}\n",
        journal.directory.path().display(),
        journal.directory.kind(),
        journal.manifest.journal_first
    )
}

fn summary_of(segment: &Segment, found: &[Found]) -> Vec<String> {
    let headers: Vec<GroupHeader> = found.iter().filter_map(header).collect();
    let records = headers.iter().fold(0_u64, |sum, header| sum.saturating_add(header.count));
    let damaged = found.len().saturating_sub(headers.len());
    vec![
        segment.first.to_string(),
        segment.size_bytes.to_string(),
        headers.len().to_string(),
        records.to_string(),
        damaged.to_string(),
    ]
}

fn header(found: &Found) -> Option<GroupHeader> {
    let frame = found.frame.as_ref().ok()?;
    frame::header(frame).ok()
}

/// The records of a frame with their positions. What cannot be read stands at position `u64::MAX`, so that
/// no choice of records hides it; the records of the group behind it are not shown.
fn rows_of(found: &Found) -> Vec<(u64, Row)> {
    let row = |at: u64, lsn: String, content: String| {
        (at, Row { lsn, place: found.place.clone(), content })
    };
    let decoded = found.frame.as_ref().map(frame::decode);
    let (header, payload) = match decoded {
        Ok(Ok(decoded)) => decoded,
        Ok(Err(error)) => {
            let lsn = header(found).map_or_else(|| "?".into(), |header| header.first.to_string());
            return vec![row(u64::MAX, lsn, unreadable(error.is_of_later_release(), &error))];
        }
        Err(reason) => return vec![row(u64::MAX, "?".into(), unreadable(false, reason))],
    };
    let positions = std::iter::successors(Some(header.first), |lsn: &Lsn| Some(lsn.next()));
    let records = positions.zip(frame::records(&payload));
    let rows = records.map(|(lsn, record)| match record {
        Ok(record) => row(lsn.get(), lsn.to_string(), format!("{record:?}")),
        Err(error) => {
            row(u64::MAX, lsn.to_string(), unreadable(error.is_of_later_release(), &error))
        }
    });
    rows.collect()
}

/// The text that the table shows in place of records that this release cannot read. A later release can read
/// those that it wrote.
fn unreadable(is_of_later_release: bool, reason: &dyn Display) -> String {
    let what = if is_of_later_release { "OF A LATER RELEASE" } else { "DAMAGED" };
    format!("{what}: {reason}")
}
