//! gRPC out: a [`Transport`] over lazily connected channels, one per address for calls, and one for
//! streams: unread messages hold up whoever shares their connection. Streams in bulk have connections of
//! their own where the server knows such.

use std::collections::BTreeMap;
use std::error::Error;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::{Buf, BufMut, Bytes};
use http::uri::PathAndQuery;
use rondo_core::status::{Code, Detail, Status};
use rondo_proto::convert::BulkCall;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::metadata::AsciiMetadataValue;
use tonic::transport::{Channel, Endpoint};

use super::bulk_client::{BulkClient, Unfinished};
use super::bulk_wire::{Place, Placing};
use super::grpc_messages::{self, NoMessages};
use super::keepalive::Keepalive;
use super::{BoxFuture, CANNOT_REACH, MessageStream, MessageWriter, Transport, WORKER_METADATA};
use crate::tensor::cuda::{Cuda, Ordinal};

/// Channels of a kind kept.
const CHANNELS_MAX: usize = 4096;
/// Where [`CHANNELS_MAX`] channels are kept, a new one takes the place of the one that was used longest ago,
/// if so many uses of others came since. Else the new one is closed after its call: calls to more addresses
/// in turn would otherwise find none of their channels again.
const CHANNEL_IDLE_USES: u64 = 4 * CHANNELS_MAX as u64;
/// Unread data of one channel, and of one call, in bytes.
const WINDOW_BYTES: u32 = 16 << 20;
/// Unread data of one stream, in bytes; what is more waits at its server.
const STREAM_WINDOW_BYTES: u32 = 64 << 10;
/// Unread data of all streams of one channel, in bytes: so many may be full and hold up no other.
const STREAMS_WINDOW_BYTES: u32 = 1024 * STREAM_WINDOW_BYTES;
/// Unread data of one stream of records, in bytes: they are taken as fast as they come, or their
/// reader is slow and has a buffer full of them.
const RECORDS_WINDOW_BYTES: u32 = 8 << 20;
/// Unread data of all streams of records of one channel, in bytes.
const RECORDS_CHANNEL_WINDOW_BYTES: u32 = 32 << 20;
/// Longest HTTP/2 frame of records, in bytes: most messages come in one, and then need not be put
/// together.
const RECORDS_FRAME_BYTES_MAX: u32 = 4 << 20;
/// How long an address may take to accept a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Makes gRPC calls to any number of addresses.
#[derive(Clone, Default)]
pub struct GrpcClient {
    channels: Arc<Mutex<Channels>>,
    /// How channels with calls under way ask whether their peers are alive.
    keepalive: Keepalive,
    /// The worker that calls.
    worker: Option<AsciiMetadataValue>,
    /// For streams that carry records or tensors: connections of their own, to servers that know such.
    bulk: Option<Arc<BulkClient>>,
}

/// What the paths of methods begin with that Rondo's servers answer, and nobody else's.
const OUR_PATHS: &str = "/rondo.v1.";

/// What a channel carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Load {
    Calls,
    Streams,
    Records,
}

/// Channels by address and load, with when each was last used.
#[derive(Default)]
struct Channels {
    calls: Kept,
    streams: Kept,
    uses: u64,
}

/// Channels of a kind, by address.
#[derive(Default)]
struct Kept {
    by_address: BTreeMap<String, (u64, Channel)>,
    /// None was used last before this.
    oldest: u64,
}

impl GrpcClient {
    /// A client without channels.
    pub fn new() -> Self {
        Self::default()
    }

    /// A client of the worker at this address, which each of its calls names.
    pub fn of_worker(address: &str) -> Self {
        Self { worker: address.parse().ok(), ..Self::default() }
    }

    /// A client whose streams carry records of workers, in bulk.
    pub fn of_reader() -> Self {
        Self { bulk: Some(Arc::default()), ..Self::default() }
    }

    /// A client whose streams carry tensors, in bulk: messages are aligned where `place` says, and what has
    /// come of one when its connection breaks is handed on before the stream fails.
    pub fn of_tensors(place: Place) -> Self {
        Self::placing(Placing { place, onto: None })
    }

    /// As [`GrpcClient::of_tensors`], of tensors for this GPU: long messages are read into memory that it
    /// reads by itself, as far as there is some.
    pub fn of_tensors_onto(place: Place, cuda: Cuda, device: Ordinal) -> Self {
        Self::placing(Placing { place, onto: Some((cuda, device)) })
    }

