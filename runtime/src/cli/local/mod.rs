//! A server and workers on this machine, as processes of this very program.

mod member;

use std::path::Path;
use std::time::{Duration, Instant};

use rondo_data::Dataset;

pub(super) use self::member::Member;
use super::dataset::{CompressionArg, How, register_planned};
use super::exit::{Exit, Failure};

/// How long the server may take to read its journal, which is empty.
const START_PATIENCE: Duration = Duration::from_secs(10);
/// Pause before it is asked again.
const START_PAUSE: Duration = Duration::from_millis(10);

/// A server and its workers. They end with it.
pub(super) struct LocalCluster {
    /// The server, with a journal of its own.
    pub(super) server: Member,
    /// The workers.
    pub(super) workers: Vec<Member>,
}

impl LocalCluster {
    /// Starts a server and so many workers, with their logs and the journal in `folder`.
    ///
    /// # Errors
    /// When one of them does not start.
    pub(super) async fn start(folder: &Path, workers: usize) -> Result<Self, Failure> {
        let data = folder.join("server").display().to_string();
        let mut server = Member::start("server", folder, |address| {
            let listen = format!("--listen={address}");
            vec![
                "serve".to_owned(),
                listen,
                format!("--data={data}"),
                "--log-level=warn".to_owned(),
            ]
        })?;
        server.listening().await?;
        let dispatcher = server.address();
        let worker = |number: usize| {
            Member::start(&format!("worker {number}"), folder, |address| {
                vec![
                    "worker".to_owned(),
                    format!("--server={dispatcher}"),
                    format!("--listen={address}"),
                    format!("--address={address}"),
                    "--heartbeat-interval=500ms".to_owned(),
                    "--log-level=warn".to_owned(),
                ]
            })
        };
        let mut workers = (1..=workers).map(worker).collect::<Result<Vec<_>, _>>()?;
        for worker in &mut workers {
            worker.listening().await?;
        }
        Ok(Self { server, workers })
    }

    /// Where the server listens, `host:port`.
    pub(super) fn dispatcher(&self) -> String {
        self.server.address().to_string()
    }

    /// Registers a dataset as soon as the server has read its journal.
    ///
    /// # Errors
    /// When it is refused, or the server does not get ready.
    pub(super) async fn register(&self, id: &str, dataset: &Dataset) -> Result<(), Failure> {
        let (server, until) = (self.dispatcher(), Instant::now() + START_PATIENCE);
        let how = How { compression: CompressionArg::None, skip_corrupt: false, replaces: false };
        loop {
            match register_planned(&server, Some(id), dataset, how).await {
                Err(failure) if failure.exit == Exit::Unreachable && Instant::now() < until => {
                    tokio::time::sleep(START_PAUSE).await;
                }
                registered => return registered.map(drop),
            }
        }
    }
}
