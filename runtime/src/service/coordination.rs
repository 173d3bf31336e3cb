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
use super::node_port::{NodePort, NodeSlot};
use super::values;
use crate::transport::budget::Budget;
use crate::transport::{BoxFuture, Call, ConnectionId, MessageWriter, Service};
use crate::watching::watch;

/// How often a read is made again when the value it found was replaced before it was read.
const READS_MAX: usize = 4;

/// How a call came.
enum Origin<'a> {
    /// On a connection of its client.
    Connection(&'a Call),
    /// From a stream of its client's, which has its place.
    Stream(&'a Call),
    /// Through a relay.
    Relay(&'a Forwarding),
}

/// The coordination of one namespace, on the wire.
pub struct CoordinationService {
    node: NodeSlot,
    namespace: Arc<str>,
    job: Arc<str>,
    budget: Budget,
    callers: Callers,
    directories: Directories,
    /// Calls of one connection that may wait for what may never come.
    places: usize,
}

impl CoordinationService {
    /// Serves a namespace of the node in `node`, once there is one. Large answers wait for room in
    /// `budget`. Of `calls_per_connection_max` calls, a quarter is never taken by waits for keys.
    pub fn new(
        node: NodeSlot,
        namespace: &NamespaceConfig,
        budget: Budget,
        calls_per_connection_max: u32,
    ) -> Self {
        let (name, job) = (namespace.name.clone(), namespace.job.clone());
        let places = calls_per_connection_max.saturating_sub(calls_per_connection_max / 4);
        let places = usize::try_from(places).unwrap_or(usize::MAX);
        let (callers, directories) = (Callers::default(), Directories::default());
        Self { node, namespace: name, job, budget, callers, directories, places }
    }

    /// Answers a call that a relay brings.
    ///
    /// # Errors
    /// As when it had come directly.
    pub(super) async fn relayed(&self, call: Forwarding) -> Result<Bytes, Status> {
        self.answer(&call.path, &call.message, &Origin::Relay(&call)).await
    }

    /// Answers a watch with all that it tells.
    async fn stream(&self, call: &Call, to: MessageWriter) -> Result<(), Status> {
        let mut caller = Caller { dialect: Dialect::Rondo, ..Caller::default() };
        self.callers.identify(call, None, &mut caller);
        let _place = self.callers.place(call.connection, self.places)?;
        let origin = Origin::Stream(call);
        let ask = async |message: Bytes| self.answer(&call.path, &message, &origin).await;
        watch(call.message.clone(), to, ask).await
    }

    async fn answer(
        &self,
        path: &str,
        message: &Bytes,
        origin: &Origin<'_>,
    ) -> Result<Bytes, Status> {
        let method =
            CoordinationMethod::from_path(path).ok_or_else(|| super::router::unknown(path))?;
        let node = self.node.node()?.as_ref();
        let mut reads = 0_usize;
        loop {
            let request = convert::decode_coordination(method, message)?;
            let (echo, reply) = self.ask(node, origin, request).await?;
            match self.encode(node, method, echo, reply).await {
                Err(status) if status.code == Code::DataLoss && reads < READS_MAX => {
                    reads = reads.saturating_add(1);
                }
                answer => return answer,
            }
        }
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
        let reply = of_coordination(node.register(request, pin).await?)?;
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
            Origin::Relay(call) => convert::identify_forwarded(call, caller),
        }
    }

    async fn encode(
        &self,
        node: &dyn NodePort,
        method: (Dialect, CoordinationMethod),
        echo: String,
        mut reply: coordination::Reply,
    ) -> Result<Bytes, Status> {
        let answers_else = || {
            let text = format!("the node answered something else than {} asks", method.1.name());
            Status::new(Code::Internal, text)
        };
        match &reply {
            // Few answers hold values, and only those wait.
            coordination::Reply::Directory(entries) => {
                let entries = Arc::clone(entries);
                Box::pin(self.directories.encode(node, &self.budget, method, entries)).await
            }
            coordination::Reply::Value { .. }
            | coordination::Reply::Keys { .. }
            | coordination::Reply::Changes { .. } => {
                let share = Box::pin(values::read_back(node, &self.budget, &mut reply)).await?;
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
                encoded.ok_or_else(answers_else)
            }
        }
    }
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
    fn unary(&self, call: Call) -> BoxFuture<'_, Result<Bytes, Status>> {
        Box::pin(
            async move { self.answer(&call.path, &call.message, &Origin::Connection(&call)).await },
        )
    }

    fn streaming_paths(&self) -> Vec<&'static str> {
        vec![WATCH_KEYS_PATH]
    }

    fn streaming(&self, call: Call, to: MessageWriter) -> BoxFuture<'_, Result<(), Status>> {
        Box::pin(async move { self.stream(&call, to).await })
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
