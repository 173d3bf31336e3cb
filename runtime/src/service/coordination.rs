//! `tensorflow.CoordinationService`, `xla.coordination.CoordinationService` and
//! `rondo.v1.Coordination`, for one namespace.

use std::sync::Arc;

use bytes::Bytes;
use rondo_core::control;
use rondo_core::coordination::{self, Caller, Dialect, Method, NamespaceConfig};
use rondo_core::relay::Forwarding;
use rondo_core::status::{Code, Detail, Status};
use rondo_proto::convert::{self, CoordinationMethod, CoordinationRequest, WATCH_KEYS_PATH};

use super::callers::{Callers, Place};
use super::directories::Directories;
use super::node_port::{NodePort, NodeSlot, line_of, line_of_relay};
use super::{DECODED_INLINE_BYTES_MAX, values};
use crate::aside::aside;
use crate::node::Line;
use crate::transport::budget::UNCOUNTED_BYTES_MAX;
use crate::transport::{BoxFuture, Call, ConnectionId, MessageWriter, RequestMemory, Service};
use crate::watching::watch;

/// How often a read is made again when the value it found was replaced before it was read.
const READS_MAX: usize = 4;

/// Requests with a value up to this size are decoded on the connection's task, in bytes.
const VALUE_DECODED_INLINE_BYTES_MAX: usize = 256 << 10;

/// How a call came.
enum Origin<'a> {
    /// On a connection of its client.
    Connection(&'a Call),
    /// From a stream of its client's, which has its place.
    Stream(&'a Call),
    /// Through a relay.
    Relay(&'a Forwarding, &'a Call),
}

impl Origin<'_> {
    /// Where it waits for the node's turn.
    fn line(&self) -> Line {
        match self {
            Self::Connection(call) | Self::Stream(call) => line_of(call),
            Self::Relay(call, carrier) => line_of_relay(carrier, &call.peer),
        }
    }

    /// The call that came, whoever made it.
    const fn carrier(&self) -> &Call {
        match self {
            Self::Connection(call) | Self::Stream(call) | Self::Relay(_, call) => call,
        }
    }
}

/// The coordination of one namespace, on the wire.
pub struct CoordinationService {
    node: NodeSlot,
    namespace: Arc<str>,
    job: Arc<str>,
    callers: Callers,
    directories: Directories,
    /// Calls of one connection that may wait for what may never come.
    places: usize,
}

impl CoordinationService {
    /// Serves a namespace of the node in `node`, once there is one. Of `calls_per_connection_max` calls, a
    /// quarter is never taken by waits for keys.
    pub fn new(node: NodeSlot, namespace: &NamespaceConfig, calls_per_connection_max: u32) -> Self {
        let (name, job) = (namespace.name.clone(), namespace.job.clone());
        let places = calls_per_connection_max.saturating_sub(calls_per_connection_max / 4);
        let places = usize::try_from(places).unwrap_or(usize::MAX);
        let (callers, directories) = (Callers::default(), Directories::default());
        Self { node, namespace: name, job, callers, directories, places }
    }

    /// Answers a call that a relay brings.
    ///
    /// # Errors
    /// As when it had come directly.
    pub(super) async fn relayed(
        &self,
        mut call: Forwarding,
        carrier: &Call,
    ) -> Result<Bytes, Status> {
        let message = std::mem::take(&mut call.message);
        self.answer(&call.path, message, &carrier.memory, &Origin::Relay(&call, carrier)).await
    }

    /// Answers a watch with all that it tells.
    async fn stream(&self, mut call: Call, to: MessageWriter) -> Result<(), Status> {
        let request = convert::encode_first_watch(&std::mem::take(&mut call.message))?;
        let call = &call;
        let mut caller = Caller { dialect: Dialect::Rondo, ..Caller::default() };
        self.callers.identify(call, None, &mut caller);
        let _place = self.callers.place(call.connection, self.places)?;
        let origin = Origin::Stream(call);
        let ask =
            async |message: Bytes| self.answer(&call.path, message, &call.memory, &origin).await;
        watch(request, to, ask).await
    }

    async fn answer(
        &self,
        path: &str,
        message: Bytes,
        memory: &RequestMemory,
        origin: &Origin<'_>,
    ) -> Result<Bytes, Status> {
        let method =
            CoordinationMethod::from_path(path).ok_or_else(|| super::router::unknown(path))?;
        let node = self.node.node()?.as_ref();
        let request = decode(method, message).await?;
        if !method.1.has_value() {
            // The call may wait for days, and nobody needs its bytes any more.
            memory.release();
        }
        // Only what reads values may have to be asked again, and that is short.
        let again = is_read(&request.method).then(|| request.clone());
        let mut asked = self.ask(node, origin, request).await?;
        for _ in 0..READS_MAX {
            let (echo, reply) = asked;
            let answer = self.encode(node, origin, method, echo, reply).await;
            let is_gone = matches!(&answer, Err(status) if status.code == Code::DataLoss);
            let Some(again) = again.clone().filter(|_| is_gone) else { return answer };
            asked = self.ask(node, origin, again).await?;
        }
        let (echo, reply) = asked;
        self.encode(node, origin, method, echo, reply).await
    }

    /// Asks the node; with the answer comes what it repeats.
    async fn ask(
        &self,
        node: &dyn NodePort,
        origin: &Origin<'_>,
        request: CoordinationRequest,
    ) -> Result<(String, coordination::Reply), Status> {
        let CoordinationRequest { mut method, mut caller, echo } = request;
        self.identify(origin, &method, &mut caller);
        let _place = self.place(origin, &method)?;
        let pin = values::put_aside(node, &mut method).await?;
        let namespace = self.namespace.clone();
        let asked = Box::new(coordination::Call { namespace, caller, method });
        let request = control::Request::Coordination(coordination::Request::Call(asked));
        let reply = of_coordination(node.register(origin.line(), request, pin).await?)?;
        if let Origin::Connection(call) = origin {
            self.callers.learn(call.connection, &reply);
        }
        Ok((echo, reply))
    }

