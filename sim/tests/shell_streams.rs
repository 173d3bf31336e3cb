//! Streams over the simulated network: the same promises as over gRPC.

#![cfg(madsim)]
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test stops where something is not as it must be"
)]

use std::future::{Future, pending};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use madsim::Config;
use madsim::runtime::{Handle, Runtime};
use rondo::transport::{
    BoxFuture, Call, Client, MessageStream, MessageWriter, ServerConfig, Service, Transport,
    listener, serve,
};
use rondo_core::status::{Code, Status};
use tokio::sync::oneshot;

const SERVER: &str = "10.0.0.1:7000";

/// Counts without end; `/test/Refuse` after three.
#[derive(Default)]
struct Feed {
    made: AtomicUsize,
    ended: AtomicUsize,
}

/// Counts its end.
struct Ended<'a>(&'a AtomicUsize);

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

impl Service for Feed {
    fn unary(&self, call: Call) -> BoxFuture<'_, Result<Bytes, Status>> {
        Box::pin(async move { Ok(call.message) })
    }

    fn streaming_paths(&self) -> Vec<&'static str> {
        vec!["/test/Count", "/test/Refuse", "/test/Wait"]
    }

    fn streaming(&self, call: Call, mut to: MessageWriter) -> BoxFuture<'_, Result<(), Status>> {
        Box::pin(async move {
            let _ended = Ended(&self.ended);
            for number in 0..u8::MAX {
                self.made.fetch_add(1, Ordering::SeqCst);
                to.write(Bytes::copy_from_slice(&[number])).await;
                match (call.path.as_str(), number) {
                    ("/test/Refuse", 2) => return Err(Status::new(Code::NotFound, "enough")),
                    ("/test/Wait", _) => pending().await,
                    _ => {}
                }
            }
            Ok(())
        })
    }
}

/// A server on a machine of its own, and the end that stops it.
fn start(feed: &Arc<Feed>) -> oneshot::Sender<()> {
    let address: SocketAddr = SERVER.parse().unwrap();
    let machine = Handle::current().create_node().ip(address.ip()).build();
    let feed: Arc<dyn Service> = feed.clone();
    let (stop, stopped) = oneshot::channel();
    machine.spawn(async move {
        let listener = listener::bind(address).await.unwrap();
        let stopped = async { stopped.await.unwrap_or(()) };
        serve(listener, feed, ServerConfig::default(), stopped).await;
    });
    stop
}

/// Runs a client on another machine.
fn beside<F>(scenario: impl FnOnce(Client, Arc<Feed>, oneshot::Sender<()>) -> F + Send + 'static)
where
    F: Future<Output = ()> + Send + 'static,
{
    Runtime::with_seed_and_config(7, Config::default()).block_on(async move {
        let feed = Arc::new(Feed::default());
        let stop = start(&feed);
        tokio::time::sleep(Duration::from_millis(100)).await;
        let machine = Handle::current().create_node().ip([10, 0, 0, 2].into()).build();
        let client = async move { scenario(Client::new(), feed, stop).await };
        machine.spawn(client).await.unwrap();
    });
}

async fn next(stream: &mut MessageStream) -> Result<Option<Bytes>, Status> {
    tokio::time::timeout(Duration::from_secs(60), stream.next()).await.unwrap()
}

#[test]
fn messages_come_in_order_and_none_before_it_is_wanted() {
    beside(|client, feed, stop| async move {
        let mut stream = client.streaming(SERVER, "/test/Count", Bytes::new());
        for number in 0..10_u8 {
            let message = next(&mut stream).await.unwrap().unwrap();
            assert_eq!(message, Bytes::copy_from_slice(&[number]));
            tokio::time::sleep(Duration::from_secs(1)).await;
            assert_eq!(feed.made.load(Ordering::SeqCst), usize::from(number) + 1);
        }
        drop(stream);
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(feed.ended.load(Ordering::SeqCst), 1, "it ends when its client leaves");
        let echo =
            client.unary(SERVER, "/test/Echo", Bytes::from_static(b"x"), Duration::from_secs(60));
        assert_eq!(echo.await.unwrap(), "x");
        drop(stop);
    });
}

#[test]
fn a_stream_ends_with_ok_or_with_a_refusal() {
    beside(|client, _, stop| async move {
        let mut whole = client.streaming(SERVER, "/test/Count", Bytes::new());
        for _ in 0..u8::MAX {
            next(&mut whole).await.unwrap().unwrap();
        }
        assert_eq!(next(&mut whole).await, Ok(None));
        let mut refused = client.streaming(SERVER, "/test/Refuse", Bytes::new());
        for _ in 0..3 {
            next(&mut refused).await.unwrap().unwrap();
        }
        assert_eq!(next(&mut refused).await, Err(Status::new(Code::NotFound, "enough")));
        drop(stop);
    });
}

#[test]
fn a_server_that_stops_ends_its_streams_and_one_that_is_gone_is_unavailable() {
    beside(|client, feed, stop| async move {
        let waiting = [(); 2].map(|()| {
            let mut stream = client.streaming(SERVER, "/test/Wait", Bytes::new());
            tokio::spawn(async move {
                next(&mut stream).await.unwrap().unwrap();
                next(&mut stream).await
            })
        });
        tokio::time::sleep(Duration::from_secs(1)).await;
        stop.send(()).unwrap();
        let text = "the server is shutting down";
        for ended in waiting {
            assert_eq!(ended.await.unwrap(), Err(Status::new(Code::Unavailable, text)));
        }
        assert_eq!(feed.ended.load(Ordering::SeqCst), 2);
        let mut late = client.streaming(SERVER, "/test/Count", Bytes::new());
        assert_eq!(next(&mut late).await.unwrap_err().code, Code::Unavailable);
    });
}
