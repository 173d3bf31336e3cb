//! The messages that answer a call, as they come to its caller: in the pieces of memory into which the
//! connection read them, so that nothing is copied before somebody needs it in one piece.

use std::future::poll_fn;
use std::pin::Pin;

use bytes::{Buf, Bytes};
use http::uri::PathAndQuery;
use http::{HeaderMap, StatusCode};
use http_body::{Body as _, Frame};
use rondo_core::limits::ELEMENT_BYTES_MAX;
use rondo_proto::pieces::Pieces;
use tonic::Status;
use tonic::body::Body;
use tonic::client::GrpcService;
use tonic::transport::{Channel, Error};

use super::grpc_frame::{PREFIX_BYTES, framed};

/// Longest message that is put together, in bytes.
const MESSAGE_BYTES_MAX: u64 = ELEMENT_BYTES_MAX;

/// The messages of one answer.
pub(super) struct Messages {
    body: Body,
    http: StatusCode,
    /// What came and is not taken.
    waiting: Pieces,
    /// Length of the message that is under way.
    wanted: Option<usize>,
}

/// Why there are no messages.
pub(super) enum NoMessages {
    /// There is no connection, or it broke.
    Broken(Error),
    /// The peer says so.
    Refused(Box<Status>),
}

/// Makes a call with one message on a channel that takes calls.
pub(super) async fn call(
    mut channel: Channel,
    path: PathAndQuery,
    request: tonic::Request<Bytes>,
) -> Result<Messages, NoMessages> {
    let (metadata, _, message) = request.into_parts();
    let refused = |status| NoMessages::Refused(Box::new(status));
    let message = framed(message.into()).map_err(|status| {
        refused(Status::new(tonic::Code::from_i32(status.code.number()), status.message))
    })?;
    let mut head = http::Request::new(Body::new(Once(Some(message.join()))));
    *head.method_mut() = http::Method::POST;
    *head.uri_mut() = path.into();
    *head.version_mut() = http::Version::HTTP_2;
    *head.headers_mut() = metadata.into_headers();
    for (name, value) in [("te", "trailers"), ("content-type", "application/grpc")] {
        head.headers_mut().insert(name, http::HeaderValue::from_static(value));
    }
    poll_fn(|context| GrpcService::poll_ready(&mut channel, context))
        .await
        .map_err(NoMessages::Broken)?;
    let response = GrpcService::call(&mut channel, head).await.map_err(NoMessages::Broken)?;
    let (head, body) = response.into_parts();
    match Status::from_header_map(&head.headers) {
        Some(status) if status.code() != tonic::Code::Ok => Err(refused(status)),
        _ => Ok(Messages::of(body, head.status)),
    }
}

impl Messages {
    /// The messages of a body that comes with this status of HTTP.
    fn of(body: Body, http: StatusCode) -> Self {
        Self { body, http, waiting: Pieces::default(), wanted: None }
    }

    /// The next message; `None` at the end.
    pub(super) async fn next(&mut self) -> Result<Option<Pieces>, Status> {
        loop {
            if let Some(message) = self.take()? {
                return Ok(Some(message));
            }
            let frame = poll_fn(|context| Pin::new(&mut self.body).poll_frame(context)).await;
            match frame.transpose()?.map(Frame::into_data) {
                Some(Ok(data)) => self.waiting.push(data),
                Some(Err(frame)) => return self.end(frame.into_trailers().ok()),
                None => return self.end(None),
            }
        }
    }

    /// The next message, if all of it is there.
    fn take(&mut self) -> Result<Option<Pieces>, Status> {
        if self.wanted.is_none() && self.waiting.len() >= PREFIX_BYTES {
            let flag = self.waiting.get_u8();
            if flag != 0 {
                let text = format!("a message has the flag {flag}: none was to be compressed");
                return Err(Status::internal(text));
            }
            let length = self.waiting.get_u32();
            if u64::from(length) > MESSAGE_BYTES_MAX {
                let text = format!(
                    "a message has {length} bytes; no protobuf message has more than {MESSAGE_BYTES_MAX}"
                );
                return Err(Status::resource_exhausted(text));
            }
            self.wanted = usize::try_from(length).ok();
        }
        let there = self.wanted.take_if(|wanted| *wanted <= self.waiting.len());
        Ok(there.map(|length| self.waiting.split_to(length)))
    }

    /// What the end of the answer says.
    fn end(&mut self, trailers: Option<HeaderMap>) -> Result<Option<Pieces>, Status> {
        if let Some(status) = trailers.as_ref().and_then(Status::from_header_map)
            && status.code() != tonic::Code::Ok
        {
            return Err(status);
        }
        if !self.http.is_success() {
            let text = format!("HTTP status {} without a status of gRPC", self.http.as_u16());
            return Err(Status::new(code_of(self.http), text));
        }
        if self.wanted.is_some() || !self.waiting.is_empty() {
            return Err(Status::internal("the answer ends within a message"));
        }
        Ok(None)
    }
}

