//! How far a reader has come.

use std::collections::BTreeMap;

use pyo3::prelude::*;
use rondo::reader::{Progress as Told, Stall};

/// How far a reader has come, and why it stalls if it does.
#[pyclass(frozen, get_all, module = "rondo")]
pub(crate) struct Progress {
    /// Records or elements, each once.
    records: u64,
    /// Their bytes as they were sent.
    bytes: u64,
    /// Records that came a second time and were dropped.
    duplicates: u64,
    /// Places in the data that could not be read and were passed over.
    skipped: u64,
    /// The first few of those.
    skipped_places: Vec<String>,
    /// Streams and calls that broke and were made again.
    retries: u64,
    /// Deliveries that wait for the application.
    buffered: usize,
    /// Their bytes.
    buffered_bytes: u64,
    /// Splits it holds.
    splits_held: usize,
    /// Records handed to the application that it has not acknowledged.
    unconsumed: u64,
    /// The round it is in, in coordinated reads.
    round: Option<i64>,
    /// Records of each worker.
    workers: BTreeMap<String, u64>,
    /// Why nothing moves, if nothing does.
    stall: Option<String>,
    /// Seconds since it was opened.
    elapsed: f64,
}

impl Progress {
    pub(super) fn of(progress: Told) -> Self {
        let Told { report, elapsed } = progress;
        let counts = report.counts;
        let workers = report.workers.iter();
        Self {
            records: counts.records,
            bytes: counts.bytes,
            duplicates: counts.duplicates,
            skipped: counts.skipped,
            skipped_places: report.skipped,
            retries: counts.retries,
            buffered: report.buffered,
            buffered_bytes: report.buffered_bytes,
            splits_held: report.splits_held,
            unconsumed: report.unconsumed,
            round: report.round,
            workers: workers.map(|it| (it.worker.to_string(), it.counts.records)).collect(),
            stall: report.stall.as_ref().map(Stall::sentence),
            elapsed: elapsed.as_secs_f64(),
        }
    }
}

#[pymethods]
impl Progress {
    fn __repr__(&self) -> String {
        let stall = self.stall.as_ref().map(|stall| format!("; {stall}")).unwrap_or_default();
        format!(
            "<rondo.Progress: {} records, {} bytes in {:.2} s{stall}>",
            self.records, self.bytes, self.elapsed
        )
    }
}
