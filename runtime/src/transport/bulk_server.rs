//! Bulk connections in: calls that are answered with streams, one after the other.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use rondo_core::status::{Code, Status};
use rondo_proto::convert::{
    BULK_PREFACE, BulkFrame, decode_bulk_call, encode_bulk_end, encode_bulk_near,
};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::time::timeout;

use super::answering::check_length;
use super::bulk_wire::{prepare, read_head, read_preface, write, write_message};
use super::intake::{Intake, room_for};
use super::keepalive::Keepalive;
use super::leaving::RATE_MIN;
use super::near::{Lender, is_near};
use super::phase::Phase;
use super::server::Shared;
use super::streams::messages_of;
use super::{Call, ConnectionId, MessageStream, RequestMemory, ServerConfig};

/// Why there is no next call.
enum NoCall {
    /// The connection ends.
    Broken(io::Error),
    /// What came is none, or is not allowed.
    Refused(Status),
}

impl From<io::Error> for NoCall {
    fn from(error: io::Error) -> Self {
        Self::Broken(error)
    }
}

/// Serves one connection to its end.
pub(super) async fn serve(
    shared: Arc<Shared>,
    mut stream: TcpStream,
    from: (ConnectionId, SocketAddr),
) {
    let (_, peer) = from;
    if let Err(error) = answer_calls(&shared, &mut stream, from).await {
        tracing::debug!(%peer, %error, "bulk connection ended");
    }
}

async fn answer_calls(
    shared: &Arc<Shared>,
    stream: &mut TcpStream,
    from: (ConnectionId, SocketAddr),
) -> io::Result<()> {
    prepare(stream, keepalive(&shared.config))?;
    let is_near = is_near(&stream.local_addr()?, &from.1);
    let (reader, mut writer) = stream.split();
    let mut reader = BufReader::new(reader);
    let spoken = timeout(shared.config.silence_max, read_preface(&mut reader)).await?;
    if !spoken? {
        return Err(io::Error::other(
            "it begins neither as HTTP/2 does nor as bulk connections do",
        ));
    }
    writer.write_all(&BULK_PREFACE).await?;
    let mut phase = shared.phase.clone();
    let mut lender = None;
    loop {
        let next = tokio::select! {
            biased;
            () = phase.reached(Phase::Draining) => return Ok(()),
            next = next_call(shared, &mut reader, from) => next,
        };
        let call = match next {
            Ok(Next::Call(call)) => call,
            Ok(Next::Near) => {
                lender = offer(shared, &mut reader, &mut writer, is_near).await?;
                continue;
            }
            Ok(Next::Gone) => return Ok(()),
            Err(NoCall::Broken(error)) => return Err(error),
            Err(NoCall::Refused(status)) => {
                let end = encode_bulk_end(Err(status.clone()));
                write(&mut writer, BulkFrame::End, end.into()).await?;
                return Err(io::Error::other(status));
            }
        };
        let messages = answer(shared, call);
        // A client has nothing to say before its call is over: it leaves.
        tokio::select! {
            biased;
            written = write_all(&mut writer, messages, (lender.as_mut(), shared.config.unread_max)) => {
                written?
            }
            _ = reader.fill_buf() => return Ok(()),
        }
    }
}

/// How a silent client is asked whether it is alive.
const fn keepalive(config: &ServerConfig) -> Keepalive {
    Keepalive { interval: config.keepalive_interval, timeout: config.keepalive_timeout }
}

/// Offers a client on this host memory that both have. What is lent, if the client takes it.
async fn offer(
    shared: &Shared,
    reader: &mut BufReader<ReadHalf<'_>>,
    writer: &mut WriteHalf<'_>,
    is_near: bool,
) -> io::Result<Option<Lender>> {
    let made = if is_near { Lender::new(&shared.near) } else { None };
    let (lender, near) = made.map_or((None, None), |(lender, near)| (Some(lender), Some(near)));
    write(writer, BulkFrame::Near, encode_bulk_near(near).into()).await?;
    if lender.is_none() {
        return Ok(None);
    }
    let taken = timeout(shared.config.silence_max, is_taken(reader)).await??;
    Ok(lender.filter(|_| taken))
}

