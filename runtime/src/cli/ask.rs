//! Asking a running server.

use std::io::Write;
use std::time::Duration;

use bytes::Bytes;
use clap::Args;
use prost::Message;
use rondo_core::status::Status;
use rondo_proto::admin::{GetStatusRequest, GetStatusResponse};
use rondo_proto::convert::GET_STATUS_PATH;

use super::exit::{Exit, Failure, of_status};
use super::plain::plain;
use super::units::Span;
use crate::config::Listen;
use crate::transport::{Client, Transport};

/// How long a server may take until a person at the terminal is told that it does not answer.
const SILENCE: Duration = Duration::from_secs(1);

/// Which server.
#[derive(Args, Clone, Debug, PartialEq, Eq)]
pub(super) struct ServerArgs {
    /// The server to ask
    #[arg(long, env = "RONDO_SERVER", value_name = "HOST:PORT", default_value = "127.0.0.1:5050",
          value_parser = address)]
    pub(super) server: String,

    /// How long to wait for the server
    #[arg(long, env = "RONDO_ASK_TIMEOUT", value_name = "SPAN", default_value = "10s")]
    pub(super) timeout: Span,
}

impl ServerArgs {
    /// This server, with the patience of the flag's default.
    pub(super) fn of(server: &str) -> Self {
        Self { server: server.to_owned(), timeout: Span(rondo_core::time::Duration::from_secs(10)) }
    }

    /// Calls the method at `path`.
    ///
    /// # Errors
    /// When the server cannot be reached or refuses, and when it answers something else.
    pub(super) async fn ask<Q: Message, R: Message + Default>(
        &self,
        path: &'static str,
        request: &Q,
    ) -> Result<R, Failure> {
        let deadline = self.timeout.std();
        let message = Bytes::from(request.encode_to_vec());
        let asked = async { Client::new().unary(&self.server, path, message, deadline).await };
        let answer = noticed(&self.server, deadline, asked).await;
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

/// Waits for a server to do something. When it has not after a second, says so and how long it waits on: a
/// host that drops packets gives no other sign, and one that refuses may be asked again.
pub(super) async fn noticed<T>(
    server: &str,
    patience: Duration,
    answer: impl Future<Output = T>,
) -> T {
    tokio::pin!(answer);
    if patience > SILENCE {
        tokio::select! {
            biased;
            answer = &mut answer => return answer,
            () = tokio::time::sleep(SILENCE) => {}
        }
        let server = plain(server);
        // A closed stderr is no reason to fail.
        let _ = writeln!(
            std::io::stderr(),
            "waiting for {server}: {patience:?} in all (Ctrl-C ends it)"
        );
    }
    answer.await
}

/// The address of a server, `HOST:PORT`, as it was given.
pub(super) fn address(text: &str) -> Result<String, String> {
    text.parse::<Listen>().map(|_| text.to_owned())
}

/// The name of something at a server, as it was given.
pub(super) fn name(text: &str) -> Result<String, String> {
    match text.is_empty() {
        true => Err("it must be a name".to_owned()),
        false => Ok(text.to_owned()),
    }
}

fn failure(server: &str, status: &Status) -> Failure {
    Failure::new(of_status(status), said_by(server, &status.message))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_answer_of_a_slow_server_is_waited_for() {
        let late = async {
            tokio::time::sleep(SILENCE * 2).await;
            7
        };
        assert_eq!(noticed("10.255.255.1:5050", SILENCE * 10, late).await, 7);
    }

    #[test]
    fn a_name_is_not_empty() {
        assert_eq!(name("w"), Ok("w".into()));
        assert_eq!(name(""), Err("it must be a name".into()));
    }

    #[test]
    fn an_address_has_a_host_and_a_port() {
        assert_eq!(address("h:5050"), Ok("h:5050".into()));
        assert!(address("nowhere").unwrap_err().contains("host:port"));
        assert!(address("h:99999").unwrap_err().contains("larger than 65535"));
    }
}
