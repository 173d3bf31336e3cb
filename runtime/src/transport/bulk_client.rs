//! Bulk connections out: each carries one call at a time, and waits for the next one when it is over.

use std::io;
use std::time::{Duration, Instant};

use rondo_core::limits::ELEMENT_BYTES_MAX;
use rondo_core::status::{Code, Status};
use rondo_proto::convert::{BULK_PREFACE, BulkCall, BulkFrame, decode_bulk_end, decode_bulk_near};
use tokio::io::{AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

use super::bulk_kept::{Connection, Peers, UnderWay};
use super::bulk_wire::{
    Cut, Placing, prepare, read_bytes, read_head, read_lent, read_preface, write,
};
use super::keepalive::Keepalive;
use super::near::{Borrower, is_near};
use super::{CANNOT_REACH, MessageWriter};

/// The shortest part of a message that is handed on when its connection broke, in bytes.
const PART_BYTES_MIN: usize = 4 << 10;
/// What is read at once of frames that are short, in bytes.
const BUFFER_BYTES: usize = 16 << 10;
/// How long an address may take to accept a connection and to say that it knows such.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Makes calls over bulk connections.
#[derive(Default)]
pub(super) struct BulkClient {
    placing: Option<Placing>,
    peers: Peers,
    pub(super) keepalive: Keepalive,
}

/// Why a call brought not all messages.
pub(super) enum Unfinished {
    /// The server does not know bulk connections. It has not seen the call.
    Stranger,
    /// The server says why, or there is no way to it.
    Refused(Status),
}

impl BulkClient {
    /// A client whose messages lie where they shall. What has come of one when its connection breaks is
    /// handed on too.
    pub(super) fn placing(placing: Placing) -> Self {
        Self { placing: Some(placing), ..Self::default() }
    }

    /// Whether the server at this address may know bulk connections.
    pub(super) fn is_possible(&self, address: &str) -> bool {
        !self.peers.is_stranger(address, Instant::now())
    }

    /// Makes a call, and hands on what answers it.
    pub(super) async fn stream(
        &self,
        address: &str,
        call: BulkCall,
        writer: &mut MessageWriter,
    ) -> Result<(), Unfinished> {
        let connection = match self.peers.idle(address) {
            Some(connection) => connection,
            None => self.connect(address).await?,
        };
        let broken = |error: io::Error| Unfinished::Refused(broken(address, &error));
        let under_way = UnderWay::begin(&self.peers, address, connection, call).await;
        let mut under_way = under_way.map_err(broken)?;
        loop {
            let (frame, length) = under_way.next_head().await.map_err(broken)?;
            check(frame, length).map_err(Unfinished::Refused)?;
            let stream = under_way.stream().map_err(broken)?;
            if frame == BulkFrame::Lent {
                let lent = read_lent(stream, length).await.map_err(broken)?;
                check(BulkFrame::Message, lent.length).map_err(Unfinished::Refused)?;
                let message = under_way.lent(lent).map_err(broken)?;
                writer.write(message).await;
                continue;
            }
            let placing = self.placing.as_ref().filter(|_| frame == BulkFrame::Message);
            let bytes = match read_bytes(stream, length, placing).await {
                Ok(bytes) => bytes,
                Err(Cut { came, error }) => {
                    if placing.is_some() && came.len() >= PART_BYTES_MIN {
                        writer.write(came).await;
                    }
                    return Err(broken(error));
                }
            };
            if frame == BulkFrame::End {
                under_way.ended();
                return decode_bulk_end(bytes).map_err(Unfinished::Refused);
            }
            under_way.came();
            writer.write(bytes).await;
        }
    }

    async fn connect(&self, address: &str) -> Result<Connection, Unfinished> {
        let unreached = |text: &str| {
            Unfinished::Refused(Status::new(
                Code::Unavailable,
                format!("{CANNOT_REACH}{address}{text}"),
            ))
        };
        // What goes to a GPU is read into memory that this reads by itself.
        let wants_memory = self.placing.as_ref().is_none_or(|placing| placing.onto.is_none());
        let opened = open(address, wants_memory, self.keepalive);
        let connected = tokio::time::timeout(CONNECT_TIMEOUT, opened).await;
        match connected.map_err(|_| unreached(" in time"))? {
            Ok(connection) => Ok(connection),
            Err(NoConnection::Unreached(error)) => Err(unreached(&format!(": {error}"))),
            Err(NoConnection::Broken(error)) => Err(Unfinished::Refused(broken(address, &error))),
            Err(NoConnection::Stranger) => {
                tracing::debug!(address, "knows no bulk connections");
                self.peers.note_stranger(address, Instant::now());
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

async fn open(
    address: &str,
    wants_memory: bool,
    keepalive: Keepalive,
) -> Result<Connection, NoConnection> {
    let mut stream = TcpStream::connect(address).await.map_err(NoConnection::Unreached)?;
    prepare(&stream, keepalive).map_err(NoConnection::Broken)?;
    stream.write_all(&BULK_PREFACE).await.map_err(NoConnection::Broken)?;
    match read_preface(&mut stream).await.map_err(NoConnection::Broken)? {
        true => {}
        false => return Err(NoConnection::Stranger),
    }
    let ends = stream.local_addr().and_then(|ours| Ok((ours, stream.peer_addr()?)));
    let (ours, theirs) = ends.map_err(NoConnection::Broken)?;
    let mut stream = BufReader::with_capacity(BUFFER_BYTES, stream);
    let borrower = match wants_memory && is_near(&ours, &theirs) {
        true => borrow(&mut stream).await.map_err(NoConnection::Broken)?,
        false => None,
    };
    Ok(Connection::new(stream, borrower))
}

/// Asks a server on this host for memory that both have.
async fn borrow(stream: &mut BufReader<TcpStream>) -> io::Result<Option<Borrower>> {
    write(stream, BulkFrame::Near, Vec::new().into()).await?;
    let head = read_head(stream).await?;
    let (frame, length) = head.ok_or_else(|| io::Error::from(io::ErrorKind::UnexpectedEof))?;
    if frame != BulkFrame::Near || length > BUFFER_BYTES as u64 {
        return Err(io::Error::other(format!("{length} bytes of {frame:?} came for an offer")));
    }
    let offer = read_bytes(stream, length, None).await.map_err(|cut| cut.error)?;
    let Some(near) = decode_bulk_near(offer).map_err(io::Error::other)? else { return Ok(None) };
    let opened = Borrower::open(near);
    if let Err(error) = &opened {
        tracing::debug!(%error, "memory of a server on this host cannot be shared");
    }
    let answer = vec![u8::from(opened.is_ok())];
    write(stream, BulkFrame::Near, answer.into()).await?;
    Ok(opened.ok())
}

fn check(frame: BulkFrame, length: u64) -> Result<(), Status> {
    if matches!(frame, BulkFrame::Call | BulkFrame::Near) {
        let text = format!("a frame of {frame:?} came where an answer goes on");
        return Err(Status::new(Code::Internal, text));
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
