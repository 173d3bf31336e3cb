//! `tensorflow.data.DispatcherService`.

use std::time::Instant;

use bytes::Bytes;
use rondo_core::control::{Reply, Request};
use rondo_core::dispatcher;
use rondo_core::ids::Digest;
use rondo_core::status::{Code, Status};
use rondo_proto::convert::{self, Decoded, Encoded, Method, Registration};
use rondo_proto::graph::{self, GraphError};

use tokio::sync::Semaphore;

use super::DECODED_INLINE_BYTES_MAX;
use super::askers::Askers;
use super::node_port::{NodePort, NodeSlot, line_of};
use super::task_lists::TaskLists;
use crate::aside::aside;
use crate::node::{BlobPin, Line};
use crate::store::blobs::Blob;
use crate::transport::budget::Budget;
use crate::transport::{BoxFuture, Call, ConnectionId, Service};

/// Graphs up to this size are read on the connection's task, in bytes; larger ones, which take
/// milliseconds, on a thread that may block.
const GRAPH_INLINE_BYTES_MAX: usize = 256 << 10;

/// Lists of up to so many workers are encoded on the connection's task.
const LISTED_INLINE_MAX: usize = 256;

/// Lists that are made at a time.
const LISTS_MAX: usize = 2;

/// The tf.data service's dispatcher, on the wire.
pub struct DispatcherService {
    node: NodeSlot,
    protocol_version: i64,
    askers: Askers,
    task_lists: TaskLists,
    /// Turns to make a list of workers.
    lists: Semaphore,
}

impl DispatcherService {
    /// Serves the node in `node`, once there is one.
    pub fn new(node: NodeSlot, protocol_version: i64) -> Self {
        Self {
            node,
            protocol_version,
            askers: Askers::default(),
            task_lists: TaskLists::default(),
            lists: Semaphore::new(LISTS_MAX),
        }
    }

    async fn answer(&self, call: Call) -> Result<Bytes, Status> {
        let method =
            Method::from_path(&call.path).ok_or_else(|| super::router::unknown(&call.path))?;
        let (decoded, is_own) = decode(method, &call.message).await?;
        if decoded == Decoded::Version {
            return Ok(convert::encode_version(self.protocol_version));
        }
        let (node, line) = (self.node.node()?, line_of(&call));
        let reply = match decoded {
            Decoded::Request(request @ dispatcher::Request::GetDefinition { .. }) => {
                return Box::pin(self.asked_definition(node.as_ref(), &call, request)).await;
            }
            Decoded::Request(request @ dispatcher::Request::GetWorkers) => {
                return Box::pin(self.workers(node.as_ref(), &call, request)).await;
            }
            Decoded::Request(mut request) => {
                self.askers.identify(&call, Instant::now(), &mut request);
                node.call(line, Request::Dispatcher(request)).await?
            }
            // Boxed, so that the futures of all other calls are small.
            Decoded::Register(registration) => {
                Box::pin(register(node.as_ref(), &call, registration, is_own)).await?
            }
            Decoded::Version => return Err(internal("GetVersion is answered before")),
        };
        self.encode(node.as_ref(), &call.budget, reply).await
    }

    /// Answers with a definition. Somebody may delete the dataset between the node's answer and the reading
    /// of a large definition. The node says so when it is asked again.
    async fn asked_definition(
        &self,
        node: &dyn NodePort,
        call: &Call,
        request: dispatcher::Request,
    ) -> Result<Bytes, Status> {
        let (from, budget) = (line_of(call), &call.budget);
        let reply = node.call(from, Request::Dispatcher(request.clone())).await?;
        match self.encode(node, budget, reply).await {
            Err(status) if status.code == Code::DataLoss => {
                let reply = node.call(from, Request::Dispatcher(request)).await?;
                self.encode(node, budget, reply).await
            }
            answer => answer,
        }
    }

    async fn encode(
        &self,
        node: &dyn NodePort,
        budget: &Budget,
        reply: Reply,
    ) -> Result<Bytes, Status> {
        let Reply::Dispatcher(reply) = reply else {
            return Err(internal("another machine answered"));
        };
        let size_bytes = match &reply {
            dispatcher::Reply::ClientHeartbeat(reply) => return Ok(self.task_lists.encode(reply)),
            dispatcher::Reply::Definition(definition) => definition.size_bytes,
            _ => 0,
        };
        match convert::encode_reply(reply) {
            Encoded::Message(message) => Ok(message),
            Encoded::Blob(digest) => Box::pin(definition(node, budget, digest, size_bytes)).await,
            Encoded::Administration => Err(internal("administration is no business of workers")),
            Encoded::DefinitionNeeded => Err(internal("the definition was not asked for")),
            Encoded::Report(_) => Err(internal("a report answers no method of the dispatcher")),
        }
    }

