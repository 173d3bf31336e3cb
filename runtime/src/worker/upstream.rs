//! The way to the dispatcher.

use std::sync::Arc;
use std::time::Duration;

use rondo_core::status::Status;
use rondo_core::worker::{Reply, Request};
use rondo_proto::convert::{
    WorkerIdentity, decode_reply_of_dispatcher, encode_request_to_dispatcher,
};

use crate::transport::Transport;

/// How long the dispatcher may take to answer. A split that it hands out in vain is lost, so that
/// call waits longer, as does what may be large.
const DEADLINE: Duration = Duration::from_secs(10);
/// See [`DEADLINE`].
const LONG_DEADLINE: Duration = Duration::from_secs(60);

/// How a worker reaches its dispatcher.
#[derive(Clone)]
pub struct Upstream {
    /// The dispatcher's address, `host:port`.
    pub address: Arc<str>,
    /// Who the worker is.
    pub identity: Arc<WorkerIdentity>,
    /// Makes the calls, each naming the worker.
    pub transport: Arc<dyn Transport>,
}

impl Upstream {
    /// Makes one call.
    pub(super) async fn call(self, request: Request) -> Result<Reply, Status> {
        let (path, message) = encode_request_to_dispatcher(&self.identity, &request);
        let deadline = match request {
            Request::Split { .. } | Request::Definition { .. } => LONG_DEADLINE,
            _ => DEADLINE,
        };
        let answer = self.transport.unary(&self.address, path, message, deadline).await;
        let mut refused = Vec::new();
        let reply =
            answer.and_then(|answer| decode_reply_of_dispatcher(&request, &answer, &mut refused));
        for status in refused {
            tracing::warn!(%status, "the dispatcher tells of a task that cannot be understood");
        }
        if let Err(status) = &reply {
            tracing::debug!(path, %status, "the dispatcher has not answered");
        }
        reply
    }
}
