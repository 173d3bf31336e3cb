//! A worker that serves records by split and nothing else, in the test's own process, so that a test
//! can take it away at any moment.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use prost::Message;
use rondo::transport::{
    BoxFuture, Call, Client, MessageWriter, ServerConfig, Service, Transport, listener, serve,
};
use rondo_core::status::{Code, Status};
use rondo_data::{Dataset, Stores, to_ipc};
use rondo_proto::admin::{ReadSplitRequest, ReadSplitResponse};
use rondo_proto::convert::{Method, PROCESS_TASK_PATH, READ_SPLIT_PATH};
use rondo_proto::tf::data as wire;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

const PATIENCE: Duration = Duration::from_secs(30);
/// Between two heartbeats. A dispatcher gives up a worker that is silent for a minute.
const BEAT: Duration = Duration::from_secs(5);

/// A worker.
#[derive(Debug)]
pub struct RecordsWorker {
    stop: Option<oneshot::Sender<()>>,
    serving: JoinHandle<()>,
    served: Arc<AtomicU64>,
}

/// Reads the one dataset it knows.
struct Records {
    dataset: Dataset,
    batch_records: usize,
    /// Before each message.
    pause: Duration,
    served: Arc<AtomicU64>,
    /// The tasks that the dispatcher has given it.
    tasks: Mutex<BTreeSet<i64>>,
}

impl RecordsWorker {
    /// Starts a worker of the dispatcher at this address, which has one dataset, sends so many
    /// records at once, and waits before each message.
    ///
    /// # Panics
    /// When the dispatcher does not take it.
    pub async fn start(
        dispatcher: &str,
        dataset: &Dataset,
        batch_records: usize,
        pause: Duration,
    ) -> Self {
        let listener = listener::bind(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let served = Arc::new(AtomicU64::new(0));
        let (dataset, counted, tasks) = (dataset.clone(), Arc::clone(&served), Mutex::default());
        let records = Arc::new(Records { dataset, batch_records, pause, served: counted, tasks });
        let service: Arc<dyn Service> = records.clone();
        let config = ServerConfig { shutdown_grace: Duration::ZERO, ..ServerConfig::default() };
        let (stop, stopped) = oneshot::channel::<()>();
        let (beating, at, own) = (records.clone(), dispatcher.to_owned(), address.clone());
        let serving = tokio::spawn(serve(listener, service, config, async move {
            // Dropped is stopped.
            tokio::select! { biased; _ = stopped => (), () = beating.beat_on(&at, &own) => () }
        }));
        records.beat(dispatcher, &address).await.unwrap();
        Self { stop: Some(stop), serving, served }
    }

    /// Records it has sent.
    pub fn served(&self) -> u64 {
        self.served.load(Ordering::Relaxed)
    }

    /// Stops it: its streams break.
    ///
    /// # Panics
    /// When it does not end.
    pub async fn kill(mut self) {
        drop(self.stop.take());
        tokio::time::timeout(PATIENCE, self.serving).await.expect("it ends").unwrap();
    }
}

impl Service for Records {
    /// It is told of tasks, and only remembers that it has them.
    fn unary(&self, call: Call) -> BoxFuture<'_, Result<Bytes, Status>> {
        if call.path == PROCESS_TASK_PATH {
            let request = wire::ProcessTaskRequest::decode(call.message).unwrap();
            self.tasks.lock().unwrap().extend(request.task.map(|task| task.task_id));
        }
        Box::pin(std::future::ready(Ok(Bytes::new())))
    }

    fn streaming_paths(&self) -> Vec<&'static str> {
        vec![READ_SPLIT_PATH]
    }

    fn streaming(&self, call: Call, to: MessageWriter) -> BoxFuture<'_, Result<(), Status>> {
        Box::pin(self.send(call, to))
    }
}

impl Records {
    /// Says again and again that the worker lives.
    async fn beat_on(&self, dispatcher: &str, address: &str) {
        loop {
            tokio::time::sleep(BEAT).await;
            // A dispatcher that is away is asked again.
            drop(self.beat(dispatcher, address).await);
        }
    }

    /// Registers the worker, or says that it lives, and hears of its tasks.
    async fn beat(&self, dispatcher: &str, address: &str) -> Result<(), Status> {
        let server = wire::DataTransferServerInfo {
            protocol: "rondo".into(),
            address: address.into(),
            ..Default::default()
        };
        let request = wire::WorkerHeartbeatRequest {
            worker_address: address.into(),
            current_tasks: self.tasks.lock().unwrap().iter().copied().collect(),
            transfer_servers: vec![server],
            ..Default::default()
        };
        let (path, message) = (Method::WorkerHeartbeat.path(), request.encode_to_vec().into());
        let answer = Client::new().unary(dispatcher, path, message, PATIENCE).await?;
        let answer = wire::WorkerHeartbeatResponse::decode(answer).unwrap();
        let mut tasks = self.tasks.lock().unwrap();
        tasks.extend(answer.new_tasks.iter().map(|task| task.task_id));
        tasks.retain(|task| !answer.tasks_to_delete.contains(task));
        Ok(())
    }

    async fn send(&self, call: Call, mut to: MessageWriter) -> Result<(), Status> {
        let request = ReadSplitRequest::decode(call.message)
            .map_err(|error| Status::new(Code::InvalidArgument, error.to_string()))?;
        let (split, skip) = (request.split, request.skip);
        let mut reader =
            self.dataset.read_split(&Stores::from_env(), split, skip, self.batch_records);
        let mut next = skip;
        while let Some(batch) = reader.next().await.map_err(|error| error.status())? {
            tokio::time::sleep(self.pause).await;
            let count = batch.records.num_rows() as u64;
            next = batch.first + count;
            let records = to_ipc(&batch.records).map_err(|error| error.status())?;
            let message =
                ReadSplitResponse { first: batch.first, count, records, ..Default::default() };
            self.served.fetch_add(count, Ordering::Relaxed);
            to.write(message.encode_to_vec()).await;
        }
        let last = ReadSplitResponse { first: next, last: true, ..Default::default() };
        to.write(last.encode_to_vec()).await;
        Ok(())
    }
}
