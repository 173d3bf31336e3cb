//! A server on the simulated network that fails to accept connections for a while.

#![cfg(madsim)]
#![allow(clippy::unwrap_used, reason = "a test stops where something is not as it must be")]

use std::future::pending;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use madsim::Config;
use madsim::runtime::{Handle, Runtime};
use rondo::transport::{
    Accepting, BoxFuture, Call, Client, ServerConfig, Service, Transport, listener, serve,
};
use rondo_core::status::{Code, Status};

const SERVER: &str = "10.0.0.1:7000";
/// The system's numbers for a lack of memory, of descriptors (of all processes, of one) and of buffers.
const LACKS: [i32; 4] = [12, 23, 24, 105];
/// The system's number for a connection that was broken before it was accepted.
const ECONNABORTED: i32 = 103;

/// Answers with what it was asked.
struct Echo;

impl Service for Echo {
    fn unary(&self, call: Call) -> BoxFuture<'_, Result<Bytes, Status>> {
        Box::pin(async move { Ok(call.message) })
    }
}

async fn echoed(client: &Client) -> Result<Bytes, Status> {
    let message = Bytes::from_static(b"x");
    client.unary(SERVER, "/test/Echo", message, Duration::from_secs(5)).await
}

/// Runs a client beside a server that accepts as it is told.
fn beside<F>(scenario: impl FnOnce(Accepting) -> F + Send + 'static)
where
    F: Future<Output = ()> + Send + 'static,
{
    Runtime::with_seed_and_config(7, Config::default()).block_on(async move {
        let accepting = Accepting::default();
        let config = ServerConfig { accepting: accepting.clone(), ..ServerConfig::default() };
        let address: SocketAddr = SERVER.parse().unwrap();
        let machine = Handle::current().create_node().ip(address.ip()).build();
        machine.spawn(async move {
            let listener = listener::bind(address).await.unwrap();
            serve(listener, Arc::new(Echo), config, pending()).await;
        });
        tokio::time::sleep(Duration::from_millis(100)).await;
        let machine = Handle::current().create_node().ip([10, 0, 0, 2].into()).build();
        machine.spawn(async move { scenario(accepting).await }).await.unwrap();
    });
}

#[test]
fn a_connection_waits_while_the_system_lacks_something_and_is_served_then() {
    beside(|accepting| async move {
        for error in LACKS {
            let client = Client::new();
            accepting.fail(error);
            let status = echoed(&client).await.unwrap_err();
            assert_eq!(status.code, Code::DeadlineExceeded, "{error}: {status}");
            let failures = accepting.work();
            assert!((10..60).contains(&failures), "{error}: {failures} attempts in 5 s");
            assert_eq!(echoed(&client).await.unwrap(), "x", "{error}");
        }
    });
}

#[test]
fn others_are_accepted_after_a_connection_that_broke() {
    beside(|accepting| async move {
        let client = Client::new();
        accepting.fail(ECONNABORTED);
        let status = echoed(&client).await.unwrap_err();
        assert_eq!(status.code, Code::Unavailable, "{status}");
        assert_eq!(accepting.work(), 1);
        assert_eq!(echoed(&client).await.unwrap(), "x");
    });
}
