//! gRPC's message framing: one flag byte, four bytes of length, the message.

use std::convert::Infallible;
use std::future::poll_fn;
use std::io::Read;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::buf::Reader as Reading;
use bytes::{Buf, Bytes, BytesMut};
use http::{HeaderMap, HeaderValue};
use http_body::{Body, Frame};
use rondo_core::status::{Code, Detail, Status};
use rondo_proto::pieces::Pieces;

use super::answering::check_length;
use super::budget::Share;
use super::intake::{Intake, room_for};
use super::leaving::Leaving;
use super::{MessageStream, ServerConfig};
use crate::aside::aside;

/// Flag byte and length.
pub(super) const PREFIX_BYTES: usize = 5;

/// Compressed messages are decompressed in pieces of at least and at most so many bytes. The first piece
/// takes so little time that no thread of its own is worth it.
const INFLATED_MIN: usize = 64 << 10;
const INFLATED_MAX: usize = 8 << 20;

/// Reads the one message of a unary request. The share counts its memory and must live as long as
/// the message is worked on.
pub(super) async fn read_message<B>(
    body: B,
    compressed_allowed: bool,
    allowed: &ServerConfig,
) -> Result<(Bytes, Share), Status>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: std::fmt::Display,
{
    let mut reader = Reader { body, buffer: BytesMut::new(), intake: Intake::new(allowed) };
    reader.fill(PREFIX_BYTES).await?;
    let compressed = reader.buffer.get_u8() != 0;
    let length = u64::from(reader.buffer.get_u32());
    if compressed && !compressed_allowed {
        return Err(malformed("a compressed message without a grpc-encoding header"));
    }
    check_length(length, allowed.message_bytes_max)?;
    reader.intake.expect(length);
    let length = usize::try_from(length).map_err(|_| malformed("a message too long"))?;
    reader.fill(length).await?;
    let message = reader.buffer.split_to(length).freeze();
    reader.expect_end().await?;
    let mut share = reader.intake.into_share();
    let message = match compressed {
        true => gunzip(message, allowed.message_bytes_max, &mut share).await?,
        false => message,
    };
    Ok((message, share))
}

fn malformed(what: &str) -> Status {
    Status::new(Code::InvalidArgument, format!("malformed gRPC request: {what}"))
}

/// Collects a body piece by piece.
struct Reader<B> {
    body: B,
    buffer: BytesMut,
    intake: Intake,
}

impl<B> Reader<B>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: std::fmt::Display,
{
    /// Reads until the buffer holds `wanted` bytes.
    async fn fill(&mut self, wanted: usize) -> Result<(), Status> {
        while self.buffer.len() < wanted {
            let Some(piece) = self.next().await? else {
                let text = format!("the body ends after {} of {wanted} bytes", self.buffer.len());
                return Err(malformed(&text));
            };
            let there = self.buffer.len();
            if self.buffer.capacity() < there.saturating_add(piece.len()) {
                let room = room_for(there, piece.len(), wanted);
                self.intake.make_room(room as u64).await?;
                self.buffer.reserve(room.saturating_sub(there));
            }
            self.buffer.extend_from_slice(&piece);
        }
        Ok(())
    }

    async fn expect_end(&mut self) -> Result<(), Status> {
        while self.buffer.is_empty() {
            match self.next().await? {
                Some(piece) => self.buffer.extend_from_slice(&piece),
                None => return Ok(()),
            }
        }
        Err(malformed("more than one message in a unary call"))
    }

    async fn next_frame(&mut self) -> Result<Option<Result<Frame<Bytes>, B::Error>>, Status> {
        if self.body.is_end_stream() {
            return Ok(None);
        }
        // Nearly always it is there already, and a timer would be made for nothing.
        let there = poll_fn(|context| Poll::Ready(Pin::new(&mut self.body).poll_frame(context)));
        if let Poll::Ready(frame) = there.await {
            return Ok(frame);
        }
        let came = self.buffer.len() as u64;
        let frame = poll_fn(|context| Pin::new(&mut self.body).poll_frame(context));
        self.intake.more(came, frame).await
    }

    /// The next piece of data; `None` at the end.
    async fn next(&mut self) -> Result<Option<Bytes>, Status> {
        loop {
            match self.next_frame().await? {
                None => return Ok(None),
                Some(Err(error)) => {
                    let text = format!("the connection broke within a request: {error}");
                    return Err(Status::new(Code::Cancelled, text));
                }
                // Trailers of a request mean nothing; wait for the end.
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        return Ok(Some(data));
                    }
                }
            }
        }
    }
}

