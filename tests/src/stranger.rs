//! A client of HTTP/2 that keeps to no rule but those it wants: frames written by hand.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// Kinds of frames (RFC 9113, section 6).
pub const DATA: u8 = 0;
/// Begins a stream.
pub const HEADERS: u8 = 1;
/// Says which stream comes first.
pub const PRIORITY: u8 = 2;
/// Ends a stream at once.
pub const RESET: u8 = 3;
/// Says what a side keeps to.
pub const SETTINGS: u8 = 4;
/// Asks whether the other side is there.
pub const PING: u8 = 6;
/// Lets the other side send more.
pub const WINDOW_UPDATE: u8 = 8;
/// Goes on with headers.
pub const CONTINUATION: u8 = 9;

/// The server's windows hold from here on: it has sent its settings at once.
const ACK: u8 = 1;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
const INITIAL_WINDOW_SIZE: u16 = 4;

/// A connection.
#[derive(Debug)]
pub struct Stranger {
    stream: TcpStream,
    next: u32,
    is_closed: Arc<AtomicBool>,
}

/// The largest window that HTTP/2 knows, in bytes.
const WINDOW_MAX: u32 = i32::MAX as u32;
/// How long a server may leave what a stranger sends unread before the stranger gives up.
const WRITE_PATIENCE: Duration = Duration::from_secs(1);

impl Stranger {
    /// Connects to a server. Answers may come up to `window` bytes each before somebody reads them.
    ///
    /// # Panics
    /// When nobody listens there.
    pub fn connect(address: &str, window: u32) -> Self {
        let stream = TcpStream::connect(address).expect("somebody listens");
        stream.set_read_timeout(Some(Duration::from_secs(60))).expect("a time");
        let mut this = Self { stream, next: 1, is_closed: Arc::default() };
        this.write(PREFACE);
        let [a, b] = INITIAL_WINDOW_SIZE.to_be_bytes();
        let [c, d, e, f] = window.to_be_bytes();
        this.frame(SETTINGS, 0, 0, &[a, b, c, d, e, f]);
        this.frame(SETTINGS, ACK, 0, &[]);
        this
    }

    /// Connects to a server, and reads, counts and drops whatever comes as fast as it can. `None` when the
    /// server takes no connection at present.
    ///
    /// # Panics
    /// When there is no thread.
    pub fn that_reads(address: &str, heard: &Arc<AtomicU64>) -> Option<Self> {
        let mut this = Self::silent(address, heard)?;
        this.write(PREFACE);
        let [a, b] = INITIAL_WINDOW_SIZE.to_be_bytes();
        let [c, d, e, f] = WINDOW_MAX.to_be_bytes();
        this.frame(SETTINGS, 0, 0, &[a, b, c, d, e, f]);
        this.frame(SETTINGS, ACK, 0, &[]);
        this.frame(WINDOW_UPDATE, 0, 0, &(WINDOW_MAX - 65_535).to_be_bytes());
        Some(this)
    }

    /// The same, but it says nothing by itself.
    ///
    /// # Panics
    /// When there is no thread.
    pub fn silent(address: &str, heard: &Arc<AtomicU64>) -> Option<Self> {
        let stream = TcpStream::connect(address).ok()?;
        stream.set_write_timeout(Some(WRITE_PATIENCE)).ok()?;
        let mut reader = stream.try_clone().ok()?;
        let is_closed: Arc<AtomicBool> = Arc::default();
        let (closed, heard) = (Arc::clone(&is_closed), Arc::clone(heard));
        let read = move || {
            let mut bytes = [0; 16 << 10];
            // After an error nothing more comes either.
            while let Some(length) = reader.read(&mut bytes).ok().filter(|length| *length > 0) {
                heard.fetch_add(length as u64, Ordering::SeqCst);
            }
            closed.store(true, Ordering::SeqCst);
        };
        thread::Builder::new().stack_size(64 << 10).spawn(read).expect("a thread");
        Some(Self { stream, next: 1, is_closed })
    }

