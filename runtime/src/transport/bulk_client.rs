//! Bulk connections out: each carries one call at a time, and waits for the next one when it is over.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rondo_core::limits::ELEMENT_BYTES_MAX;
use rondo_core::status::{Code, Status};
use rondo_proto::convert::{BULK_PREFACE, BulkCall, BulkFrame, decode_bulk_end, encode_bulk_call};
use tokio::io::{AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

use super::bulk_wire::{Cut, Place, prepare, read_bytes, read_head, read_preface, write};
use super::{CANNOT_REACH, MessageWriter};

/// Idle connections kept to one address.
const IDLE_MAX: usize = 8;
/// Addresses to which idle connections are kept, and of servers that do not know bulk connections.
const ADDRESSES_MAX: usize = 4096;
/// The shortest part of a message that is handed on when its connection broke, in bytes.
const PART_BYTES_MIN: usize = 4 << 10;
/// What is read at once of frames that are short, in bytes.
const BUFFER_BYTES: usize = 16 << 10;
/// How long an address may take to accept a connection and to say that it knows such.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a peer may be silent before it is asked whether it is alive.
const KEEPALIVE: Duration = Duration::from_secs(20);

/// Makes calls over bulk connections.
#[derive(Default)]
pub(super) struct BulkClient {
    place: Option<Place>,
    peers: Mutex<Peers>,
}

#[derive(Default)]
struct Peers {
    idle: BTreeMap<String, Vec<Connection>>,
    /// Servers that do not know bulk connections.
    strangers: BTreeSet<String>,
}

type Connection = BufReader<TcpStream>;

/// Why a call brought not all messages.
pub(super) enum Unfinished {
    /// The server does not know bulk connections. It has not seen the call.
    Stranger,
    /// The server says why, or there is no way to it.
    Refused(Status),
}

impl BulkClient {
    /// A client whose messages are aligned where `place` says. What has come of one when its connection
    /// breaks is handed on too.
    pub(super) fn placing(place: Place) -> Self {
        Self { place: Some(place), ..Self::default() }
    }

    /// Whether the server at this address may know bulk connections.
    pub(super) fn is_possible(&self, address: &str) -> bool {
        !self.peers().strangers.contains(address)
    }

    /// Makes a call, and hands on what answers it.
    pub(super) async fn stream(
        &self,
        address: &str,
        call: BulkCall,
        writer: &mut MessageWriter,
    ) -> Result<(), Unfinished> {
        let mut connection = match self.idle(address) {
            Some(connection) => connection,
            None => self.connect(address).await?,
        };
        let broken = |error: io::Error| Unfinished::Refused(broken(address, &error));
        let call = encode_bulk_call(call);
        write(&mut connection, BulkFrame::Call, call.into()).await.map_err(broken)?;
        loop {
            let closed = || io::Error::from(io::ErrorKind::UnexpectedEof);
            let head = read_head(&mut connection).await.map_err(broken)?;
            let (frame, length) = head.ok_or_else(|| broken(closed()))?;
            check(frame, length).map_err(Unfinished::Refused)?;
            let place = self.place.filter(|_| frame == BulkFrame::Message);
            let bytes = match read_bytes(&mut connection, length, place).await {
                Ok(bytes) => bytes,
                Err(Cut { came, error }) => {
                    if place.is_some() && came.len() >= PART_BYTES_MIN {
                        writer.write(came).await;
                    }
                    return Err(broken(error));
                }
            };
            if frame == BulkFrame::End {
                self.keep(address, connection);
                return decode_bulk_end(bytes).map_err(Unfinished::Refused);
            }
            writer.write(bytes).await;
        }
    }

    fn peers(&self) -> std::sync::MutexGuard<'_, Peers> {
        self.peers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A connection that waits for its next call, and is not closed meanwhile.
    fn idle(&self, address: &str) -> Option<Connection> {
        let mut peers = self.peers();
        let idle = peers.idle.get_mut(address)?;
        while let Some(connection) = idle.pop() {
            let unread = connection.get_ref().try_read(&mut [0; 1]);
            if matches!(unread, Err(error) if error.kind() == io::ErrorKind::WouldBlock) {
                return Some(connection);
            }
        }
        None
    }

    fn keep(&self, address: &str, connection: Connection) {
        let mut peers = self.peers();
        if !peers.idle.contains_key(address) && peers.idle.len() >= ADDRESSES_MAX {
            peers.idle.pop_first();
        }
        let idle = peers.idle.entry(address.to_owned()).or_default();
        if idle.len() < IDLE_MAX {
            idle.push(connection);
        }
    }

    async fn connect(&self, address: &str) -> Result<Connection, Unfinished> {
        let unreached = |text: &str| {
            Unfinished::Refused(Status::new(
                Code::Unavailable,
                format!("{CANNOT_REACH}{address}{text}"),
            ))
        };
        let connected = tokio::time::timeout(CONNECT_TIMEOUT, open(address)).await;
        match connected.map_err(|_| unreached(" in time"))? {
            Ok(connection) => Ok(connection),
            Err(NoConnection::Unreached(error)) => Err(unreached(&format!(": {error}"))),
            Err(NoConnection::Broken(error)) => Err(Unfinished::Refused(broken(address, &error))),
            Err(NoConnection::Stranger) => {
                tracing::debug!(address, "knows no bulk connections");
                let mut peers = self.peers();
                if peers.strangers.len() >= ADDRESSES_MAX {
                    peers.strangers.pop_first();
                }
                peers.strangers.insert(address.to_owned());
                Err(Unfinished::Stranger)
            }
        }
    }
}

/// Why there is no connection.
enum NoConnection {
    Unreached(io::Error),
    Broken(io::Error),
    Stranger,
}

async fn open(address: &str) -> Result<Connection, NoConnection> {
    let mut stream = TcpStream::connect(address).await.map_err(NoConnection::Unreached)?;
    prepare(&stream, KEEPALIVE).map_err(NoConnection::Broken)?;
    stream.write_all(&BULK_PREFACE).await.map_err(NoConnection::Broken)?;
    match read_preface(&mut stream).await.map_err(NoConnection::Broken)? {
        true => Ok(BufReader::with_capacity(BUFFER_BYTES, stream)),
        false => Err(NoConnection::Stranger),
    }
}

fn check(frame: BulkFrame, length: u64) -> Result<(), Status> {
    if frame == BulkFrame::Call {
        return Err(Status::new(Code::Internal, "a call came where its answer goes on"));
    }
    if length > ELEMENT_BYTES_MAX {
        let text = format!("a message has {length} bytes; at most {ELEMENT_BYTES_MAX} are taken");
        return Err(Status::new(Code::ResourceExhausted, text));
    }
    Ok(())
}

fn broken(address: &str, error: &io::Error) -> Status {
    Status::new(Code::Unavailable, format!("the connection to {address} broke: {error}"))
}
