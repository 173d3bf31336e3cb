//! Who only looks on, at its scheduler: a connection of its own, that blocks.

use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use rondo_core::exchange::membership::Membership;
use rondo_core::exchange::message::{AskTraces, ToMember, ToScheduler};
use rondo_core::exchange::{InstanceRank, Role, TraceNumber, Traces};
use rondo_core::status::{Code, Status};
use rondo_proto::convert::exchange::{
    FRAME_HEAD_BYTES, FrameHead, FrameLimits, decode_to_member, encode_to_scheduler,
};

use super::super::link::names;

/// A connection to a scheduler that answers questions.
pub(super) struct Observer {
    stream: TcpStream,
    scheduler: String,
    timeout: Duration,
    until: Instant,
    last: TraceNumber,
}

impl Observer {
    /// Connects to the scheduler at `host:port`, and learns who takes part. All that is asked later must
    /// be answered within `timeout` from now, too.
    ///
    /// # Errors
    /// Why nothing can be seen there.
    pub(super) fn connect(
        scheduler: &str,
        timeout: Duration,
    ) -> Result<(Self, Arc<Membership>), Status> {
        let until = Instant::now().checked_add(timeout).unwrap_or_else(Instant::now);
        let not_there = |error: io::Error| {
            let text = format!("no scheduler of an exchange answers at {scheduler}: {error}");
            Status::new(Code::Unavailable, text)
        };
        let address = names::look_up(scheduler, timeout).map_err(not_there)?;
        let left = until.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
        let stream = TcpStream::connect_timeout(&address, left).map_err(not_there)?;
        stream.set_nodelay(true).map_err(not_there)?;
        let (scheduler, last) = (scheduler.to_owned(), TraceNumber::new(0));
        let mut observer = Self { stream, scheduler, timeout, until, last };
        observer.say(&ToScheduler::Observe)?;
        loop {
            if let ToMember::Membership(membership) = observer.hear()? {
                return Ok((observer, membership));
            }
        }
    }

    /// What a process knows; the inner error is that it does not say.
    ///
    /// # Errors
    /// When the scheduler answers no more.
    pub(super) fn ask(
        &mut self,
        (role, rank): (Role, InstanceRank),
        after: u64,
    ) -> Result<Result<Traces, Status>, Status> {
        let asked = self.last.next();
        self.last = asked;
        self.say(&ToScheduler::AskTraces(AskTraces { number: asked, role, rank, after }))?;
        loop {
            match self.hear()? {
                ToMember::Traces { number, result } if number == asked => return Ok(result),
                _ => {}
            }
        }
    }

    fn say(&mut self, message: &ToScheduler) -> Result<(), Status> {
        let mut frame = Vec::new();
        encode_to_scheduler(message, &FrameLimits::of_scheduler(), &mut frame)?;
        let said = self.left().and_then(|left| {
            self.stream.set_write_timeout(Some(left))?;
            self.stream.write_all(&frame)
        });
        said.map_err(|error| self.silent(&error))
    }

    fn hear(&mut self) -> Result<ToMember, Status> {
        let mut head = [0; FRAME_HEAD_BYTES];
        self.read(&mut head).map_err(|error| self.silent(&error))?;
        let head = FrameHead::decode(&head, &FrameLimits::of_scheduler());
        let head = head.map_err(|status| self.is_none(&status))?;
        let mut header = vec![0; usize::try_from(head.header_bytes).unwrap_or(usize::MAX)];
        self.read(&mut header).map_err(|error| self.silent(&error))?;
        match decode_to_member(head, &Bytes::from(header)) {
            Ok(ToMember::Rejected(status)) => Err(status),
            Ok(message) => Ok(message),
            Err(status) => Err(self.is_none(&status)),
        }
    }

    /// Fills the buffer, or fails when time is up.
    fn read(&mut self, mut buffer: &mut [u8]) -> io::Result<()> {
        while !buffer.is_empty() {
            self.stream.set_read_timeout(Some(self.left()?))?;
            match self.stream.read(buffer) {
                Ok(0) => return Err(io::Error::new(ErrorKind::UnexpectedEof, "it hung up")),
                Ok(count) => buffer = buffer.get_mut(count..).unwrap_or_default(),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// How long it may still take.
    fn left(&self) -> io::Result<Duration> {
        let left = self.until.saturating_duration_since(Instant::now());
        match left.is_zero() {
            true => Err(io::Error::new(ErrorKind::TimedOut, "time is up")),
            false => Ok(left),
        }
    }

    fn silent(&self, error: &io::Error) -> Status {
        let Self { scheduler, timeout, .. } = self;
        if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) {
            let text = format!(
                "the scheduler at {scheduler} did not tell all within {} ms (timeout)",
                timeout.as_millis()
            );
            return Status::new(Code::DeadlineExceeded, text);
        }
        let text = format!("the scheduler at {scheduler} answers no more: {error}");
        Status::new(Code::Unavailable, text)
    }

    fn is_none(&self, status: &Status) -> Status {
        let Self { scheduler, .. } = self;
        let text = format!(
            "what answers at {scheduler} is no scheduler of an exchange: {}",
            status.message
        );
        Status::new(Code::Unavailable, text)
    }
}