    /// A place among the calls of its connection for one that waits for what may never come. A
    /// relay keeps places for its own clients.
    fn place(&self, origin: &Origin<'_>, method: &Method) -> Result<Option<Place<'_>>, Status> {
        match (origin, method) {
            (Origin::Connection(call), Method::GetKeyValue { .. } | Method::WatchTasks { .. }) => {
                self.callers.place(call.connection, self.places).map(Some)
            }
            _ => Ok(None),
        }
    }

    fn identify(&self, origin: &Origin<'_>, method: &Method, caller: &mut Caller) {
        match origin {
            Origin::Connection(call) | Origin::Stream(call) => {
                let said = match method {
                    Method::RegisterTask { incarnation, .. }
                    | Method::Heartbeat { incarnation, .. } => Some(*incarnation),
                    _ => None,
                };
                self.callers.identify(call, said, caller);
            }
            Origin::Relay(call, _) => convert::identify_forwarded(call, caller),
        }
    }

    async fn encode(
        &self,
        node: &dyn NodePort,
        origin: &Origin<'_>,
        method: (Dialect, CoordinationMethod),
        echo: String,
        mut reply: coordination::Reply,
    ) -> Result<Bytes, Status> {
        let answers_else = || {
            let text = format!("the node answered something else than {} asks", method.1.name());
            Status::new(Code::Internal, text)
        };
        let budget = &origin.carrier().budget;
        match &reply {
            // Few answers hold values, and only those wait.
            coordination::Reply::Directory(entries) => {
                let entries = Arc::clone(entries);
                Box::pin(self.directories.encode(node, budget, method, entries)).await
            }
            coordination::Reply::Value { .. }
            | coordination::Reply::Keys { .. }
            | coordination::Reply::Changes { .. } => {
                let share = Box::pin(values::read_back(node, budget, &mut reply)).await?;
                let job = Arc::clone(&self.job);
                let encode = move |reply| convert::encode_coordination(method, (echo, &job), reply);
                let encoded = match values::is_long(&reply) {
                    true => Box::pin(values::encode_aside(reply, encode)).await?,
                    false => encode(reply),
                };
                encoded.map(|encoded| share.with(encoded)).ok_or_else(answers_else)
            }
            _ => {
                let encoded = convert::encode_coordination(method, (echo, &self.job), reply);
                let encoded = encoded.ok_or_else(answers_else)?;
                match encoded.len() as u64 {
                    0..=UNCOUNTED_BYTES_MAX => Ok(encoded),
                    // The states of many tasks.
                    long => Ok(Box::pin(budget.acquire(long)).await?.with(encoded)),
                }
            }
        }
    }
}

/// Whether the answer may name values that have to be read.
const fn is_read(method: &Method) -> bool {
    matches!(
        method,
        Method::GetKeyValue { .. }
            | Method::TryGetKeyValue { .. }
            | Method::GetKeyValueDir { .. }
            | Method::WatchKeys { .. }
    )
}

/// Decodes a request, a long one beside the tasks that answer calls. The message is gone afterwards.
async fn decode(
    method: (Dialect, CoordinationMethod),
    message: Bytes,
) -> Result<CoordinationRequest, Status> {
    // A value stays where it is.
    let inline_max = match method.1.has_value() {
        true => VALUE_DECODED_INLINE_BYTES_MAX,
        false => DECODED_INLINE_BYTES_MAX,
    };
    if message.len() <= inline_max {
        return convert::decode_coordination(method, &message);
    }
    let decode = move || convert::decode_coordination(method, &message);
    Box::pin(aside("decoding a request", decode)).await?
}

/// The answer of the machine that was asked.
pub(super) fn of_coordination(reply: control::Reply) -> Result<coordination::Reply, Status> {
    match reply {
        control::Reply::Coordination(reply) => Ok(reply),
        control::Reply::Dispatcher(_) => {
            Err(Status::new(Code::Internal, "another machine answered"))
        }
    }
}

impl Service for CoordinationService {
    fn unary(&self, mut call: Call) -> BoxFuture<'_, Result<Bytes, Status>> {
        Box::pin(async move {
            let message = std::mem::take(&mut call.message);
            self.answer(&call.path, message, &call.memory, &Origin::Connection(&call)).await
        })
    }

    fn streaming_paths(&self) -> Vec<&'static str> {
        vec![WATCH_KEYS_PATH]
    }

    fn streaming(&self, call: Call, to: MessageWriter) -> BoxFuture<'_, Result<(), Status>> {
        Box::pin(self.stream(call, to))
    }

    fn closed(&self, connection: ConnectionId) {
        self.callers.forget(connection);
    }

    fn details(&self, path: &str, status: &Status) -> Bytes {
        match CoordinationMethod::from_path(path) {
            Some((dialect, _)) => convert::encode_details(dialect, &self.job, &status.details),
            None => Bytes::new(),
        }
    }

    /// Clients take anything but CANCELLED from a poll for an error of the job, and end.
    fn cut(&self, path: &str) -> Status {
        let code = match CoordinationMethod::from_path(path) {
            Some((_, CoordinationMethod::PollForError)) => Code::Cancelled,
            Some((_, CoordinationMethod::Barrier)) => Code::Aborted,
            _ => return Status::new(Code::Unavailable, "the server is shutting down"),
        };
        Status::new(code, "the server is shutting down").with([Detail::SERVICE])
    }
}
