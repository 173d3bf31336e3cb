//! A link over a stream of bytes: frames one behind the other.

use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, RawFd};

use mio::event::Source;
use rondo_proto::convert::exchange::FrameLimits;

use super::inbox::Inbox;
use super::outbox::Outbox;
use super::{Bounds, Frame, Link, Placer};
use crate::tensor::TensorBuffer;

/// A connection that carries bytes in their order.
pub(super) trait Stream: Read + Write + Source + AsRawFd + Send {
    /// Whether it is connected by now.
    fn is_connected(&self) -> io::Result<bool>;
}

/// A link over such a connection.
pub(super) struct StreamLink<S> {
    stream: S,
    inbox: Inbox,
    outbox: Outbox,
    what: String,
}

impl<S> StreamLink<S> {
    /// A link over this stream; `what` is what people call it.
    pub(super) fn new(stream: S, limits: FrameLimits, what: String) -> Self {
        Self { stream, inbox: Inbox::new(limits), outbox: Outbox::default(), what }
    }
}

impl<S: Stream> Link for StreamLink<S> {
    fn source(&mut self) -> &mut dyn Source {
        &mut self.stream
    }

    fn descriptor(&self) -> Option<RawFd> {
        Some(self.stream.as_raw_fd())
    }

    fn is_connected(&mut self) -> io::Result<bool> {
        self.stream.is_connected()
    }

    fn send(&mut self, frame: Frame) {
        self.outbox.push_header(frame.header);
        frame.body.into_iter().for_each(|buffer| self.outbox.push_tensor(buffer));
    }

    fn flush(&mut self) -> io::Result<bool> {
        self.outbox.write_to(&mut self.stream)
    }

    fn receive(&mut self, placer: Placer<'_>) -> io::Result<Option<Vec<TensorBuffer>>> {
        if !self.inbox.is_in_body() {
            let Some(places) = self.inbox.header(&mut self.stream, placer)? else {
                return Ok(None);
            };
            self.inbox.expect_body(places)?;
        }
        self.inbox.body(&mut self.stream)
    }

    fn end_is_near(&mut self) {
        self.inbox.end_is_near();
    }

    fn set_bounds(&mut self, bounds: Bounds) {
        self.inbox.set_bounds(bounds);
    }

    fn is_landing(&self) -> bool {
        self.inbox.is_landing()
    }

    fn unsent_bytes(&self) -> u64 {
        self.outbox.bytes()
    }

    fn describe(&self) -> String {
        self.what.clone()
    }
}