    fn placing(placing: Placing) -> Self {
        Self { bulk: Some(Arc::new(BulkClient::placing(placing))), ..Self::default() }
    }

    /// How a stream is called in bulk, if it may be.
    fn bulk(&self, address: &str, path: &str) -> Option<Arc<BulkClient>> {
        let bulk = self.bulk.as_ref()?;
        let may_be = path.starts_with(OUR_PATHS) && bulk.is_possible(address);
        may_be.then(|| Arc::clone(bulk))
    }

    fn channel(&self, address: &str, load: Load) -> Result<Channel, Status> {
        let mut channels = self.channels.lock().unwrap_or_else(PoisonError::into_inner);
        channels.get(address, load, self.keepalive)
    }

    fn bulk_call(&self, path: &str, message: &Bytes) -> BulkCall {
        let worker = self.worker.as_ref().and_then(|worker| worker.to_str().ok());
        let (path, worker) = (path.to_owned(), worker.map(str::to_owned));
        BulkCall { path, worker, message: message.clone() }
    }

    fn request(&self, message: Bytes) -> tonic::Request<Bytes> {
        let mut request = tonic::Request::new(message);
        if let Some(worker) = &self.worker {
            request.metadata_mut().insert(WORKER_METADATA, worker.clone());
        }
        request
    }
}

impl Channels {
    fn get(&mut self, address: &str, load: Load, keepalive: Keepalive) -> Result<Channel, Status> {
        self.uses = self.uses.saturating_add(1);
        let kept = match load {
            Load::Calls => &mut self.calls,
            Load::Streams | Load::Records => &mut self.streams,
        };
        if let Some((used, channel)) = kept.by_address.get_mut(address) {
            *used = self.uses;
            return Ok(channel.clone());
        }
        let channel = open(address, load, keepalive)?;
        if kept.make_room(self.uses) {
            kept.by_address.insert(address.to_owned(), (self.uses, channel.clone()));
        }
        Ok(channel)
    }
}

impl Kept {
    /// Whether there is room for one more, perhaps since the one not used for longest is dropped.
    fn make_room(&mut self, uses: u64) -> bool {
        let is_recent = |used: u64| used.saturating_add(CHANNEL_IDLE_USES) > uses;
        if self.by_address.len() < CHANNELS_MAX {
            return true;
        }
        if is_recent(self.oldest) {
            return false;
        }
        let oldest = self.by_address.iter().min_by_key(|(_, (used, _))| *used);
        let Some((address, used)) = oldest.map(|(address, (used, _))| (address.clone(), *used))
        else {
            return true;
        };
        self.oldest = used;
        !is_recent(used) && self.by_address.remove(&address).is_some()
    }
}

fn open(address: &str, load: Load, keepalive: Keepalive) -> Result<Channel, Status> {
    let endpoint = Endpoint::from_shared(format!("http://{address}")).ok();
    let endpoint = endpoint.filter(|endpoint| is_host_and_port(endpoint.uri(), address));
    let endpoint = endpoint.ok_or_else(|| {
        let text = format!("{address:?} is not an address of the form host:port");
        Status::new(Code::InvalidArgument, text)
    })?;
    let (of_each, of_all, frame) = match load {
        Load::Calls => (WINDOW_BYTES, WINDOW_BYTES, None),
        Load::Streams => (STREAM_WINDOW_BYTES, STREAMS_WINDOW_BYTES, None),
        Load::Records => {
            let frame = Some(RECORDS_FRAME_BYTES_MAX);
            (RECORDS_WINDOW_BYTES, RECORDS_CHANNEL_WINDOW_BYTES, frame)
        }
    };
    Ok(endpoint
        .connect_timeout(CONNECT_TIMEOUT)
        .tcp_nodelay(true)
        .initial_stream_window_size(of_each)
        .initial_connection_window_size(of_all)
        .max_frame_size(frame)
        .http2_keep_alive_interval(keepalive.interval)
        .keep_alive_timeout(keepalive.timeout)
        .connect_lazy())
}

fn is_host_and_port(uri: &http::Uri, address: &str) -> bool {
    uri.port_u16().is_some() && uri.authority().is_some_and(|authority| authority == address)
}

