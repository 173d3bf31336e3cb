//! A consumer of the demo: takes batches at the pace of a training step, and keeps account of them.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rondo_core::reader::Report;

use super::super::exit::{Exit, Failure};
use super::board::Board;
use super::ledger::Ledger;
use crate::reader::{Content, Delivery, Reader};

/// The name of the job and of the dataset.
pub(super) const NAME: &str = "demo";
/// Time between two looks at what a reader says of itself.
const REPORT_INTERVAL: Duration = Duration::from_millis(200);

/// What all consumers together were given.
#[derive(Default)]
pub(super) struct Account {
    /// Record by record.
    pub(super) ledger: Ledger,
    /// When, since the reading began.
    pub(super) deliveries: Vec<Duration>,
    /// Records that each worker has sent to each consumer, by the worker's address.
    served: BTreeMap<(String, String), u64>,
}

/// What a consumer needs to know.
#[derive(Clone)]
pub(super) struct Consumer {
    /// What it is called.
    pub(super) name: String,
    /// Where the server listens.
    pub(super) server: SocketAddr,
    /// How long each batch keeps it busy.
    pub(super) step: Duration,
    /// The names of the workers by their addresses.
    pub(super) workers: Arc<BTreeMap<String, String>>,
    /// Where it keeps account.
    pub(super) account: Arc<Mutex<Account>>,
    /// Where it says how far it is.
    pub(super) board: Board,
}

impl Consumer {
    /// Reads to the end of the job.
    ///
    /// # Errors
    /// When the reader ends otherwise.
    pub(super) async fn run(self) -> Result<(), Failure> {
        let builder = Reader::builder(&self.server.to_string()).job(NAME).dataset(NAME);
        let opened = builder.splits(4, 3).open().await;
        let mut reader = opened.map_err(|error| self.failed(&error))?;
        let handle = reader.handle();
        let mut reports = tokio::time::interval(REPORT_INTERVAL);
        let mut records = 0_u64;
        loop {
            tokio::select! {
                biased;
                _ = reports.tick() => self.report(records, &handle.progress().await.report),
                delivery = reader.next() => match delivery {
                    Some(Ok(delivery)) => {
                        self.consume(&delivery)?;
                        records = records.saturating_add(delivery.records());
                        // In place of a step of training.
                        tokio::time::sleep(self.step).await;
                    }
                    Some(Err(status)) => return Err(self.failed(&status)),
                    None => break,
                },
            }
        }
        self.report(records, &handle.progress().await.report);
        reader.close().await.map_err(|status| self.failed(&status))
    }

    fn consume(&self, delivery: &Delivery) -> Result<(), Failure> {
        let Content::Records(records) = &delivery.content else {
            return Err(self.failed(&"an element came where records are read by split"));
        };
        let mut account = self.account.lock().unwrap_or_else(PoisonError::into_inner);
        account.deliveries.push(self.board.elapsed());
        for origin in &delivery.identity {
            account.ledger.note(origin.place, origin.first, origin.count);
        }
        let added = account.ledger.checksum.add(records);
        self.board.delivered(delivery.records());
        added.map_err(|error| self.failed(&error))
    }

    fn report(&self, records: u64, report: &Report) {
        let splits = report.splits_held;
        let doing = format!("has {records} records and holds {splits} splits");
        let doing = match &report.stall {
            Some(stall) => format!("{doing} ({})", stall.sentence()),
            None => doing,
        };
        self.board.does(&self.name, doing);
        let mut account = self.account.lock().unwrap_or_else(PoisonError::into_inner);
        for worker in &report.workers {
            let key = (worker.worker.to_string(), self.name.clone());
            account.served.insert(key, worker.counts.records);
        }
        for (address, name) in self.workers.iter() {
            let of_worker = account.served.iter().filter(|((worker, _), _)| worker == address);
            let served: u64 = of_worker.map(|(_, records)| records).sum();
            if self.board.is_alive(name) {
                self.board.does(name, format!("has served {served} records"));
            }
        }
    }

    fn failed(&self, why: &dyn std::fmt::Display) -> Failure {
        Failure::new(Exit::Other, format!("{}: {why}", self.name))
    }
}