/// Decompresses a message. The share holds what it takes, however much it could be.
async fn gunzip(message: Bytes, bound: u64, share: &mut Share) -> Result<Bytes, Status> {
    let compressed = message.len();
    let mut inflating = Inflating::of(message.clone());
    inflating.go_on(INFLATED_MIN, bound)?;
    if !inflating.is_done {
        // While it waits for memory, it keeps nothing but the compressed bytes. It waits once for two pieces:
        // messages that hold one each while they wait for another would wait for ever.
        drop(inflating);
        let first = compressed.saturating_add(INFLATED_MIN).saturating_add(INFLATED_MIN);
        share.grow_to(first as u64).await?;
        inflating = Inflating::of(message);
    }
    while !inflating.is_done {
        let step = inflating.plain.len().clamp(INFLATED_MIN, INFLATED_MAX);
        let held = compressed.saturating_add(inflating.plain.len()).saturating_add(step);
        share.grow_to(held as u64).await?;
        inflating = aside("decompressing a message", move || {
            inflating.go_on(step, bound).map(|()| inflating)
        })
        .await??;
    }
    if inflating.plain.len() as u64 > bound {
        let text = format!(
            "a gzip message of {compressed} bytes exceeds the bound of {bound} bytes once decompressed \
             (--message-size-max)"
        );
        return Err(Status::new(Code::ResourceExhausted, text));
    }
    share.grow_to(inflating.plain.len() as u64).await?;
    share.shrink_to(inflating.plain.len() as u64);
    Ok(inflating.plain.into())
}

/// A message that is being decompressed.
struct Inflating {
    decoder: flate2::bufread::GzDecoder<Reading<Bytes>>,
    plain: Vec<u8>,
    /// Whether the message is whole, or longer than it may be.
    is_done: bool,
}

impl Inflating {
    fn of(message: Bytes) -> Self {
        let decoder = flate2::bufread::GzDecoder::new(message.reader());
        Self { decoder, plain: Vec::new(), is_done: false }
    }

    /// Decompresses `step` bytes more. One byte more than allowed tells "too long" from "just fits".
    fn go_on(&mut self, step: usize, bound: u64) -> Result<(), Status> {
        let left = bound.saturating_add(1).saturating_sub(self.plain.len() as u64);
        let step = left.min(step as u64);
        self.plain.reserve(usize::try_from(step).unwrap_or_default());
        let read = (&mut self.decoder).take(step).read_to_end(&mut self.plain);
        let read = read.map_err(|error| malformed(&format!("not gzip: {error}")))?;
        self.is_done = (read as u64) < step || step == left;
        Ok(())
    }
}

/// A message on its way out, behind its prefix. What is long in it is not copied.
pub(super) fn framed(message: Pieces) -> Result<Pieces, Status> {
    let length = u32::try_from(message.len()).map_err(|_| {
        let text = format!("the answer has {} bytes, gRPC carries 4 GiB", message.len());
        Status::new(Code::ResourceExhausted, text)
    })?;
    let mut framed = Pieces::with_capacity(PREFIX_BYTES.saturating_add(message.short()));
    framed.push_slice(&[0]);
    framed.push_slice(&length.to_be_bytes());
    framed.append(message);
    Ok(framed)
}

/// The body of an answer: a message or a stream of them, and the trailer that says how it went. An
/// empty body is that of a refusal, whose status stands in the headers.
#[derive(Default)]
pub(super) struct ReplyBody {
    /// What goes out next.
    framed: Option<Pieces>,
    /// The messages behind it, and where they are known until they have left. Trailers follow them.
    messages: Option<Box<(MessageStream, Arc<Leaving>)>>,
    trailers: Option<HeaderMap>,
}

impl ReplyBody {
    /// The body for this message.
    ///
    /// # Errors
    /// When gRPC cannot frame a message that long.
    pub(super) fn of(message: Bytes) -> Result<Self, Status> {
        let framed = Some(framed(message.into())?);
        Ok(Self { framed, messages: None, trailers: Some(success()) })
    }