    /// Whether the server has closed the connection, as far as a stranger that reads knows.
    pub fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::SeqCst)
    }

    /// Sends bytes as they are.
    pub fn raw(&mut self, bytes: &[u8]) {
        self.write(bytes);
    }

    /// Begins a call to the method at `path`, whose message may be compressed, and sends these bytes of its
    /// body. The stream's number.
    pub fn begin(&mut self, path: &str, is_compressed: bool, body: &[u8]) -> u32 {
        let stream = self.next;
        self.next = stream.wrapping_add(2);
        let mut head = Vec::new();
        let mut headers = vec![
            (":method", "POST"),
            (":scheme", "http"),
            (":path", path),
            (":authority", "stranger"),
            ("content-type", "application/grpc"),
            ("te", "trailers"),
        ];
        if is_compressed {
            headers.push(("grpc-encoding", "gzip"));
        }
        for (name, value) in headers {
            head.push(0);
            head.extend(field(name, value));
        }
        self.frame(HEADERS, END_HEADERS, stream, &head);
        self.more(stream, body);
        stream
    }

    /// Sends more bytes of a call's body.
    pub fn more(&mut self, stream: u32, body: &[u8]) {
        for piece in body.chunks(16 << 10) {
            self.frame(DATA, 0, stream, piece);
        }
    }

    /// Calls the method at `path` with a message.
    pub fn call(&mut self, path: &str, is_compressed: bool, message: &[u8]) -> u32 {
        let stream = self.begin(path, is_compressed, &prefixed(is_compressed, message));
        self.frame(DATA, END_STREAM, stream, &[]);
        stream
    }

    /// Makes so many calls of the method at `path` at once, with as few bytes as HTTP/2 allows: all but the
    /// first name headers that the server remembers. Each call has this body; without one it stays open.
    pub fn call_often(&mut self, path: &str, count: usize, body: Option<&[u8]>) {
        const POST_AND_HTTP: [u8; 2] = [0x80 | 3, 0x80 | 6];
        let fields = [(":path", path), ("content-type", "application/grpc"), ("te", "trailers")];
        let (mut first, mut again) = (POST_AND_HTTP.to_vec(), POST_AND_HTTP.to_vec());
        // The server numbers what it remembers from 62 on, the newest first.
        for (number, (name, value)) in (62..65).rev().zip(fields) {
            first.push(0x40);
            first.extend(field(name, value));
            again.push(0x80 | number);
        }
        let mut bytes = Vec::new();
        for number in 0..count {
            let head = if number == 0 { &first } else { &again };
            let stream = self.next;
            self.next = stream.wrapping_add(2);
            let end = if body.is_some_and(<[u8]>::is_empty) { END_STREAM } else { 0 };
            bytes.extend(frame(HEADERS, END_HEADERS | end, stream, head));
            if let Some(body) = body.filter(|body| !body.is_empty()) {
                bytes.extend(frame(DATA, END_STREAM, stream, body));
            }
        }
        self.write(&bytes);
    }

    /// Says that nothing more will come.
    pub fn finish(&mut self) {
        // The server may have closed the connection.
        let _gone = self.stream.shutdown(std::net::Shutdown::Write);
    }

    /// Reads until the server closes the connection. How many bytes came.
    ///
    /// # Panics
    /// When the server does not close it within a minute.
    pub fn read_to_end(&mut self) -> usize {
        let mut said = Vec::new();
        match self.stream.read_to_end(&mut said) {
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                panic!("the server keeps the connection")
            }
            _ => said.len(),
        }
    }

    /// Sends a frame of HTTP/2.
    ///
    /// # Panics
    /// When it is longer than the protocol allows.
    pub fn frame(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
        self.write(&frame(kind, flags, stream, payload));
    }

    fn write(&mut self, bytes: &[u8]) {
        // The server may have closed the connection: what a test waits for shows that.
        if self.stream.write_all(bytes).is_err() {
            self.is_closed.store(true, Ordering::SeqCst);
        }
    }
}

impl Drop for Stranger {
    fn drop(&mut self) {
        // Ends the thread that reads.
        let _gone = self.stream.shutdown(std::net::Shutdown::Both);
    }
}

/// A header's name and value behind their lengths.
fn field(name: &str, value: &str) -> Vec<u8> {
    let texts = [name, value].map(|text| {
        let length = u8::try_from(text.len()).expect("a short text");
        [&[length][..], text.as_bytes()].concat()
    });
    texts.concat()
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).expect("a short frame");
    let [_, a, b, c] = length.to_be_bytes();
    let [d, e, f, g] = stream.to_be_bytes();
    [&[a, b, c, kind, flags, d, e, f, g][..], payload].concat()
}

/// A message behind gRPC's prefix.
pub fn prefixed(is_compressed: bool, message: &[u8]) -> Vec<u8> {
    announced(is_compressed, message.len(), message)
}

/// A prefix that announces `length` bytes, and the beginning of them.
pub fn announced(is_compressed: bool, length: usize, message: &[u8]) -> Vec<u8> {
    let length = u32::try_from(length).expect("gRPC carries 4 GiB");
    [&[u8::from(is_compressed)][..], &length.to_be_bytes(), message].concat()
}
