//! `rondo.v1.Admin`, for people and scripts.

use std::time::Instant;

use bytes::Bytes;
use prost::Message;
use rondo_core::control::{Health, Reply, Request};
use rondo_core::coordination::{self, Caller, Dialect};
use rondo_core::dispatcher;
use rondo_core::status::{Code, Status};
use rondo_proto::admin as wire;
use rondo_proto::convert::{self, GET_STATUS_PATH, RESET_NAMESPACE_PATH, VERSION_TO_READ_PATH};
use tokio::sync::Semaphore;

use super::coordination::of_coordination;
use super::node_port::{JournalStatus, NodeSlot, line_of};
use crate::aside::aside;
use crate::memory::{self, Ceiling};
use crate::transport::{BoxFuture, Call, Service};

/// Reports that are made at a time.
const REPORTS_MAX: usize = 2;

/// What a server knows of itself.
#[derive(Clone, Debug)]
pub struct ServerInfo {
    /// Rondo's version.
    pub version: &'static str,
    /// Where it listens, `host:port`.
    pub listen_address: String,
    /// When it began.
    pub started: Instant,
}

/// Shows what the server does, keeps positions, and deletes what operators no longer want.
pub struct AdminService {
    node: NodeSlot,
    server: ServerInfo,
    /// Turns to make a report.
    reports: Semaphore,
}

impl AdminService {
    /// Shows the node in `node`.
    pub fn new(node: NodeSlot, server: ServerInfo) -> Self {
        Self { node, server, reports: Semaphore::new(REPORTS_MAX) }
    }

    async fn answer(&self, call: Call) -> Result<Bytes, Status> {
        super::check_short(&call.path, &call.message)?;
        match call.path.as_str() {
            GET_STATUS_PATH => return self.status(call).await,
            RESET_NAMESPACE_PATH => return self.reset_namespace(call).await,
            _ => {}
        }
        let request = decode(&call.path, &call.message)?;
        let (node, line) = (self.node.node()?, line_of(&call));
        let reply = of_dispatcher(node.call(line, Request::Dispatcher(request)).await?)?;
        encode(&call.path, reply).ok_or_else(|| {
            let text = format!("the node answered something else than {} asks", call.path);
            Status::new(Code::Internal, text)
        })
    }

    async fn status(&self, call: Call) -> Result<Bytes, Status> {
        let line = line_of(&call);
        wire::GetStatusRequest::decode(call.message).map_err(|error| {
            Status::new(Code::InvalidArgument, format!("no GetStatusRequest: {error}"))
        })?;
        // A report of many workers is long: few are made at a time, and each counts until it has left.
        let _turn = self.reports.acquire().await.ok();
        let node = self.node.node()?;
        let request = Request::Dispatcher(dispatcher::Request::Report);
        let reply = of_dispatcher(node.call(line, request).await?)?;
        let dispatcher::Reply::Report(report) = reply else {
            return Err(no_report());
        };
        let request = Request::Coordination(coordination::Request::Report);
        let reply = of_coordination(node.call(line, request).await?)?;
        let coordination::Reply::Report(coordination) = reply else {
            return Err(no_report());
        };
        let server = self.server_status(node.health(), call.budget.ceiling());
        let journal = node.journal_status();
        let encode = move || {
            let response = wire::GetStatusResponse {
                server: Some(server),
                journal: Some(journal.into()),
                dispatcher: Some(convert::dispatcher_status(report)),
                coordination: Some(convert::coordination_status(coordination)),
            };
            response.encode_to_vec()
        };
        let encoded = Box::pin(aside("encoding a report", encode)).await?;
        let mut share = call.budget.share().for_operators();
        share.grow_to(encoded.len() as u64).await?;
        Ok(share.with(encoded.into()))
    }

    async fn reset_namespace(&self, call: Call) -> Result<Bytes, Status> {
        let asked = coordination::Call {
            namespace: convert::decode_reset_namespace(&call.message)?.into(),
            caller: Caller {
                dialect: Dialect::Rondo,
                peer: Some(call.peer.to_string().into()),
                ..Caller::default()
            },
            method: coordination::Method::ResetNamespace,
        };
        let request = Request::Coordination(coordination::Request::Call(Box::new(asked)));
        let (node, line) = (self.node.node()?, line_of(&call));
        match of_coordination(node.call(line, request).await?)? {
            coordination::Reply::LifeBegun(life) => Ok(convert::encode_reset_namespace(life)),
            _ => Err(Status::new(Code::Internal, "the node answered with no life")),
        }
    }

    fn server_status(&self, health: Health, ceiling: &Ceiling) -> wire::ServerStatus {
        let (healthy, reason) = match health {
            Health::Serving => (true, String::new()),
            Health::RefusingUpdates(reason) => (false, format!("updates are refused: {reason}")),
            Health::Halted(reason) => (false, format!("the node has stopped: {reason}")),
        };
        let uptime_ms = self.server.started.elapsed().as_millis();
        wire::ServerStatus {
            version: self.server.version.to_owned(),
            listen_address: self.server.listen_address.clone(),
            uptime_ms: u64::try_from(uptime_ms).unwrap_or(u64::MAX),
            healthy,
            reason,
            memory_bytes: memory::resident_bytes(),
            memory_bytes_max: bound_of(ceiling),
            refuses_state: ceiling.refuses_state(),
        }
    }
}

/// The bound of the process's memory as the protocol has it: 0 for none.
fn bound_of(ceiling: &Ceiling) -> u64 {
    Some(ceiling.bytes_max()).filter(|bytes| *bytes < u64::MAX).unwrap_or(0)
}

/// A request to the dispatcher.
fn decode(path: &str, message: &Bytes) -> Result<dispatcher::Request, Status> {
    if path == VERSION_TO_READ_PATH {
        return convert::decode_version_request(message);
    }
    let position = convert::decode_position_request(path, message)?;
    match position {
        Some(request) => Ok(request),
        None => convert::decode_deletion_request(path, message)?
            .ok_or_else(|| super::router::unknown(path)),
    }
}

/// The answer to it; `None` when it answers something else.
fn encode(path: &str, reply: dispatcher::Reply) -> Option<Bytes> {
    if path == VERSION_TO_READ_PATH {
        return convert::encode_version_reply(&reply);
    }
    let deletion = convert::encode_deletion_reply(path, &reply);
    deletion.or_else(|| convert::encode_position_reply(path, reply))
}

fn no_report() -> Status {
    Status::new(Code::Internal, "the node answered with no report")
}

fn of_dispatcher(reply: Reply) -> Result<dispatcher::Reply, Status> {
    match reply {
        Reply::Dispatcher(reply) => Ok(reply),
        Reply::Coordination(_) => Err(Status::new(Code::Internal, "another machine answered")),
    }
}

impl Service for AdminService {
    fn unary(&self, call: Call) -> BoxFuture<'_, Result<Bytes, Status>> {
        Box::pin(self.answer(call))
    }
}

/// Converts both ways between two types whose fields have the same names.
macro_rules! mirror {
    ($($field:ident),*) => {
        impl From<JournalStatus> for wire::JournalStatus {
            fn from(status: JournalStatus) -> Self {
                Self { $($field: status.$field),* }
            }
        }

        impl From<wire::JournalStatus> for JournalStatus {
            fn from(status: wire::JournalStatus) -> Self {
                Self { $($field: status.$field),* }
            }
        }
    };
}

mirror!(store, state, durable_lsn, next_lsn, snapshot_lsn, segments, size_bytes, blobs);
