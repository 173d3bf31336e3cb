//! What consumers, readers and the dispatcher call at a worker.

use std::pin::pin;
use std::sync::Arc;

use bytes::Bytes;
use rondo_core::ids::ConnectionId as ClientId;
use rondo_core::status::{Code, Status};
use rondo_core::worker::{Answer, Ask, ElementAsk};
use rondo_proto::convert::{
    self, GetElement, HeldTask, READ_SPLIT_PATH, ReadSplit, WorkerMethod, WorkerRequest,
    decode_read_split, decode_worker_request, encode_split_records,
};
use rondo_proto::pieces::Pieces;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::datasets::{Datasets, Records};
use super::driver::Handle;
use crate::transport::{BoxFuture, Call, MessageWriter, Service, contain_panic};

/// Batches of one reader that are ready before it asks for them.
const BATCHES_AHEAD: usize = 2;

/// The worker as a service: `tensorflow.data.WorkerService` and `rondo.v1.Records`.
pub struct Front {
    handle: Handle,
    datasets: Arc<dyn Datasets>,
    address: Arc<str>,
}

impl Front {
    /// The service of the worker at this address.
    pub fn new(handle: Handle, datasets: Arc<dyn Datasets>, address: Arc<str>) -> Self {
        Self { handle, datasets, address }
    }

    async fn answer(&self, call: Call) -> Result<Bytes, Status> {
        let method = WorkerMethod::from_path(&call.path).ok_or_else(|| {
            Status::new(Code::Unimplemented, format!("no method {} here", call.path))
        })?;
        let ask = match decode_worker_request(method, &call.message)? {
            WorkerRequest::GetSnapshotTaskProgresses => return Ok(convert::encode_nothing()),
            WorkerRequest::GetWorkerTasks => Ask::Tasks,
            WorkerRequest::ProcessTask(task) => Ask::Process(task.into()),
            WorkerRequest::GetElement(request) => Ask::Element(element_ask(request)),
        };
        let client = forget_request(call);
        Ok(match self.handle.ask(client, ask).await? {
            Answer::Element(element) => element,
            Answer::End => convert::encode_end(),
            Answer::Skip => convert::encode_skip(),
            Answer::Done | Answer::Dataset(_) => convert::encode_nothing(),
            Answer::Tasks(tasks) => {
                let held = |(task, iteration)| HeldTask { task, iteration };
                let tasks: Vec<_> = tasks.into_iter().map(held).collect();
                convert::encode_worker_tasks(&self.address, &tasks)
            }
        })
    }

    async fn read_split(&self, call: Call, mut to: MessageWriter) -> Result<(), Status> {
        let request = decode_read_split(&call.message)?;
        let (client, ask) = (forget_request(call), Ask::Dataset { task: request.task });
        let definition = match self.handle.ask(client, ask).await? {
            Answer::Dataset(definition) => definition,
            other => {
                let text = format!("a worker answers {other:?} to a reader of splits");
                return Err(Status::new(Code::Internal, text));
            }
        };
        let records = self.datasets.read_split(definition, request).await?;
        let (sender, mut ready) = mpsc::channel(BATCHES_AHEAD);
        let _ahead = Ahead(tokio::spawn(read_ahead(records, request, sender)));
        while let Some(batch) = ready.recv().await {
            to.write(batch?).await;
        }
        Ok(())
    }
}

/// What reads ahead of a reader, and ends with its call.
struct Ahead(JoinHandle<()>);

impl Drop for Ahead {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Reads until the split's end, an error, or the end of whoever takes it.
async fn read_ahead(
    mut records: Box<dyn Records>,
    request: ReadSplit,
    to: mpsc::Sender<Result<Pieces, Status>>,
) {
    let what = format!("reading split {}", request.split);
    loop {
        let batch = contain_panic(&what, pin!(records.next())).await.transpose();
        let Some(batch) = batch else { return };
        let is_last = batch.is_err();
        let sent = to.send(batch.map(encode_split_records)).await;
        if is_last || sent.is_err() {
            return;
        }
    }
}

/// Drops a call's request, which may be long while the call waits for hours. Returns the call's connection.
fn forget_request(call: Call) -> ClientId {
    let Call { message, memory, connection, .. } = call;
    drop(message);
    memory.release();
    ClientId::new(connection.get())
}

fn element_ask(request: GetElement) -> ElementAsk {
    ElementAsk {
        task: request.task,
        round: request.round.map(|at| (at.consumer, at.round)),
        skipped_previous_round: request.skipped_previous_round,
        allow_skip: request.allow_skip,
        trainer: request.trainer,
    }
}

impl Service for Front {
    fn unary(&self, call: Call) -> BoxFuture<'_, Result<Bytes, Status>> {
        Box::pin(self.answer(call))
    }

    fn streaming_paths(&self) -> Vec<&'static str> {
        vec![READ_SPLIT_PATH]
    }

    fn streaming(&self, call: Call, to: MessageWriter) -> BoxFuture<'_, Result<(), Status>> {
        Box::pin(self.read_split(call, to))
    }

    fn cut(&self, _path: &str) -> Status {
        Status::new(Code::Unavailable, "Worker is shutting down")
    }
}