/// What gRPC says of a status of HTTP alone.
const fn code_of(http: StatusCode) -> tonic::Code {
    match http.as_u16() {
        400 => tonic::Code::Internal,
        401 => tonic::Code::Unauthenticated,
        403 => tonic::Code::PermissionDenied,
        404 => tonic::Code::Unimplemented,
        429 | 502 | 503 | 504 => tonic::Code::Unavailable,
        _ => tonic::Code::Unknown,
    }
}

/// The body of a request.
struct Once(Option<Bytes>);

impl http_body::Body for Once {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        std::task::Poll::Ready(self.0.take().map(|message| Ok(Frame::data(message))))
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_none()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use proptest::prelude::*;

    use super::super::grpc_random::{Frames, any_messages, naive, wait_for};
    use super::*;

    fn answer(data: &[Bytes], trailers: Option<&'static str>, http: StatusCode) -> Messages {
        let mut frames: VecDeque<_> = data.iter().cloned().map(Frame::data).collect();
        frames.extend(trailers.map(|status| {
            let status = http::HeaderValue::from_static(status);
            Frame::trailers(
                [(http::HeaderName::from_static("grpc-status"), status)].into_iter().collect(),
            )
        }));
        Messages::of(Body::new(Frames(frames)), http)
    }

    fn on_the_wire(messages: &[Bytes]) -> Bytes {
        messages.iter().flat_map(|it| framed(it.into()).unwrap().join()).collect()
    }

    #[tokio::test]
    async fn messages_come_as_they_were_sent_wherever_their_bytes_are_cut() {
        let sent =
            [Bytes::new(), Bytes::from_static(b"one"), Bytes::from(vec![3; 10_000]), Bytes::new()];
        let wire = on_the_wire(&sent);
        for length in [1, 2, 5, 7, 4097, 6000, wire.len()] {
            let pieces: Vec<Bytes> = wire.chunks(length).map(Bytes::copy_from_slice).collect();
            let mut messages = answer(&pieces, Some("0"), StatusCode::OK);
            for message in &sent {
                assert!(messages.next().await.unwrap().unwrap().join() == message, "{length}");
            }
            assert!(messages.next().await.unwrap().is_none(), "{length}");
        }
    }

    #[tokio::test]
    async fn a_message_that_comes_in_one_frame_is_not_copied() {
        let wire = on_the_wire(&[Bytes::from(vec![3; 10_000])]);
        let mut messages = answer(std::slice::from_ref(&wire), Some("0"), StatusCode::OK);
        let message = messages.next().await.unwrap().unwrap().join();
        assert_eq!(message.as_ptr(), wire[PREFIX_BYTES..].as_ptr());
    }

    proptest! {
        #[test]
        fn any_answer_is_read_message_by_message_or_refused(pieces in any_messages()) {
            wait_for(async {
                let mut messages = answer(&pieces, Some("0"), StatusCode::OK);
                let bytes = pieces.concat();
                let mut rest = &bytes[..];
                while let Some((0, message, behind)) = naive(rest) {
                    assert!(messages.next().await.unwrap().unwrap().join() == message);
                    rest = behind;
                }
                let last = messages.next().await.map(|message| message.is_some());
                match rest {
                    [] => assert!(!last.unwrap(), "one more came"),
                    [0, 0x80..=0xff, _, _, _, ..] => {
                        assert_eq!(last.unwrap_err().code(), tonic::Code::ResourceExhausted);
                    }
                    _ => assert_eq!(last.unwrap_err().code(), tonic::Code::Internal),
                }
            });
        }
    }

    #[tokio::test]
    async fn an_answer_that_is_not_whole_or_says_so_is_refused() {
        let whole = on_the_wire(&[Bytes::from_static(b"whole")]);
        let compressed = Bytes::from_static(b"\x01\0\0\0\x01x");
        let endless = Bytes::from_static(b"\0\xff\xff\xff\xff begins");
        let ok = StatusCode::OK;
        let cases = [
            (endless, Some("0"), ok, tonic::Code::ResourceExhausted),
            (whole.slice(..7), Some("0"), ok, tonic::Code::Internal),
            (whole.slice(..3), None, ok, tonic::Code::Internal),
            (compressed, Some("0"), ok, tonic::Code::Internal),
            (Bytes::new(), Some("5"), ok, tonic::Code::NotFound),
            (Bytes::new(), None, StatusCode::SERVICE_UNAVAILABLE, tonic::Code::Unavailable),
        ];
        for (data, trailers, http, code) in cases {
            let refused = answer(&[data], trailers, http).next().await.map(|_| ()).unwrap_err();
            assert_eq!(refused.code(), code, "{refused}");
        }
    }
}
