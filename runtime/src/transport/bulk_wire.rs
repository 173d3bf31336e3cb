//! Frames of a bulk connection, read into the memory where they stay and written from where they lie.

use std::io;

use bytes::{BufMut, Bytes};
use rondo_proto::convert::{
    BULK_HEAD_BYTES, BULK_LENT_BYTES, BULK_PREFACE, BulkFrame, BulkLent, decode_bulk_head,
    decode_bulk_lent, encode_bulk_head, encode_bulk_lent,
};
use rondo_proto::pieces::Pieces;
use tokio::io::{
    AsyncBufRead, AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt,
};
use tokio::net::TcpStream;

use super::keepalive::Keepalive;
use super::near::Lender;
use crate::tensor::cuda::{Cuda, Ordinal};
use crate::tensor::{ALIGNMENT, BufferBuilder, Room};

/// Where in a message, seen from its first bytes, the byte stands that shall be aligned.
pub type Place = fn(&[u8]) -> usize;

/// Where messages come to lie.
#[derive(Clone, Debug)]
pub(super) struct Placing {
    /// What of them is aligned.
    pub(super) place: Place,
    /// A GPU that they go to from there: long ones are read into memory that it reads by itself, as far as
    /// there is some.
    pub(super) onto: Option<(Cuda, Ordinal)>,
}

impl Placing {
    /// Memory for a message of so many bytes, which begins so.
    fn memory(&self, length: usize, begin: &[u8]) -> BufferBuilder {
        let aligned = (self.place)(begin);
        let onto = self.onto.as_ref().filter(|_| length >= BufferBuilder::LONG_BYTES_MIN);
        let pinned = onto.and_then(|(cuda, device)| {
            cuda.try_stage(*device, length.saturating_add(ALIGNMENT)).ok()
        });
        match pinned {
            // SAFETY: it was just taken, and nobody else has it.
            Some(region) => unsafe { BufferBuilder::in_region(region, aligned) },
            None => BufferBuilder::with_capacity(length, aligned),
        }
    }
}

/// Prepares a connection: what is written leaves at once, and a dead peer is noticed while nothing is
/// written.
pub(super) fn prepare(stream: &TcpStream, keepalive: Keepalive) -> io::Result<()> {
    stream.set_nodelay(true)?;
    keepalive.set_on(stream)
}

/// Reads what the peer begins with: whether it speaks as we do.
pub(super) async fn read_preface(reader: &mut (impl AsyncRead + Unpin)) -> io::Result<bool> {
    let mut preface = BULK_PREFACE;
    reader.read_exact(&mut preface).await?;
    Ok(preface == BULK_PREFACE)
}

/// Reads what stands in front of the next frame; `None` if the peer has closed the connection.
pub(super) async fn read_head(
    reader: &mut (impl AsyncBufRead + Unpin),
) -> io::Result<Option<(BulkFrame, u64)>> {
    if reader.fill_buf().await?.is_empty() {
        return Ok(None);
    }
    let mut head = [0; BULK_HEAD_BYTES];
    reader.read_exact(&mut head).await?;
    decode_bulk_head(head).map(Some).map_err(io::Error::other)
}

/// What came of a frame before its connection broke.
pub(super) struct Cut {
    pub(super) came: Bytes,
    pub(super) error: io::Error,
}

impl From<io::Error> for Cut {
    fn from(error: io::Error) -> Self {
        Self { came: Bytes::new(), error }
    }
}

/// Reads the bytes of a frame, to where `placing` says.
pub(super) async fn read_bytes(
    reader: &mut (impl AsyncBufRead + Unpin),
    length: u64,
    placing: Option<&Placing>,
) -> Result<Bytes, Cut> {
    let length = usize::try_from(length).map_err(io::Error::other)?;
    if length == 0 {
        return Ok(Bytes::new());
    }
    let mut builder = match placing {
        Some(placing) => placing.memory(length, reader.fill_buf().await?),
        None => BufferBuilder::with_capacity(length, 0),
    };
    while builder.len() < length {
        let left = length.saturating_sub(builder.len());
        let error = match read_some(reader, &mut builder, left).await {
            Ok(1..) => continue,
            Ok(0) => {
                let text = format!("it ends after {} of {length} bytes of a frame", builder.len());
                io::Error::new(io::ErrorKind::UnexpectedEof, text)
            }
            Err(error) => error,
        };
        return Err(Cut { came: builder.finish(), error });
    }
    Ok(builder.finish())
}

/// Reads what is there of so many bytes.
async fn read_some(
    reader: &mut (impl AsyncBufRead + Unpin),
    builder: &mut BufferBuilder,
    left: usize,
) -> io::Result<usize> {
    match builder.room() {
        Room::Behind(all) => reader.read_buf(&mut all.limit(left)).await,
        Room::Here(room) => {
            let length = left.min(room.len());
            let read = reader.read(room.get_mut(..length).unwrap_or_default()).await?;
            builder.filled(read);
            Ok(read)
        }
    }
}

/// Writes a frame.
pub(super) async fn write(
    writer: &mut (impl AsyncWrite + Unpin),
    frame: BulkFrame,
    bytes: Pieces,
) -> io::Result<()> {
    let mut all = Pieces::with_capacity(BULK_HEAD_BYTES.saturating_add(bytes.short()));
    all.push_slice(&encode_bulk_head(frame, bytes.len() as u64));
    all.append(bytes);
    writer.write_all_buf(&mut all).await
}

/// Writes a message: where it lies, if it can be lent.
pub(super) async fn write_message(
    writer: &mut (impl AsyncWrite + Unpin),
    message: Pieces,
    lender: Option<&mut Lender>,
) -> io::Result<()> {
    let message = match lender {
        Some(lender) => match lender.lend(message).await {
            Ok(lent) => {
                let place = encode_bulk_lent(lent).to_vec();
                return write(writer, BulkFrame::Lent, place.into()).await;
            }
            Err(message) => message,
        },
        None => message,
    };
    write(writer, BulkFrame::Message, message).await
}

/// Reads where a message lies.
pub(super) async fn read_lent(
    reader: &mut (impl AsyncBufRead + Unpin),
    length: u64,
) -> io::Result<BulkLent> {
    if length != BULK_LENT_BYTES as u64 {
        return Err(io::Error::other(format!("{length} bytes are no place of a message")));
    }
    let mut place = [0; BULK_LENT_BYTES];
    reader.read_exact(&mut place).await?;
    Ok(decode_bulk_lent(place))
}
