//! Reading a job into an output, until the end or a stop.

use std::pin::Pin;
use std::time::Duration;

use rondo_core::ids::ClientId;
use rondo_core::status::Status;
use rondo_data::Dataset;
use tokio::time::Instant;

use super::super::exit::{Failure, of_status};
use super::display::{self, Display, Records};
use super::output::Output;
use super::{ReadArgs, failure};
use crate::reader::{Delivery, News, Origin, Reader};

/// What was written is synced and acknowledged this often at least.
const SYNC_INTERVAL: Duration = Duration::from_millis(200);
/// How often to look how far the reader has come.
const SHOW_INTERVAL: Duration = Duration::from_millis(200);
/// Records written between two syncs at most.
const UNSYNCED_MAX: u64 = 1 << 20;

/// A reader, and what becomes of what it reads.
pub(super) struct Reading<'a> {
    args: &'a ReadArgs,
    reader: Reader,
    output: Output,
    display: Display,
    /// Read by this run.
    records: u64,
    /// Records of all passes of the dataset, if that is known.
    total: Option<u64>,
    /// Written and not committed.
    uncommitted: Vec<Origin>,
    confirmation: Option<Confirmation>,
}

/// The wait for the dispatcher's word on the first commits.
struct Confirmation {
    commits: usize,
    flush: Pin<Box<dyn Future<Output = Result<(), Status>> + Send>>,
}

/// Why reading ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// Everything of the pass was read.
    All,
    /// `--max-records` was reached, or nobody takes the output.
    Stopped,
    /// The user interrupted.
    Interrupted,
}

impl<'a> Reading<'a> {
    pub(super) fn new(args: &'a ReadArgs, reader: Reader, output: Output) -> Self {
        let display = Display::new(args.plain);
        let total = reader.dataset().and_then(total);
        let (uncommitted, confirmation) = (Vec::new(), None);
        Self { args, reader, output, display, records: 0, total, uncommitted, confirmation }
    }

    /// Reads, leaves the job, and returns a summary.
    ///
    /// # Errors
    /// When not everything could be read, written or acknowledged.
    pub(super) async fn run(mut self) -> Result<(String, End), Failure> {
        let ended = self.read_all().await;
        // What was written is good whatever came behind it.
        let mut kept = self.commit().await;
        if kept.is_ok() {
            kept = self.output.end();
        }
        let saved = match (&self.args.save_position, &ended) {
            (Some(name), Ok(_)) if kept.is_ok() => self.save(name).await,
            _ => Ok(()),
        };
        let progress = self.reader.progress().await;
        let summary = display::summary(&progress, self.records, self.reader.is_by_split());
        self.display.end();
        let left = self.reader.close().await;
        let left = left.map_err(|status| Failure::new(of_status(&status), status.to_string()));
        let ended = match (ended, kept, saved, left) {
            (Ok(ended), Ok(()), Ok(()), Ok(())) => ended,
            (Err(failure), ..)
            | (_, Err(failure), ..)
            | (.., Err(failure), _)
            | (.., Err(failure)) => {
                self.output.discard()?;
                return Err(failure);
            }
        };
        match ended {
            End::All => self.output.complete(self.args).await?,
            End::Stopped | End::Interrupted => self.output.close()?,
        }
        Ok((summary, ended))
    }

    async fn read_all(&mut self) -> Result<End, Failure> {
        let spec = self.reader.element_spec();
        self.output.expect(spec.map_err(|status| failure(&status))?);
        let (mut synced, mut shown) = (Instant::now(), Instant::now());
        let (mut unsynced, mut is_drained) = (0_u64, false);
        let stop = tokio::signal::ctrl_c();
        tokio::pin!(stop);
        while !self.has_enough() {
            tokio::select! {
                biased;
                _ = &mut stop => return Ok(End::Interrupted),
                confirmed = confirmed(&mut self.confirmation) => self.confirm(confirmed),
                news = self.reader.news() => match news {
                    None => return Ok(End::All),
                    Some(Err(status)) => return Err(failure(&status)),
                    Some(Ok(News::Delivered(delivery))) => {
                        unsynced = unsynced.saturating_add(delivery.records());
                        self.write(delivery)?;
                    }
                    // Nothing more comes before this is acknowledged.
                    Some(Ok(News::Drained)) => is_drained = true,
                },
                () = tokio::time::sleep_until(synced + SYNC_INTERVAL) => {}
            }
            if is_drained || synced.elapsed() >= SYNC_INTERVAL || unsynced >= UNSYNCED_MAX {
                self.commit().await?;
                (synced, unsynced, is_drained) = (Instant::now(), 0, false);
            }
            if shown.elapsed() >= SHOW_INTERVAL {
                shown = Instant::now();
                let progress = self.reader.progress().await;
                self.display.show(&progress, self.counted());
            }
        }
        Ok(End::Stopped)
    }

    /// Records so far, for people.
    fn counted(&self) -> Records {
        let there = self.output.records().unwrap_or(self.records);
        Records { read: self.records, there, total: self.total }
    }

    /// Records still to be read before `--max-records` is reached.
    fn wanted(&self) -> u64 {
        let there = self.output.records().unwrap_or(self.records);
        self.args.max_records.map_or(u64::MAX, |max| max.saturating_sub(there))
    }

    fn has_enough(&self) -> bool {
        self.wanted() == 0 || self.output.is_closed()
    }

    fn write(&mut self, delivery: Delivery) -> Result<(), Failure> {
        let delivery = delivery.first(self.wanted());
        self.records = self.records.saturating_add(delivery.records());
        self.output.write(&delivery)?;
        self.uncommitted.extend(delivery.identity);
        Ok(())
    }

    /// Makes safe what was written, and then acknowledges it. What a pipe's reader did not take is not
    /// acknowledged.
    async fn commit(&mut self) -> Result<(), Failure> {
        let number = self.reader.progress().await.report.client.map(ClientId::get);
        if number.is_none() && self.reader.is_by_split() {
            // It was given up, or has yet to join: there is nothing that it could acknowledge.
            return Ok(());
        }
        self.output.commit(number.filter(|_| self.reader.is_by_split()), &self.uncommitted)?;
        if !self.output.is_closed() {
            self.reader.acknowledge_records(&self.uncommitted);
        }
        self.uncommitted.clear();
        let commits = self.output.unconfirmed();
        if self.confirmation.is_none() && commits > 0 {
            let handle = self.reader.handle();
            let flush = Box::pin(async move { handle.flush().await });
            self.confirmation = Some(Confirmation { commits, flush });
        }
        Ok(())
    }

    fn confirm(&mut self, confirmed: Result<(), Status>) {
        let Some(confirmation) = self.confirmation.take() else {
            return;
        };
        // A reader that has ended says so by itself.
        if confirmed.is_ok() {
            self.output.confirm(confirmation.commits);
        }
    }

    async fn save(&mut self, name: &str) -> Result<(), Failure> {
        self.reader.checkpoint(name).await.map_err(|status| failure(&status))
    }
}

/// Records of all passes of a dataset, if their number is known.
fn total(dataset: &Dataset) -> Option<u64> {
    let passes = Some(dataset.passes()).filter(|passes| *passes > 0);
    dataset.records_per_pass()?.checked_mul(passes?)
}

/// Waits for the dispatcher's word, for ever if none is waited for.
async fn confirmed(confirmation: &mut Option<Confirmation>) -> Result<(), Status> {
    match confirmation {
        Some(confirmation) => confirmation.flush.as_mut().await,
        None => std::future::pending().await,
    }
}
