//! What clients of the relay talk to.

use std::sync::Arc;

use bytes::Bytes;
use rondo_core::coordination::Dialect;
use rondo_core::ids::ConnectionId as ClientId;
use rondo_core::relay::{Answer, Asked, Refused};
use rondo_core::status::{Code, Detail, Status};
use rondo_proto::convert::{
    self, CoordinationMethod, HEALTH_CHECK_PATH, SERVICE_RONDO, SERVICE_T, SERVICE_X,
    WATCH_KEYS_PATH,
};

use super::driver::Handle;
use crate::service::health;
use crate::transport::budget::{Budget, UNCOUNTED_BYTES_MAX};
use crate::transport::{BoxFuture, Call, ConnectionId, MessageWriter, Service};
use crate::watching::watch;

/// The services that a relay stands in for.
const SERVICES: [&str; 3] = [SERVICE_T, SERVICE_X, SERVICE_RONDO];

/// The relay as a service: it takes calls to every method of the coordination service, and probes.
pub struct Front {
    handle: Handle,
    /// The address of its server.
    upstream: Arc<str>,
    /// The memory for long answers. It is not that of requests: those never wait for clients that do not
    /// read.
    answers: Budget,
}

impl Front {
    /// The service of a relay of the server at `upstream`, with the memory for its long answers.
    pub const fn new(handle: Handle, upstream: Arc<str>, answers: Budget) -> Self {
        Self { handle, upstream, answers }
    }

    async fn answer(&self, call: Call) -> Result<Bytes, Status> {
        if call.path == HEALTH_CHECK_PATH {
            // Its tasks live on while the server is away: so does it.
            return health::answer(&call.message, &SERVICES, true);
        }
        let kind = convert::relayed_kind(&call.path, &call.message);
        let kind = kind.map_err(|status| self.not_here(status))?;
        let asked = Asked {
            client: ClientId::new(call.connection.get()),
            peer: call.peer.to_string().into(),
            path: Arc::from(call.path),
            message: call.message,
            kind,
        };
        match self.handle.ask(asked).await {
            Ok(Answer::Passed(body)) => counted(body, &self.answers).await,
            Ok(Answer::Heartbeat(life)) => Ok(convert::encode_heartbeat_reply(life)),
            Err(refused) => Err(status_of(refused)),
        }
    }

    /// A refusal of what only the server has names the server.
    fn not_here(&self, status: Status) -> Status {
        match status.code {
            Code::Unimplemented => {
                let text = "this is a relay for the processes of a job. Ask its server";
                Status::new(status.code, format!("{}: {text}, {}", status.message, self.upstream))
            }
            _ => status,
        }
    }
}

/// An answer that counts among the messages until its client has read it.
///
/// # Errors
/// RESOURCE_EXHAUSTED at the ceiling of all memory: it is dropped then.
async fn counted(body: Bytes, budget: &Budget) -> Result<Bytes, Status> {
    let length = body.len() as u64;
    if length <= UNCOUNTED_BYTES_MAX {
        return Ok(body);
    }
    Ok(budget.acquire(length).await?.with(body))
}

fn status_of(refused: Refused) -> Status {
    let details = (!refused.details.is_empty()).then_some(Detail::Encoded(refused.details));
    Status::new(refused.code, refused.message).with(details)
}

impl Service for Front {
    fn unary(&self, call: Call) -> BoxFuture<'_, Result<Bytes, Status>> {
        Box::pin(self.answer(call))
    }

    fn streaming_paths(&self) -> Vec<&'static str> {
        vec![WATCH_KEYS_PATH]
    }

    fn streaming(&self, call: Call, to: MessageWriter) -> BoxFuture<'_, Result<(), Status>> {
        Box::pin(async move {
            let ask = |message| self.answer(Call { message, ..call.clone() });
            watch(call.message.clone(), to, ask).await
        })
    }

    fn closed(&self, connection: ConnectionId) {
        self.handle.closed(ClientId::new(connection.get()));
    }

    fn details(&self, path: &str, status: &Status) -> Bytes {
        let dialect = CoordinationMethod::from_path(path).map_or(Dialect::Rondo, |found| found.0);
        convert::encode_details(dialect, "", &status.details)
    }
}
