//! Bytes of gRPC's framing, right and wrong, cut anywhere, for tests.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::io::Write;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame};
use proptest::prelude::*;

/// A body that comes in these frames.
pub(super) struct Frames(pub(super) VecDeque<Frame<Bytes>>);

impl Body for Frames {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(self.0.pop_front().map(Ok))
    }
}

/// Runs something that waits.
pub(super) fn wait_for<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(work)
}

/// The first message of these bytes with its flag, and what is behind it; `None` if it is not whole.
pub(super) fn naive(bytes: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let length = u32::from_be_bytes(bytes.get(1..5)?.try_into().unwrap());
    let (message, rest) = bytes[5..].split_at_checked(usize::try_from(length).unwrap())?;
    Some((bytes[0], message, rest))
}

/// A message, compressed or not, behind its prefix.
fn message() -> impl Strategy<Value = Vec<u8>> {
    let content = prop_oneof![
        4 => prop::collection::vec(any::<u8>(), 0..40),
        // Compressed it is short.
        1 => (0..2000_usize).prop_map(|length| vec![7; length]),
    ];
    (content, 0..4_u8).prop_map(|(mut content, kind)| {
        let flag = u8::from(kind == 0);
        if flag == 1 {
            let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
            gzip.write_all(&content).unwrap();
            content = gzip.finish().unwrap();
        }
        let length = u32::try_from(content.len()).unwrap().to_be_bytes();
        [&[flag][..], &length, &content].concat()
    })
}

/// Bytes on the wire: messages of which perhaps one byte is another one, or the end is missing.
pub(super) fn any_messages() -> impl Strategy<Value = Vec<Bytes>> {
    let damage = prop::option::of((any::<prop::sample::Index>(), 1..=255_u8));
    let cut = prop::option::weighted(0.2, any::<prop::sample::Index>());
    let messages = prop_oneof![
        8 => prop::collection::vec(message(), 0..4),
        1 => prop::collection::vec(prop::collection::vec(any::<u8>(), 0..12), 1..2),
    ];
    (messages, damage, cut, 1..30_usize).prop_map(|(messages, damage, cut, piece)| {
        let mut bytes = messages.concat();
        if let (Some((at, flip)), false) = (damage, bytes.is_empty()) {
            let at = at.index(bytes.len());
            bytes[at] ^= flip;
        }
        if let (Some(at), false) = (cut, bytes.is_empty()) {
            bytes.truncate(at.index(bytes.len()));
        }
        bytes.chunks(piece).map(Bytes::copy_from_slice).collect()
    })
}
