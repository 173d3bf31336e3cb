//! One end of a simulated connection: frames in and out of a byte stream, and signs of life.

use std::future::pending;
use std::io;
use std::time::Duration;

use bytes::BytesMut;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::Instant;

use super::sim_frame::Frame;

/// How a peer is asked whether it is alive.
#[derive(Clone, Copy, Debug)]
pub(super) struct Keepalive {
    /// How long it may be silent before it is asked.
    pub(super) interval: Duration,
    /// How long it may take to answer.
    pub(super) timeout: Duration,
}

/// One end of a connection.
pub(super) struct Wire {
    stream: TcpStream,
    received: BytesMut,
    keepalive: Keepalive,
    heard: Instant,
    asked: Option<Instant>,
}

impl Wire {
    /// An end of this stream.
    pub(super) fn new(stream: TcpStream, keepalive: Keepalive) -> Self {
        Self { stream, received: BytesMut::new(), keepalive, heard: Instant::now(), asked: None }
    }

    /// The next frame. A call that is dropped loses nothing.
    ///
    /// # Errors
    /// When the peer has closed the connection, sends what is no frame, or does not answer any
    /// more.
    pub(super) async fn next(&mut self) -> io::Result<Frame> {
        loop {
            let frame = Frame::take(&mut self.received);
            match frame.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))? {
                Some(Frame::Ping) => self.send(&Frame::Pong).await?,
                Some(Frame::Pong) => {}
                Some(frame) => return Ok(frame),
                None => self.receive().await?,
            }
        }
    }

    async fn receive(&mut self) -> io::Result<()> {
        let silent = alarm(self.heard, self.keepalive, self.asked);
        tokio::select! {
            biased;
            count = self.stream.read_buf(&mut self.received) => {
                if count? == 0 {
                    return Err(io::ErrorKind::ConnectionReset.into());
                }
                self.heard = Instant::now();
                self.asked = None;
                Ok(())
            }
            () = silent => self.ask().await,
        }
    }

    /// Asks a silent peer whether it is alive, or gives it up.
    async fn ask(&mut self) -> io::Result<()> {
        if self.asked.is_some() {
            return Err(io::Error::new(io::ErrorKind::TimedOut, "the peer does not answer"));
        }
        self.asked = Some(Instant::now());
        self.send(&Frame::Ping).await
    }

    /// Sends a frame.
    ///
    /// # Errors
    /// When the peer has closed the connection.
    pub(super) async fn send(&mut self, frame: &Frame) -> io::Result<()> {
        self.stream.write_all(&frame.encode()).await?;
        self.stream.flush().await
    }
}

/// Completes when the peer must be asked, or has not answered in time.
async fn alarm(heard: Instant, keepalive: Keepalive, asked: Option<Instant>) {
    let at = match asked {
        None => heard.checked_add(keepalive.interval),
        Some(asked) => asked.checked_add(keepalive.timeout),
    };
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => pending().await,
    }
}
