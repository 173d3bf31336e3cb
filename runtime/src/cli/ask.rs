//! Asking a running server.

use std::time::Duration;

use bytes::Bytes;
use clap::Args;
use prost::Message;
use rondo_core::status::{Code, Status};
use rondo_proto::admin::{GetStatusRequest, GetStatusResponse};
use rondo_proto::convert::GET_STATUS_PATH;

use super::exit::{Exit, Failure};
use crate::transport::{Client, Transport};

/// Which server.
#[derive(Args, Clone, Debug, PartialEq, Eq)]
pub(super) struct ServerArgs {
    /// The server to ask
    #[arg(long, env = "RONDO_SERVER", value_name = "HOST:PORT", default_value = "127.0.0.1:5050")]
    pub(super) server: String,

    /// How long to wait for the server, in ms
    #[arg(long, env = "RONDO_ASK_TIMEOUT_MS", value_name = "MS", default_value_t = 10_000)]
    pub(super) timeout_ms: u64,
}

impl ServerArgs {
    /// Calls the method at `path`.
    ///
    /// # Errors
    /// When the server cannot be reached or refuses, and when it answers something else.
    pub(super) async fn ask<Q: Message, R: Message + Default>(
        &self,
        path: &'static str,
        request: &Q,
    ) -> Result<R, Failure> {
        let deadline = Duration::from_millis(self.timeout_ms);
        let message = Bytes::from(request.encode_to_vec());
        let answer = Client::new().unary(&self.server, path, message, deadline).await;
        let answer = answer.map_err(|status| failure(&self.server, &status))?;
        R::decode(answer).map_err(|error| {
            let text = format!("{} answers something else: {error}", self.server);
            Failure::new(Exit::Other, text)
        })
    }

    /// The server's status.
    ///
    /// # Errors
    /// As [`ServerArgs::ask`].
    pub(super) async fn status(&self) -> Result<GetStatusResponse, Failure> {
        self.ask(GET_STATUS_PATH, &GetStatusRequest {}).await
    }
}

fn failure(server: &str, status: &Status) -> Failure {
    let exit = match status.code {
        Code::Unavailable | Code::DeadlineExceeded => Exit::Unreachable,
        _ => Exit::Other,
    };
    Failure::new(exit, said_by(server, &status.message))
}

/// A server's message, with the server's name in front unless the message names it.
pub(super) fn said_by(server: &str, text: &str) -> String {
    if text.contains(server) { text.to_owned() } else { format!("{server}: {text}") }
}

/// Runs something that asks, on this thread.
pub(super) fn run<T>(asking: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::new(Exit::Other, error))?;
    runtime.block_on(asking)
}
