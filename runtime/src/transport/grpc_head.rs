//! What a gRPC call's HTTP headers say, and how answers and refusals are headed.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Response, StatusCode, Uri, header, request};
use rondo_core::status::{Code, Status};

use super::grpc_frame::ReplyBody;
use super::leaving::Leaving;
use super::{MessageStream, WORKER_METADATA};

const CONTENT_TYPE: HeaderValue = HeaderValue::from_static("application/grpc");
const ACCEPT_ENCODING: HeaderValue = HeaderValue::from_static("identity,gzip");

/// The parts of a call's headers that matter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Head {
    /// Whether messages may be compressed with gzip.
    pub gzip: bool,
    /// How long the client waits.
    pub deadline: Option<Duration>,
    /// The worker that calls, if it names itself.
    pub worker: Option<String>,
}

/// Why a request is no gRPC call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum NotACall {
    /// Not gRPC at all: answered by HTTP alone.
    NotGrpc,
    /// gRPC, but not as offered here.
    Refused(Status),
}

/// Reads the headers of a request, and keeps what matters: a call may wait for days.
pub(super) fn take(parts: request::Parts) -> Result<(Head, Uri), NotACall> {
    read(&parts).map(|head| (head, parts.uri))
}

/// Reads the headers of a request.
fn read(parts: &request::Parts) -> Result<Head, NotACall> {
    let content_type = text(&parts.headers, &header::CONTENT_TYPE).unwrap_or_default();
    if parts.method != Method::POST || !content_type.starts_with("application/grpc") {
        return Err(NotACall::NotGrpc);
    }
    let gzip = match text(&parts.headers, "grpc-encoding") {
        None | Some("identity") => false,
        Some("gzip") => true,
        Some(other) => {
            let text = format!("grpc-encoding {other:?} is not offered; identity and gzip are");
            return Err(NotACall::Refused(Status::new(Code::Unimplemented, text)));
        }
    };
    let deadline = text(&parts.headers, "grpc-timeout").map(read_timeout).transpose();
    Ok(Head {
        gzip,
        deadline: deadline.map_err(NotACall::Refused)?,
        worker: text(&parts.headers, WORKER_METADATA).map(str::to_owned),
    })
}

fn text<K: header::AsHeaderName>(headers: &HeaderMap, name: K) -> Option<&str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

fn read_timeout(value: &str) -> Result<Duration, Status> {
    let bad = || {
        let text = format!("grpc-timeout {value:?} is not up to 8 digits and one of H M S m u n");
        Status::new(Code::InvalidArgument, text)
    };
    let (digits, unit) = value.split_at_checked(value.len().saturating_sub(1)).ok_or_else(bad)?;
    if digits.is_empty() || digits.len() > 8 || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(bad());
    }
    let count: u64 = digits.parse().map_err(|_| bad())?;
    match unit {
        "H" => Ok(Duration::from_secs(count.saturating_mul(3600))),
        "M" => Ok(Duration::from_secs(count.saturating_mul(60))),
        "S" => Ok(Duration::from_secs(count)),
        "m" => Ok(Duration::from_millis(count)),
        "u" => Ok(Duration::from_micros(count)),
        "n" => Ok(Duration::from_nanos(count)),
        _ => Err(bad()),
    }
}

/// The answer to a call that went well.
pub(super) fn answer(message: Bytes) -> Response<ReplyBody> {
    match ReplyBody::of(message) {
        Ok(body) => {
            let mut response = Response::new(body);
            response.headers_mut().insert(header::CONTENT_TYPE, CONTENT_TYPE);
            response
        }
        Err(status) => refusal(&status, Bytes::new()),
    }
}

/// The answer to a call that is answered with messages. How it went stands behind them.
pub(super) fn stream(messages: MessageStream, leaving: Arc<Leaving>) -> Response<ReplyBody> {
    let mut response = Response::new(ReplyBody::stream(messages, leaving));
    response.headers_mut().insert(header::CONTENT_TYPE, CONTENT_TYPE);
    response
}

/// The answer to a call that did not, with what stands beside it for programs.
pub(super) fn refusal(status: &Status, details: Bytes) -> Response<ReplyBody> {
    let code = tonic::Code::from_i32(status.code.number());
    let mut response: Response<ReplyBody> =
        tonic::Status::with_details(code, status.message.as_str(), details).into_http();
    if status.code == Code::Unimplemented {
        response.headers_mut().insert("grpc-accept-encoding", ACCEPT_ENCODING);
    }
    response
}

/// The answer to a request that is not gRPC.
pub(super) fn not_grpc() -> Response<ReplyBody> {
    let mut response = Response::new(ReplyBody::default());
    *response.status_mut() = StatusCode::UNSUPPORTED_MEDIA_TYPE;
    response.headers_mut().insert(header::ACCEPT, CONTENT_TYPE);
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timeouts_are_read_in_every_unit() {
        let cases = [
            ("2H", Duration::from_secs(7200)),
            ("3M", Duration::from_secs(180)),
            ("99999999S", Duration::from_secs(99_999_999)),
            ("20m", Duration::from_millis(20)),
            ("7u", Duration::from_micros(7)),
            ("5n", Duration::from_nanos(5)),
        ];
        for (value, expected) in cases {
            assert_eq!(read_timeout(value), Ok(expected), "{value}");
        }
    }

    #[test]
    fn bad_timeouts_are_refused_by_name() {
        for value in ["", "S", "5", "5x", "-1S", "123456789S", "1.5S", "5é"] {
            let status = read_timeout(value).unwrap_err();
            assert_eq!(status.code, Code::InvalidArgument);
            assert!(status.message.contains(&format!("{value:?}")), "{status}");
        }
    }

    fn parts(headers: &[(&str, &str)]) -> request::Parts {
        let mut request = http::Request::post("/a/B");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.body(()).unwrap().into_parts().0
    }

    #[test]
    fn an_unknown_compression_is_unimplemented_and_says_what_is_offered() {
        let parts = parts(&[("content-type", "application/grpc"), ("grpc-encoding", "snappy")]);
        let Err(NotACall::Refused(status)) = read(&parts) else { panic!("accepted") };
        assert_eq!(status.code, Code::Unimplemented);
        let response = refusal(&status, Bytes::new());
        assert_eq!(response.headers().get("grpc-accept-encoding").unwrap(), "identity,gzip");
        assert_eq!(response.headers().get("grpc-status").unwrap(), "12");
    }

    #[test]
    fn a_worker_may_name_itself() {
        let head = |headers: &[(&str, &str)]| read(&parts(headers)).unwrap().worker;
        let grpc = ("content-type", "application/grpc");
        let named = head(&[grpc, ("rondo-worker", "host:1")]);
        assert_eq!(named.as_deref(), Some("host:1"));
        assert_eq!(head(&[grpc]), None);
    }

    #[test]
    fn plain_http_is_not_a_call() {
        assert_eq!(read(&parts(&[("content-type", "application/json")])), Err(NotACall::NotGrpc));
        assert_eq!(read(&parts(&[])), Err(NotACall::NotGrpc));
    }
}