    /// Answers with all workers. Few such answers are made at a time, and each counts until it has left.
    /// Others wait for the turn, so the answer takes no place of its connection.
    async fn workers(
        &self,
        node: &dyn NodePort,
        call: &Call,
        request: dispatcher::Request,
    ) -> Result<Bytes, Status> {
        let _turn = self.lists.acquire().await.ok();
        let reply = match node.call(line_of(call), Request::Dispatcher(request)).await? {
            Reply::Dispatcher(dispatcher::Reply::Workers(few))
                if few.len() <= LISTED_INLINE_MAX =>
            {
                convert::encode_reply(dispatcher::Reply::Workers(few))
            }
            Reply::Dispatcher(reply) => {
                aside("encoding the list of workers", move || convert::encode_reply(reply)).await?
            }
            Reply::Coordination(_) => return Err(internal("another machine answered")),
        };
        match reply {
            Encoded::Message(list) => {
                let share = call.budget.of_all().acquire(list.len() as u64).await?;
                Ok(share.with(list))
            }
            _ => Err(internal("the list of workers is no message")),
        }
    }
}

async fn definition(
    node: &dyn NodePort,
    budget: &Budget,
    digest: Digest,
    size_bytes: u64,
) -> Result<Bytes, Status> {
    // The blob is in memory twice: as read, and within the encoded answer.
    let share = budget.acquire(size_bytes.saturating_mul(2)).await?;
    let message = convert::encode_definition(node.get_blob(digest).await?);
    Ok(share.with(message))
}

impl Service for DispatcherService {
    fn unary(&self, call: Call) -> BoxFuture<'_, Result<Bytes, Status>> {
        Box::pin(self.answer(call))
    }

    fn closed(&self, connection: ConnectionId) {
        self.askers.forget(connection);
    }
}

/// Registers a dataset. If its id is taken, the graph is neither hashed nor kept, for nobody looks at it.
async fn register(
    node: &dyn NodePort,
    call: &Call,
    registration: Registration,
    is_own: bool,
) -> Result<Reply, Status> {
    let line = line_of(call);
    if let Some(request) = registration.without_graph().filter(|_| !is_own) {
        let reply = node.call(line, Request::Dispatcher(request)).await?;
        if reply != Reply::Dispatcher(dispatcher::Reply::NotRegistered) {
            return Ok(reply);
        }
    }
    register_graph(node, line, registration).await
}

/// Cleans, reads and names a graph, and makes a large one durable, before the node hears of it.
async fn register_graph(
    node: &dyn NodePort,
    line: Line,
    registration: Registration,
) -> Result<Reply, Status> {
    let prepared = apart(registration.dataset_def.clone(), prepare).await?;
    let mut definition = prepared.definition;
    let pin = match &mut definition.inline {
        Some(inline) => {
            // What stays in the state must not keep the whole request in memory.
            *inline = Bytes::copy_from_slice(inline);
            BlobPin::none()
        }
        None => node.put_blob(prepared.cleaned).await?,
    };
    let mut request = registration.with_graph(definition, prepared.plan);
    request.metadata.encoded = Bytes::copy_from_slice(&request.metadata.encoded);
    let request = dispatcher::Request::RegisterDataset(request);
    node.register(line, Request::Dispatcher(request), pin).await
}

/// A graph, ready to be registered.
struct Prepared {
    cleaned: Blob,
    definition: dispatcher::Definition,
    plan: dispatcher::SplitPlan,
}

/// Decodes a request, a long one beside the tasks that answer calls.
async fn decode(method: Method, message: &Bytes) -> Result<(Decoded, bool), Status> {
    // A graph stays where it is.
    let inline_max = match method {
        Method::GetOrRegisterDataset => GRAPH_INLINE_BYTES_MAX,
        _ => DECODED_INLINE_BYTES_MAX,
    };
    if message.len() <= inline_max {
        return read(method, message);
    }
    let message = message.clone();
    Box::pin(aside("decoding a request", move || read(method, &message))).await?
}