impl Transport for GrpcClient {
    fn unary(
        &self,
        address: &str,
        path: &'static str,
        message: Bytes,
        deadline: Duration,
    ) -> BoxFuture<'static, Result<Bytes, Status>> {
        let address = address.to_owned();
        let channel = self.channel(&address, Load::Calls);
        let message = self.request(message);
        Box::pin(async move {
            let call = call(channel?, &address, path, message, deadline);
            let outcome = tokio::time::timeout(deadline, call).await;
            outcome.unwrap_or(Err(Failure::TooLate)).map_err(|failure| match failure {
                Failure::TooLate => {
                    let text = format!("no answer to {path} from {address} within {deadline:?}");
                    Status::new(Code::DeadlineExceeded, text)
                }
                Failure::Refused(status) => status,
            })
        })
    }

    fn streaming(&self, address: &str, path: &'static str, message: Bytes) -> MessageStream {
        let address = address.to_owned();
        let load = if self.bulk.is_some() { Load::Records } else { Load::Streams };
        let channel = self.channel(&address, load);
        let bulk = self.bulk(&address, path).map(|bulk| (bulk, self.bulk_call(path, &message)));
        let message = self.request(message);
        MessageStream::written(|mut writer| async move {
            if let Some((bulk, call)) = bulk {
                match bulk.stream(&address, call, &mut writer).await {
                    Ok(()) => return Ok(()),
                    Err(Unfinished::Refused(status)) => return Err(status),
                    Err(Unfinished::Stranger) => {}
                }
            }
            let taken = stream(channel?, &address, path, message, writer).await;
            taken.map_err(|failure| match failure {
                Failure::TooLate => {
                    Status::new(Code::Unavailable, format!("{CANNOT_REACH}{address} in time"))
                }
                Failure::Refused(status) => status,
            })
        })
    }
}

/// Why a call brought no answer.
enum Failure {
    /// The deadline has passed.
    TooLate,
    /// Somebody says why.
    Refused(Status),
}

impl Failure {
    fn of(address: &str, status: &tonic::Status) -> Self {
        match status.source() {
            Some(source) => broken(address, source),
            None => Self::Refused(refusal(status)),
        }
    }
}

/// What a path is to a channel.
fn path_of(path: &'static str) -> Result<PathAndQuery, Failure> {
    PathAndQuery::try_from(path).map_err(|error| {
        let text = format!("method {path:?}: {error}");
        Failure::Refused(Status::new(Code::InvalidArgument, text))
    })
}

async fn call(
    channel: Channel,
    address: &str,
    path: &'static str,
    mut request: tonic::Request<Bytes>,
    deadline: Duration,
) -> Result<Bytes, Failure> {
    let path = path_of(path)?;
    let mut grpc = tonic::client::Grpc::new(channel)
        .max_decoding_message_size(usize::MAX)
        .max_encoding_message_size(usize::MAX);
    grpc.ready().await.map_err(|error| broken(address, &error))?;
    request.set_timeout(deadline);
    let response = grpc.unary(request, path, BytesCodec).await;
    let response = response.map_err(|status| Failure::of(address, &status))?;
    Ok(response.into_inner())
}

async fn stream(
    channel: Channel,
    address: &str,
    path: &'static str,
    request: tonic::Request<Bytes>,
    mut writer: MessageWriter,
) -> Result<(), Failure> {
    let messages = grpc_messages::call(channel, path_of(path)?, request).await;
    let mut messages = messages.map_err(|none| match none {
        NoMessages::Broken(error) => broken(address, &error),
        NoMessages::Refused(status) => Failure::of(address, &status),
    })?;
    let failed = |status| Failure::of(address, &status);
    while let Some(message) = messages.next().await.map_err(failed)? {
        writer.write(message).await;
    }
    Ok(())
}

/// What a peer refuses with.
fn refusal(status: &tonic::Status) -> Status {
    let details = Bytes::copy_from_slice(status.details());
    let details = (!details.is_empty()).then_some(Detail::Encoded(details));
    Status::new(code_of(status.code()), status.message()).with(details)
}

