//! Bulk connections of a client: those under way, and those that wait for their next call.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use rondo_core::limits::ELEMENT_BYTES_MAX;
use rondo_proto::convert::{BulkCall, BulkFrame, BulkLent, encode_bulk_call};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::net::TcpStream;
use tokio::runtime::Handle;

use super::bulk_wire::{read_bytes, read_head, write};
use super::near::Borrower;

/// Idle connections kept to one address.
const IDLE_MAX: usize = 8;
/// Addresses to which idle connections are kept, and of servers that do not know bulk connections.
const ADDRESSES_MAX: usize = 4096;
/// How long a server is believed not to know bulk connections: it may be upgraded.
const STRANGER_FOR: Duration = Duration::from_secs(60);
/// How long the end of an answer may take of which its caller has all it wants, before its connection is
/// closed.
const END_MAX: Duration = Duration::from_millis(20);

/// A connection, and what its server lends if it is on this host.
pub(super) struct Connection {
    stream: BufReader<TcpStream>,
    borrower: Option<Borrower>,
}

/// Servers that are known.
#[derive(Clone, Default)]
pub(super) struct Peers(Arc<Mutex<Known>>);

#[derive(Default)]
struct Known {
    idle: BTreeMap<String, Vec<Connection>>,
    /// Servers that do not know bulk connections, and when that showed.
    strangers: BTreeMap<String, Instant>,
}

impl Connection {
    pub(super) const fn new(stream: BufReader<TcpStream>, borrower: Option<Borrower>) -> Self {
        Self { stream, borrower }
    }

    /// Whether nothing has come on it that nobody asked for.
    fn is_quiet(&self) -> bool {
        if !self.stream.buffer().is_empty() {
            return false;
        }
        let unread = self.stream.get_ref().try_read(&mut [0; 1]);
        matches!(unread, Err(error) if error.kind() == io::ErrorKind::WouldBlock)
    }

    /// Reads on if the answer is at its end, and nothing else. Whether the next call can begin.
    async fn is_at_end(&mut self) -> io::Result<bool> {
        match read_head(&mut self.stream).await? {
            Some((BulkFrame::End, length)) if length <= ELEMENT_BYTES_MAX => {
                let read = read_bytes(&mut self.stream, length, None).await;
                read.map(|_| true).map_err(|cut| cut.error)
            }
            _ => Ok(false),
        }
    }
}

impl Peers {
    fn known(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a server does not know bulk connections.
    pub(super) fn is_stranger(&self, address: &str, now: Instant) -> bool {
        let known = self.known();
        let since = known.strangers.get(address);
        since.is_some_and(|since| now.saturating_duration_since(*since) < STRANGER_FOR)
    }

    /// A server does not know bulk connections.
    pub(super) fn note_stranger(&self, address: &str, now: Instant) {
        let mut known = self.known();
        if known.strangers.len() >= ADDRESSES_MAX && !known.strangers.contains_key(address) {
            known.strangers.pop_first();
        }
        known.strangers.insert(address.to_owned(), now);
    }

    /// A connection that waits for its next call, and is not closed meanwhile.
    pub(super) fn idle(&self, address: &str) -> Option<Connection> {
        let mut known = self.known();
        let idle = known.idle.get_mut(address)?;
        let found = std::iter::from_fn(|| idle.pop()).find(Connection::is_quiet);
        if idle.is_empty() {
            known.idle.remove(address);
        }
        found
    }

    fn keep(&self, address: String, connection: Connection) {
        let mut known = self.known();
        if !known.idle.contains_key(&address) && known.idle.len() >= ADDRESSES_MAX {
            known.idle.pop_first();
        }
        let idle = known.idle.entry(address).or_default();
        if idle.len() < IDLE_MAX {
            idle.push(connection);
        }
    }
}

/// A call under way on a connection. When its caller leaves and has all it wants, since only the end is
/// missing, the connection is kept; else it is closed, which tells the server.
pub(super) struct UnderWay {
    peers: Peers,
    address: String,
    /// `None` when it is kept, or closed.
    connection: Option<Connection>,
    has_message: bool,
    /// Whether nothing was read of the next frame.
    is_between: bool,
}

impl UnderWay {
    /// Makes a call on a connection.
    pub(super) async fn begin(
        peers: &Peers,
        address: &str,
        mut connection: Connection,
        call: BulkCall,
    ) -> io::Result<Self> {
        let call = encode_bulk_call(call);
        write(&mut connection.stream, BulkFrame::Call, call.into()).await?;
        Ok(Self {
            peers: peers.clone(),
            address: address.to_owned(),
            connection: Some(connection),
            has_message: false,
            is_between: true,
        })
    }