/// Decodes a request. Of a registration under a wished id, returns whether its graph is one of Rondo's own.
fn read(method: Method, message: &Bytes) -> Result<(Decoded, bool), Status> {
    let decoded = convert::decode_request(method, message)?;
    let own = match &decoded {
        Decoded::Register(registration) if registration.wished.is_some() => {
            graph::check(&registration.dataset_def).map_err(unkeepable)?
        }
        _ => false,
    };
    Ok((decoded, own))
}

/// Reads a graph, a large one beside the tasks that answer calls.
async fn apart<T: Send + 'static>(
    dataset_def: Bytes,
    read: fn(&Bytes) -> Result<T, Status>,
) -> Result<T, Status> {
    if dataset_def.len() <= GRAPH_INLINE_BYTES_MAX {
        return read(&dataset_def);
    }
    aside("reading a graph", move || read(&dataset_def)).await?
}

fn prepare(dataset_def: &Bytes) -> Result<Prepared, Status> {
    let prepared = graph::prepare(dataset_def).map_err(unkeepable)?;
    let cleaned = Blob::of(prepared.cleaned);
    let definition = convert::definition_of(cleaned.digest(), cleaned.bytes());
    for warning in &prepared.warnings {
        tracing::warn!(digest = %definition.digest, "registered graph: {warning}");
    }
    Ok(Prepared { cleaned, definition, plan: prepared.plan })
}

fn unkeepable(error: GraphError) -> Status {
    let text = format!("GetOrRegisterDatasetRequest.dataset cannot be kept: {error}");
    Status::new(Code::InvalidArgument, text)
}

fn internal(text: &str) -> Status {
    Status::new(Code::Internal, text)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use rondo_core::dispatcher::Definition;
    use rondo_core::ids::DatasetId;

    use super::*;
    use crate::service::node_double::{NodeDouble, call_within};

    /// A node whose large definitions cannot be read. It knows the dataset for so many questions.
    fn gone(known: usize, asked: &Arc<AtomicUsize>) -> impl NodePort {
        let asked = Arc::clone(asked);
        let call = move |_| {
            let definition =
                Definition { digest: Digest::new([1; 32]), size_bytes: 1 << 20, inline: None };
            match asked.fetch_add(1, Ordering::Relaxed) < known {
                true => Ok(Reply::Dispatcher(dispatcher::Reply::Definition(definition))),
                false => Err(Status::new(Code::NotFound, "no such dataset")),
            }
        };
        NodeDouble { call, blob: |_| Err(Status::new(Code::DataLoss, "gone")) }
    }

    #[tokio::test]
    async fn a_long_list_of_workers_counts_until_it_has_left() {
        let budget = Budget::new(8 << 20, 4 << 20);
        let service = DispatcherService::new(NodeSlot::default(), 9);
        let call = call_within(&budget);
        let workers: Vec<Arc<str>> = vec!["w".repeat(4096).into(); 512];
        let list = move |_| Ok(Reply::Dispatcher(dispatcher::Reply::Workers(workers.clone())));
        let node = NodeDouble { call: list, blob: |_| Ok(Bytes::new()) };
        let answer = service.workers(&node, &call, dispatcher::Request::GetWorkers).await.unwrap();
        assert!(answer.len() > 512 * 4096);
        let soon = std::time::Duration::from_millis(50);
        let more =
            async |bytes: u64| tokio::time::timeout(soon, budget.acquire(bytes)).await.is_ok();
        // A message above the pool takes the turn: then only the pool is left.
        let _turn = budget.acquire(u64::MAX).await.unwrap();
        assert!(more(1 << 20).await && !more(2 << 20).await);
        drop(answer);
        assert!(more(4 << 20).await);
    }

    #[tokio::test]
    async fn a_definition_that_goes_while_it_is_read_is_lost_only_if_its_dataset_stays() {
        let service = DispatcherService::new(NodeSlot::default(), 9);
        let call = call_within(&Budget::new(64 << 20, 32 << 20));
        for (known, code) in [(1, Code::NotFound), (usize::MAX, Code::DataLoss)] {
            let asked = Arc::default();
            let request = dispatcher::Request::GetDefinition { dataset: DatasetId::new("1000") };
            let answer = service.asked_definition(&gone(known, &asked), &call, request).await;
            assert_eq!(answer.unwrap_err().code, code);
            assert_eq!(asked.load(Ordering::Relaxed), 2);
        }
    }
}
