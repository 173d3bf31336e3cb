//! What clients of the relay talk to.

use std::sync::Arc;

use bytes::Bytes;
use rondo_core::coordination::Dialect;
use rondo_core::ids::ConnectionId as ClientId;
use rondo_core::relay::{Answer, Asked, Refused};
use rondo_core::status::{Detail, Status};
use rondo_proto::convert::{self, CoordinationMethod, WATCH_KEYS_PATH};

use super::driver::Handle;
use crate::transport::{BoxFuture, Call, ConnectionId, MessageWriter, Service};
use crate::watching::watch;

/// The relay as a service: it takes calls to every method of the coordination service.
pub struct Front {
    handle: Handle,
}

impl Front {
    /// The service of a relay.
    pub const fn new(handle: Handle) -> Self {
        Self { handle }
    }

    async fn answer(&self, call: Call) -> Result<Bytes, Status> {
        let kind = convert::relayed_kind(&call.path, &call.message)?;
        let asked = Asked {
            client: ClientId::new(call.connection.get()),
            peer: call.peer.to_string().into(),
            path: Arc::from(call.path),
            message: call.message,
            kind,
        };
        match self.handle.ask(asked).await {
            Ok(Answer::Passed(body)) => Ok(body),
            Ok(Answer::Heartbeat(life)) => Ok(convert::encode_heartbeat_reply(life)),
            Err(refused) => Err(status_of(refused)),
        }
    }
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