    /// The body for these messages. Each is asked for when the client has room for more.
    pub(super) fn stream(messages: MessageStream, leaving: Arc<Leaving>) -> Self {
        Self { messages: Some(Box::new((messages, leaving))), ..Self::default() }
    }

    /// Takes the next message of a stream, or its end.
    fn go_on(&mut self, next: Result<Option<Pieces>, Status>) {
        let next = next.and_then(|message| message.map(framed).transpose());
        match next {
            Ok(Some(framed)) => self.framed = Some(framed),
            Ok(None) => self.end(success()),
            Err(status) => self.end(failure(&status)),
        }
    }

    fn end(&mut self, trailers: HeaderMap) {
        self.messages = None;
        self.trailers = Some(trailers);
    }
}

fn success() -> HeaderMap {
    let mut trailers = HeaderMap::with_capacity(1);
    trailers.insert("grpc-status", HeaderValue::from_static("0"));
    trailers
}

/// The trailers of a stream that ends early.
fn failure(status: &Status) -> HeaderMap {
    let encoded = status.details.iter().find_map(|detail| match detail {
        Detail::Encoded(details) => Some(details.clone()),
        _ => None,
    });
    let code = tonic::Code::from_i32(status.code.number());
    let details = encoded.unwrap_or_default();
    let status = tonic::Status::with_details(code, status.message.as_str(), details);
    let mut trailers = HeaderMap::with_capacity(3);
    if status.add_header(&mut trailers).is_err() {
        // Whatever the text, the code must arrive.
        trailers.insert("grpc-status", HeaderValue::from(i32::from(code)));
    }
    trailers
}

impl Body for ReplyBody {
    type Data = Pieces;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Pieces>, Infallible>>> {
        loop {
            if let Some(data) = self.framed.take() {
                return Poll::Ready(Some(Ok(Frame::data(data))));
            }
            let Some(messages) = &mut self.messages else {
                return Poll::Ready(self.trailers.take().map(|all| Ok(Frame::trailers(all))));
            };
            let (messages, leaving) = &mut **messages;
            let next = ready!(messages.poll_next(context));
            let next =
                next.map(|message| message.map(|it| it.map_long(|piece| leaving.with(piece))));
            self.go_on(next);
        }
    }

    fn is_end_stream(&self) -> bool {
        self.trailers.is_none() && self.messages.is_none()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use proptest::prelude::*;

    use super::super::budget::Budget;
    use super::super::grpc_random::{Frames, any_messages, naive, wait_for};
    use super::*;

    const BYTES_MAX: u64 = 300;

    /// What a request of these bytes is: its message, or the code of its refusal.
    fn right(bytes: &[u8], compressed_allowed: bool) -> Result<Vec<u8>, Code> {
        let (Some(flag), Some(length)) = (bytes.first(), bytes.get(1..5)) else {
            return Err(Code::InvalidArgument);
        };
        if *flag != 0 && !compressed_allowed {
            return Err(Code::InvalidArgument);
        }
        if u64::from(u32::from_be_bytes(length.try_into().unwrap())) > BYTES_MAX {
            return Err(Code::ResourceExhausted);
        }
        let Some((flag, message, [])) = naive(bytes) else { return Err(Code::InvalidArgument) };
        if flag == 0 {
            return Ok(message.to_vec());
        }
        // Of what does not come to its end the beginning may be too long.
        let mut plain = Vec::new();
        let is_read = flate2::bufread::GzDecoder::new(message).read_to_end(&mut plain).is_ok();
        match plain.len() as u64 {
            length if length > BYTES_MAX => Err(Code::ResourceExhausted),
            _ if is_read => Ok(plain),
            _ => Err(Code::InvalidArgument),
        }
    }

    proptest! {
        #[test]
        fn any_request_is_read_or_refused(pieces in any_messages(), compressed_allowed: bool) {
            let bytes = pieces.concat();
            let budget = Budget::new(1 << 20, 1 << 19);
            let allowed = ServerConfig {
                message_bytes_max: BYTES_MAX,
                budget,
                ..ServerConfig::default()
            };
            let frames: VecDeque<_> = pieces.into_iter().map(Frame::data).collect();
            let read = wait_for(read_message(Frames(frames), compressed_allowed, &allowed));
            let found = read.map(|(message, _)| message.to_vec()).map_err(|status| status.code);
            prop_assert_eq!(found, right(&bytes, compressed_allowed));
        }
    }
}