/// What an error of the channel means. The channel keeps the call's deadline too, and may be the
/// first to notice.
fn broken(address: &str, error: &(dyn Error + 'static)) -> Failure {
    let cause = innermost(error);
    if cause.is::<tonic::TimeoutExpired>() {
        return Failure::TooLate;
    }
    let text = match is_unsent(error) {
        true => format!("{CANNOT_REACH}{address}: {cause}"),
        false => format!("the connection to {address} broke: {cause}"),
    };
    Failure::Refused(Status::new(Code::Unavailable, text))
}

/// Whether an error says that the request never left: there is no connection, or the one that there was
/// ended before the request's turn.
fn is_unsent(error: &(dyn Error + 'static)) -> bool {
    let mut chain = Some(error);
    while let Some(error) = chain {
        let is_canceled = error.downcast_ref().is_some_and(hyper::Error::is_canceled);
        if is_canceled || error.is::<tonic::ConnectError>() {
            return true;
        }
        chain = error.source();
    }
    false
}

/// The last error of a chain, which is the system's own word.
fn innermost<'a>(mut error: &'a (dyn Error + 'static)) -> &'a (dyn Error + 'static) {
    while let Some(source) = error.source() {
        error = source;
    }
    error
}

fn code_of(code: tonic::Code) -> Code {
    match code {
        tonic::Code::Cancelled => Code::Cancelled,
        // OK is no refusal; a peer that refuses with it is broken.
        tonic::Code::Ok | tonic::Code::Unknown => Code::Unknown,
        tonic::Code::InvalidArgument => Code::InvalidArgument,
        tonic::Code::DeadlineExceeded => Code::DeadlineExceeded,
        tonic::Code::NotFound => Code::NotFound,
        tonic::Code::AlreadyExists => Code::AlreadyExists,
        tonic::Code::PermissionDenied => Code::PermissionDenied,
        tonic::Code::ResourceExhausted => Code::ResourceExhausted,
        tonic::Code::FailedPrecondition => Code::FailedPrecondition,
        tonic::Code::Aborted => Code::Aborted,
        tonic::Code::OutOfRange => Code::OutOfRange,
        tonic::Code::Unimplemented => Code::Unimplemented,
        tonic::Code::Internal => Code::Internal,
        tonic::Code::Unavailable => Code::Unavailable,
        tonic::Code::DataLoss => Code::DataLoss,
        tonic::Code::Unauthenticated => Code::Unauthenticated,
    }
}

/// Hands messages on as they are.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct BytesCodec;

impl Codec for BytesCodec {
    type Encode = Bytes;
    type Decode = Bytes;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        Self
    }

    fn decoder(&mut self) -> Self {
        Self
    }
}

impl Encoder for BytesCodec {
    type Item = Bytes;
    type Error = tonic::Status;

    fn encode(&mut self, message: Bytes, out: &mut EncodeBuf<'_>) -> Result<(), tonic::Status> {
        out.put(message);
        Ok(())
    }
}

impl Decoder for BytesCodec {
    type Item = Bytes;
    type Error = tonic::Status;

    fn decode(&mut self, source: &mut DecodeBuf<'_>) -> Result<Option<Bytes>, tonic::Status> {
        Ok(Some(source.copy_to_bytes(source.remaining())))
    }
}

#[cfg(test)]
mod tests {
    use hyper_util::rt::{TokioExecutor, TokioIo};

    use tokio::io::AsyncWriteExt;

    use super::super::is_unreached;
    use super::*;

    fn address(number: usize) -> String {
        format!("127.1.{}.{}:1", number >> 8, number & 255)
    }

    /// As the pushes of one epoch after the other.
    #[tokio::test]
    async fn channels_to_more_addresses_than_are_kept_are_found_again() {
        let mut channels = Channels::default();
        let get = |channels: &mut Channels, number| {
            channels.get(&address(number), Load::Calls, Keepalive::default()).unwrap();
        };
        for _ in 0..3 {
            (0..CHANNELS_MAX + 500).for_each(|number| get(&mut channels, number));
            let is_kept = |number| channels.calls.by_address.contains_key(&address(number));
            assert!((0..CHANNELS_MAX).all(is_kept));
            assert_eq!(channels.calls.by_address.len(), CHANNELS_MAX);
        }
        // The others are not called any more.
        for _ in 0..CHANNEL_IDLE_USES {
            get(&mut channels, 0);
        }
        (5000..5010).for_each(|number| get(&mut channels, number));
        let is_kept = |number| channels.calls.by_address.contains_key(&address(number));
        assert!(is_kept(0) && (5000..5010).all(is_kept));
        assert_eq!(channels.calls.by_address.len(), CHANNELS_MAX);
        assert_eq!((1..CHANNELS_MAX).filter(|number| is_kept(*number)).count(), CHANNELS_MAX - 11);
    }

    /// What hyper says of a request that waited for its turn when its connection ended.
    async fn unsent() -> hyper::Error {
        let (near, _far) = tokio::io::duplex(1 << 10);
        let (mut sender, connection) =
            hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(near))
                .await
                .unwrap();
        let sending = sender.send_request(http::Request::new(tonic::body::Body::empty()));
        drop(connection);
        sending.await.unwrap_err()
    }

    /// A consumer whose call to a silent host fails later than it stops to vote would never agree with
    /// others.
    #[test]
    fn a_silent_host_is_found_while_a_consumer_votes() {
        let Keepalive { interval, timeout } = Keepalive::default();
        let found = interval + timeout + CONNECT_TIMEOUT;
        let votes = Duration::from_nanos(rondo_core::limits::VOTING_LASTS.as_nanos());
        assert!(found + found / 2 < votes, "{found:?} to find it, {votes:?} to vote");
    }

    #[tokio::test]
    async fn a_request_that_never_left_its_dead_connection_is_unreached() {
        let error = unsent().await;
        let Failure::Refused(status) = broken("w1:7", &error) else { panic!("too late") };
        assert_eq!(status.message, "cannot reach w1:7: connection closed");
        assert!(is_unreached(&status));
    }

    /// The address of a peer that begins HTTP/2, reads everything, and answers nothing, not even pings.
    async fn mute() -> String {
        let door = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = door.local_addr().unwrap().to_string();
        tokio::spawn(async move {
            while let Ok((mut peer, _)) = door.accept().await {
                tokio::spawn(async move {
                    let (settings, acknowledged) =
                        (*b"\0\0\0\x04\0\0\0\0\0", *b"\0\0\0\x04\x01\0\0\0\0");
                    peer.write_all(&[settings, acknowledged].concat()).await.unwrap();
                    tokio::io::copy(&mut peer, &mut tokio::io::sink()).await
                });
            }
        });
        address
    }

    #[tokio::test]
    async fn a_peer_that_does_not_say_that_it_is_alive_ends_the_calls_to_it() {
        let soon = Duration::from_millis(50);
        let keepalive = Keepalive { interval: soon, timeout: soon };
        let client = GrpcClient { keepalive, ..GrpcClient::new() };
        let address = mute().await;
        let call = client.unary(&address, "/test/Wait", Bytes::new(), Duration::from_secs(20));
        let status = call.await.unwrap_err();
        assert_eq!(status.code, Code::Unavailable, "{status}");
        assert!(status.message.contains(&address), "{status}");
        let mut stream = client.streaming(&address, "/test/Feed", Bytes::new());
        let next = tokio::time::timeout(Duration::from_secs(20), stream.next()).await;
        let status = next.expect("the stream stays open").unwrap_err();
        assert_eq!(status.code, Code::Unavailable, "{status}");
    }

    /// Messages of streams that nobody reads would hold up calls on the same connection.
    #[tokio::test]
    async fn calls_and_streams_to_one_address_have_channels_of_their_own() {
        let mut channels = Channels::default();
        for load in [Load::Calls, Load::Streams, Load::Calls] {
            channels.get(&address(1), load, Keepalive::default()).unwrap();
        }
        let kept = (channels.calls.by_address.len(), channels.streams.by_address.len());
        assert_eq!(kept, (1, 1));
    }

    /// A host whose queue is full does not even refuse.
    #[tokio::test]
    async fn an_address_that_takes_no_connection_is_given_up_in_time() {
        use socket2::{Domain, Socket, Type};
        let door = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        door.bind(&std::net::SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
        door.listen(0).unwrap();
        let place = door.local_addr().unwrap();
        let fill = |_| {
            let filler = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
            filler.set_nonblocking(true).unwrap();
            let _ = filler.connect(&place);
            filler
        };
        let _fillers: Vec<_> = (0..4).map(fill).collect();
        let address = place.as_socket().unwrap().to_string();
        let mut stream = GrpcClient::new().streaming(&address, "/test/Feed", Bytes::new());
        let patience = CONNECT_TIMEOUT + Duration::from_secs(5);
        let next = tokio::time::timeout(patience, stream.next()).await;
        let status = next.expect("it goes on trying").unwrap_err();
        assert!(is_unreached(&status), "{status}");
    }
}
