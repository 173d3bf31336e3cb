//! A service that answers with streams, for tests.

use std::future::pending;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use rondo_core::status::{Code, Status};
use rondo_proto::pieces::Pieces;

use super::grpc_client::GrpcClient;
use super::{BoxFuture, Call, MessageStream, MessageWriter, Service, Transport};

/// How long what shall happen may take.
pub(super) const SOON: Duration = Duration::from_secs(20);
/// Bytes of each message of `Count`.
pub(super) const COUNTED_BYTES: usize = 1 << 20;

/// Writes as the method's name says.
#[derive(Default)]
pub(super) struct Feed {
    /// Messages of `Count` made.
    pub(super) made: AtomicUsize,
    /// Streams under way.
    pub(super) open: AtomicUsize,
}

/// A stream as long as it is under way.
struct Open<'a>(&'a AtomicUsize);

impl<'a> Open<'a> {
    fn on(open: &'a AtomicUsize) -> Self {
        open.fetch_add(1, Ordering::SeqCst);
        Self(open)
    }
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Service for Feed {
    fn unary(&self, call: Call) -> BoxFuture<'_, Result<Bytes, Status>> {
        Box::pin(async move { Ok(call.message) })
    }

    fn streaming_paths(&self) -> Vec<&'static str> {
        vec![
            "/rondo.v1.Test/Count",
            "/rondo.v1.Test/Pieces",
            "/rondo.v1.Test/Mixed",
            "/rondo.v1.Test/Refuse",
            "/rondo.v1.Test/Panic",
            "/rondo.v1.Test/Wait",
        ]
    }

    fn streaming(&self, call: Call, mut to: MessageWriter) -> BoxFuture<'_, Result<(), Status>> {
        Box::pin(async move {
            let _open = Open::on(&self.open);
            match call.path.as_str() {
                "/rondo.v1.Test/Count" => loop {
                    let number = self.made.fetch_add(1, Ordering::SeqCst);
                    to.write(vec![u8::try_from(number % 251).unwrap(); COUNTED_BYTES]).await;
                },
                "/rondo.v1.Test/Pieces" => {
                    for length in [0, 1, 5000, call.message.len()] {
                        to.write(call.message.slice(..length.min(call.message.len()))).await;
                    }
                    Ok(())
                }
                "/rondo.v1.Test/Mixed" => {
                    to.write(mixed(&call.message)).await;
                    to.write(mixed(&Bytes::from_static(b"short"))).await;
                    Ok(())
                }
                "/rondo.v1.Test/Refuse" => {
                    to.write(call.message).await;
                    Err(Status::new(Code::NotFound, "key – not found"))
                }
                "/rondo.v1.Test/Panic" => panic!("the text of the panic"),
                _ => {
                    to.write(Bytes::new()).await;
                    pending().await
                }
            }
        })
    }
}

/// A message thrice, in pieces.
pub(super) fn mixed(message: &Bytes) -> Pieces {
    let between = Bytes::from_static(b"between");
    [message.clone(), between.clone(), message.clone(), between, message.clone()]
        .into_iter()
        .collect()
}

pub(super) type Running = super::grpc_running::Running<Feed>;

impl Running {
    pub(super) fn stream(
        &self,
        client: &GrpcClient,
        path: &'static str,
        message: impl Into<Bytes>,
    ) -> MessageStream {
        client.streaming(&self.address, path, message.into())
    }

    pub(super) async fn until_open(&self, count: usize) {
        let began = Instant::now();
        while self.service.open.load(Ordering::SeqCst) != count {
            assert!(began.elapsed() < SOON, "{:?} streams, not {count}", self.service.open);
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }
}

/// Clients whose streams come over gRPC, and over bulk connections.
pub(super) fn clients() -> [GrpcClient; 3] {
    [GrpcClient::new(), GrpcClient::of_reader(), GrpcClient::of_tensors(|_| 100)]
}

/// The next message, soon.
pub(super) async fn next(stream: &mut MessageStream) -> Result<Option<Bytes>, Status> {
    tokio::time::timeout(SOON, stream.next()).await.expect("nothing comes")
}
