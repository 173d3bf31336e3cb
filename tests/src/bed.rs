//! Where refusals are tested: a server with an innocent client that must not notice.

use bytes::Bytes;
use rondo_proto::tf::data::data_service_metadata::Compression;
use rondo_proto::tf::data::processing_mode_def::ShardingPolicy;
use tonic::{Code, Status};

use crate::dispatcher::Dispatcher;
use crate::graph;
use crate::server::{Options, Server};

/// Asserts that `result` is a refusal with this code and text.
///
/// # Panics
/// When it is not.
pub fn assert_refused<T: std::fmt::Debug>(result: Result<T, Status>, code: Code, text: &str) {
    let status = result.unwrap_err();
    assert_eq!(status.code(), code, "{status}");
    assert!(status.message().contains(text), "{text:?} is not in {:?}", status.message());
}

/// A server with an innocent client in the middle of an epoch.
#[derive(Debug)]
pub struct Bed {
    /// The server.
    pub server: Server,
    /// A connection to it.
    pub dispatcher: Dispatcher,
    /// The innocent client.
    pub client: i64,
    /// Its iteration.
    pub iteration: i64,
    splits: i64,
}

impl Bed {
    /// A server that keeps plain files.
    pub fn start() -> Self {
        Self::with(&Options::store("segment"))
    }

    /// A server with these settings.
    pub fn with(options: &Options) -> Self {
        let server = Server::start(options);
        let dispatcher = server.dispatcher();
        dispatcher.worker_heartbeat("innocent:1", &[]).unwrap();
        let dataset = register(&dispatcher, None, graph::range(0, 1_000_000, 1)).unwrap();
        let job = dispatcher.job(&dataset, Some("innocent"), ShardingPolicy::Dynamic).unwrap();
        let client = dispatcher.iteration(job, 0).unwrap();
        let iteration = dispatcher.heartbeat(client).unwrap().task_info[0].iteration_id;
        Self { server, dispatcher, client, iteration, splits: 0 }
    }

    /// Asserts that the server is well, and that the innocent client reads on where it was.
    ///
    /// # Panics
    /// When it is not so.
    pub fn assert_unharmed(&mut self) {
        assert!(self.dispatcher.is_serving().unwrap());
        assert_eq!(self.dispatcher.split(self.iteration, 0, 0).unwrap(), Some(self.splits));
        self.splits += 1;
        assert_eq!(self.dispatcher.heartbeat(self.client).unwrap().task_info.len(), 1);
    }
}

/// Registers a dataset of compressed scalars.
///
/// # Errors
/// As [`Dispatcher::call`].
pub fn register(
    dispatcher: &Dispatcher,
    id: Option<&str>,
    definition: Bytes,
) -> Result<String, Status> {
    dispatcher.register(id, definition, &graph::metadata(Compression::Snappy, -2))
}

/// The path of a method of the dispatcher.
pub fn path(method: &str) -> String {
    format!("/tensorflow.data.DispatcherService/{method}")
}