    fn connection(&mut self) -> io::Result<&mut Connection> {
        self.connection.as_mut().ok_or_else(|| io::ErrorKind::NotConnected.into())
    }

    /// Where the bytes of a frame come from.
    pub(super) fn stream(&mut self) -> io::Result<&mut BufReader<TcpStream>> {
        self.connection().map(|connection| &mut connection.stream)
    }

    /// Waits for the next frame, which must come, and reads what stands in front of it.
    pub(super) async fn next_head(&mut self) -> io::Result<(BulkFrame, u64)> {
        self.stream()?.fill_buf().await?;
        self.is_between = false;
        let head = read_head(self.stream()?).await?;
        head.ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
    }

    /// A message that lies in memory that both have.
    pub(super) fn lent(&mut self, lent: BulkLent) -> io::Result<Bytes> {
        let none = || io::Error::other("a message lies where nothing was lent");
        let message = self.connection()?.borrower.as_ref().ok_or_else(none)?.message(lent)?;
        self.came();
        Ok(message)
    }

    /// A message has come.
    pub(super) const fn came(&mut self) {
        (self.has_message, self.is_between) = (true, true);
    }

    /// All of the answer has come.
    pub(super) fn ended(mut self) {
        if let Some(connection) = self.connection.take() {
            self.peers.keep(std::mem::take(&mut self.address), connection);
        }
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        let Some(mut connection) = self.connection.take() else { return };
        let Ok(handle) = Handle::try_current() else { return };
        if !(self.has_message && self.is_between) {
            return;
        }
        let (peers, address) = (self.peers.clone(), std::mem::take(&mut self.address));
        handle.spawn(async move {
            let ended = tokio::time::timeout(END_MAX, connection.is_at_end()).await;
            if matches!(ended, Ok(Ok(true))) {
                peers.keep(address, connection);
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    #[tokio::test]
    async fn few_idle_connections_are_kept_to_an_address() {
        let door = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = door.local_addr().unwrap();
        let (peers, mut others) = (Peers::default(), Vec::new());
        for _ in 0..IDLE_MAX + 3 {
            let stream = TcpStream::connect(address).await.unwrap();
            others.push(door.accept().await.unwrap());
            peers.keep("w:1".into(), Connection::new(BufReader::new(stream), None));
        }
        assert_eq!(std::iter::from_fn(|| peers.idle("w:1")).count(), IDLE_MAX);
    }

    #[test]
    fn a_server_that_knew_no_bulk_connections_is_asked_again_later() {
        let (peers, then) = (Peers::default(), Instant::now());
        peers.note_stranger("w:1", then);
        assert!(peers.is_stranger("w:1", then + STRANGER_FOR / 2));
        assert!(!peers.is_stranger("w:1", then + STRANGER_FOR));
        // An older server still: the time begins anew.
        peers.note_stranger("w:1", then + STRANGER_FOR);
        assert!(peers.is_stranger("w:1", then + STRANGER_FOR * 3 / 2));
    }

    #[test]
    fn a_server_that_is_known_takes_no_other_ones_place() {
        let (peers, now) = (Peers::default(), Instant::now());
        let address = |number: usize| format!("w{number}:1");
        (0..ADDRESSES_MAX).for_each(|number| peers.note_stranger(&address(number), now));
        peers.note_stranger(&address(7), now);
        assert!((0..ADDRESSES_MAX).all(|number| peers.is_stranger(&address(number), now)));
    }

    #[tokio::test]
    async fn addresses_have_a_bound() {
        let door = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let stream = TcpStream::connect(door.local_addr().unwrap()).await.unwrap();
        let peers = Peers::default();
        for number in 0..ADDRESSES_MAX + 3 {
            peers.note_stranger(&format!("w{number}:1"), Instant::now());
        }
        for number in 0..ADDRESSES_MAX {
            peers.known().idle.insert(format!("w{number}:1"), Vec::new());
        }
        peers.keep("x:1".into(), Connection::new(BufReader::new(stream), None));
        let known = peers.known();
        assert_eq!((known.strangers.len(), known.idle.len()), (ADDRESSES_MAX, ADDRESSES_MAX));
        assert!(known.idle.contains_key("x:1"));
    }
}