/// Whether the client says that it has what was offered.
async fn is_taken(reader: &mut BufReader<ReadHalf<'_>>) -> io::Result<bool> {
    match read_head(reader).await? {
        Some((BulkFrame::Near, 1)) => Ok(reader.read_u8().await? == 1),
        other => Err(io::Error::other(format!("{other:?} came where an offer is answered"))),
    }
}

/// What a client says next.
enum Next {
    Call(Call),
    /// It asks for memory that both have.
    Near,
    Gone,
}

/// Reads what the client says next.
async fn next_call(
    shared: &Shared,
    reader: &mut BufReader<ReadHalf<'_>>,
    (connection, peer): (ConnectionId, SocketAddr),
) -> Result<Next, NoCall> {
    let silence_max = shared.config.silence_max;
    let head = timeout(silence_max, read_head(reader)).await;
    let Some((frame, length)) = head.map_err(io::Error::from)?? else {
        return Ok(Next::Gone);
    };
    if (frame, length) == (BulkFrame::Near, 0) {
        return Ok(Next::Near);
    }
    if frame != BulkFrame::Call {
        let text = format!("a frame of {frame:?} came where a call begins");
        return Err(NoCall::Refused(Status::new(Code::InvalidArgument, text)));
    }
    check_length(length, shared.config.message_bytes_max).map_err(NoCall::Refused)?;
    let mut intake = Intake::new(&shared.config);
    intake.expect(length);
    let bytes = read_call(reader, length, &mut intake).await?;
    let memory = RequestMemory::new(intake.into_share());
    let call = decode_bulk_call(bytes).map_err(NoCall::Refused)?;
    let (path, message, worker) = (call.path, call.message, call.worker);
    // One call at a time: its messages crowd out nobody's.
    let budget = shared.config.budget.clone();
    Ok(Next::Call(Call { path, message, peer, connection, worker, memory, budget }))
}

/// Reads the bytes of a call. They take memory as they arrive.
async fn read_call(
    reader: &mut BufReader<ReadHalf<'_>>,
    length: u64,
    intake: &mut Intake,
) -> Result<Bytes, NoCall> {
    let length = usize::try_from(length).map_err(io::Error::other)?;
    let mut bytes = BytesMut::new();
    while bytes.len() < length {
        let there = bytes.len();
        if bytes.capacity() == there {
            let room = room_for(there, 1, length);
            intake.make_room(room as u64).await.map_err(NoCall::Refused)?;
            bytes.reserve(room.saturating_sub(there));
        }
        let mut rest = (&mut bytes).limit(length.saturating_sub(there));
        let read = intake.more(there as u64, reader.read_buf(&mut rest)).await;
        if read.map_err(NoCall::Refused)?? == 0 {
            let text = format!("the connection ends after {there} of {length} bytes of a call");
            return Err(NoCall::Broken(io::Error::new(io::ErrorKind::UnexpectedEof, text)));
        }
    }
    Ok(bytes.freeze())
}

fn answer(shared: &Arc<Shared>, call: Call) -> MessageStream {
    if shared.is_streaming(&call.path) {
        let path = call.path.clone();
        return messages_of(shared, path, None, std::future::ready(Ok(call)));
    }
    let text = format!("{} is not offered over bulk connections: it is no stream", call.path);
    MessageStream::written(|_| std::future::ready(Err(Status::new(Code::Unimplemented, text))))
}

async fn write_all(
    writer: &mut WriteHalf<'_>,
    mut messages: MessageStream,
    (mut lender, unread_max): (Option<&mut Lender>, Option<Duration>),
) -> io::Result<()> {
    loop {
        match messages.next_pieces().await {
            Ok(Some(message)) => {
                let length = message.len() as u64;
                let written = write_message(writer, message, lender.as_deref_mut());
                match unread_max {
                    None => written.await?,
                    Some(most) => {
                        timeout(most + Duration::from_secs(length / RATE_MIN), written).await??
                    }
                }
            }
            Ok(None) => return write(writer, BulkFrame::End, encode_bulk_end(Ok(())).into()).await,
            Err(status) => {
                return write(writer, BulkFrame::End, encode_bulk_end(Err(status)).into()).await;
            }
        }
    }
}
