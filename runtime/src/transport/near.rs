//! Messages of bulk connections whose ends are on one host: they go through memory that both have. The
//! server copies them into it; the client hands them on where they lie.

use std::fs::{File, OpenOptions};
use std::io;
use std::net::SocketAddr;

use bytes::{Buf, Bytes};
use rondo_proto::convert::{BulkLent, BulkNear};
use rondo_proto::pieces::Pieces;

use crate::arena::{Allowance, Borrowed, Lent, Progress, Taken};
use crate::tensor::{ALIGNMENT, Region};

/// Memory of one connection, in bytes, of which only that is there which has been used.
const CONNECTION_BYTES: u64 = 64 << 20;
/// The shortest message that goes through it, in bytes.
const SHARED_BYTES_MIN: usize = 32 << 10;
/// What may lie there that the client has not come to, in bytes; one message may in any case.
const AHEAD_BYTES_MAX: u64 = 4 << 20;
/// What is copied before others have their turn, in bytes.
const COPIED_AT_ONCE: usize = 1 << 20;
/// What a client takes at most, in bytes.
const TAKEN_BYTES_MAX: u64 = 1 << 30;

/// Whether both ends of a connection are on one host, as its addresses say.
pub(super) fn is_near(ours: &SocketAddr, theirs: &SocketAddr) -> bool {
    ours.ip() == theirs.ip()
}

/// What a server lends to the client of one connection.
pub(super) struct Lender {
    memory: Lent,
    /// Messages that the client has not given back: where their marks are, and how long they are.
    out: Vec<(u64, u64)>,
    _taken: Taken,
}

impl Lender {
    /// Memory for a connection, and how a client on this host finds it; `None` if there is none for it.
    pub(super) fn new(allowance: &Allowance) -> Option<(Self, BulkNear)> {
        let taken = allowance.take(CONNECTION_BYTES)?;
        let token = u128::from(getrandom::u64().ok()?) << 64 | u128::from(getrandom::u64().ok()?);
        let memory = Lent::new(&name(token), CONNECTION_BYTES).ok()?;
        let file = u32::try_from(memory.file_number()).ok()?;
        let near = BulkNear { process: std::process::id(), file, token };
        Some((Self { memory, out: Vec::new(), _taken: taken }, near))
    }

    /// Copies a message into memory that the client has; the message itself if it is short, if there is no
    /// room, or if the client is behind: then it leaves as others do, when the connection takes it.
    pub(super) async fn lend(&mut self, message: Pieces) -> Result<BulkLent, Pieces> {
        if message.len() < SHARED_BYTES_MIN {
            return Err(message);
        }
        if !self.is_read(message.len() as u64) {
            return Err(message);
        }
        let start = aligned_start(&message);
        let bytes = start.saturating_add(message.len());
        let Some((mark, region)) = self.memory.take(bytes as u64) else { return Err(message) };
        self.memory.mark(mark);
        let length = message.len() as u64;
        self.out.push((mark, length));
        copy(message, &region, start).await;
        Ok(BulkLent { mark, start: mark.saturating_add(start as u64), length })
    }

    /// Takes back what the client is done with. Whether it has come so far that so much more may lie there.
    fn is_read(&mut self, more: u64) -> bool {
        let memory = &mut self.memory;
        let mut unread = 0_u64;
        self.out.retain(|(mark, length)| match memory.progress(*mark) {
            Progress::Done => !memory.give_back(*mark),
            Progress::Read => true,
            Progress::Unread => {
                unread = unread.saturating_add(*length);
                true
            }
        });
        unread == 0 || unread.saturating_add(more) <= AHEAD_BYTES_MAX
    }
}

/// Where a message begins behind its mark, so that what is long in it is aligned.
fn aligned_start(message: &Pieces) -> usize {
    let before = message.before_long() % ALIGNMENT;
    ALIGNMENT.saturating_add(ALIGNMENT.saturating_sub(before) % ALIGNMENT)
}

async fn copy(mut message: Pieces, to: &Region, mut at: usize) {
    let mut turn = 0_usize;
    while message.has_remaining() {
        let chunk = message.chunk();
        let part = chunk.get(..chunk.len().min(COPIED_AT_ONCE)).unwrap_or_default();
        // SAFETY: the server lends the memory to nobody else, and the client reads it only when the server
        // has told it where the message lies.
        let written = unsafe { to.write(at, part) };
        at = at.saturating_add(written);
        turn = turn.saturating_add(written);
        message.advance(written);
        if turn >= COPIED_AT_ONCE {
            turn = 0;
            tokio::task::yield_now().await;
        }
    }
}

fn name(token: u128) -> String {
    format!("rondo-bulk-{token:032x}")
}

/// What the server of one connection lends to a client.
pub(super) struct Borrower(Borrowed);

impl Borrower {
    /// Opens what a server on this host offers.
    ///
    /// # Errors
    /// When it is not there, or is not what it is said to be.
    pub(super) fn open(near: BulkNear) -> io::Result<Self> {
        let BulkNear { process, file, token } = near;
        let path = format!("/proc/{process}/fd/{file}");
        let found = std::fs::read_link(&path)?;
        let wanted = format!("/memfd:{} (deleted)", name(token));
        if found.as_os_str() != wanted.as_str() {
            return Err(io::Error::other(format!("{path} is {}", found.display())));
        }
        let file: File = OpenOptions::new().read(true).write(true).open(&path)?;
        Borrowed::new(file.into(), TAKEN_BYTES_MAX).map(Self)
    }

    /// A message, where it lies.
    ///
    /// # Errors
    /// When it lies elsewhere.
    pub(super) fn message(&self, lent: BulkLent) -> io::Result<Bytes> {
        let BulkLent { mark, start, length } = lent;
        let region = self.0.marked_piece(mark, start, length);
        let region = region.ok_or_else(|| {
            let text = format!("{length} bytes at {start} are not in the memory that was lent");
            io::Error::other(text)
        })?;
        Ok(Bytes::from_owner(Message(region)))
    }
}

/// A message in memory that the server has too.
struct Message(Region);

impl AsRef<[u8]> for Message {
    fn as_ref(&self) -> &[u8] {
        // SAFETY: the server does not write it before its mark says that it is done, which is when this is
        // dropped.
        unsafe { self.0.bytes() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pieces(lengths: &[usize]) -> Pieces {
        let piece = |length: &usize| {
            Bytes::from((0..*length).map(|at| (at % 251) as u8).collect::<Vec<u8>>())
        };
        lengths.iter().map(piece).collect()
    }

    #[tokio::test]
    async fn a_message_comes_as_it_is_with_what_is_long_in_it_aligned() {
        let (mut lender, near) = Lender::new(&Allowance::new(1 << 30)).unwrap();
        let borrower = Borrower::open(near).unwrap();
        for lengths in
            [&[40_000][..], &[1, 40_000, 3], &[64, 1 << 20, 5000], &[100; 400], &[10 << 20]]
        {
            let message = pieces(lengths);
            let whole = message.clone().join();
            let before = message.before_long();
            let lent = lender.lend(message).await.expect("there is room");
            let found = borrower.message(lent).unwrap();
            assert!(found == whole, "{lengths:?}");
            assert!(found[before % found.len()..].as_ptr().addr().is_multiple_of(ALIGNMENT));
        }
    }

    #[tokio::test]
    async fn memory_is_used_again_when_nobody_has_the_message_and_what_has_no_room_comes_back() {
        let (mut lender, near) = Lender::new(&Allowance::new(CONNECTION_BYTES)).unwrap();
        let borrower = Borrower::open(near).unwrap();
        let mut kept = Vec::new();
        while let Ok(lent) = lender.lend(pieces(&[7 << 20])).await {
            kept.push(borrower.message(lent).unwrap());
        }
        assert_eq!(kept.len() as u64, CONNECTION_BYTES / (7 << 20));
        drop(kept.pop());
        assert!(lender.lend(pieces(&[7 << 20])).await.is_ok());
        for short in [0, 1, SHARED_BYTES_MIN - 1] {
            assert_eq!(lender.lend(pieces(&[short])).await.unwrap_err().len(), short);
        }
    }

    /// Nearly all of the memory is free here, so that only the client can be the reason.
    #[tokio::test]
    async fn a_client_that_is_behind_gets_no_more_memory_before_it_has_read() {
        const LENGTH: usize = 1 << 20;
        let (mut lender, near) = Lender::new(&Allowance::new(CONNECTION_BYTES)).unwrap();
        let borrower = Borrower::open(near).unwrap();
        let mut unread = std::collections::VecDeque::new();
        while let Ok(lent) = lender.lend(pieces(&[LENGTH])).await {
            unread.push_back(lent);
            assert!(unread.len() < 64, "the client has read nothing");
        }
        assert_eq!(unread.len() as u64, AHEAD_BYTES_MAX / LENGTH as u64);
        // It reads one and keeps it: as much more may lie there, and no more.
        let kept = borrower.message(unread.pop_front().unwrap()).unwrap();
        unread.push_back(lender.lend(pieces(&[LENGTH])).await.unwrap());
        let refused = lender.lend(pieces(&[SHARED_BYTES_MIN])).await.unwrap_err();
        assert_eq!(refused.len(), SHARED_BYTES_MIN, "it leaves by the connection");
        // One that has read everything gets one message of any length.
        let read = unread.drain(..).map(|lent| borrower.message(lent).unwrap());
        drop(read.collect::<Vec<_>>());
        let long = lender.lend(pieces(&[10 << 20])).await.unwrap();
        assert!(lender.lend(pieces(&[SHARED_BYTES_MIN])).await.is_err());
        assert!(borrower.message(long).unwrap() == pieces(&[10 << 20]).join());
        drop(kept);
    }

    #[test]
    fn connections_have_no_more_memory_than_is_allowed() {
        let allowance = Allowance::new(CONNECTION_BYTES * 2 + 5);
        let first = Lender::new(&allowance).unwrap();
        let _second = Lender::new(&allowance).unwrap();
        assert!(Lender::new(&allowance).is_none());
        drop(first);
        assert!(Lender::new(&allowance).is_some());
        assert!(Lender::new(&Allowance::new(0)).is_none());
    }

    #[test]
    fn only_what_was_offered_is_opened_and_only_messages_in_it_are_read() {
        let (lender, near) = Lender::new(&Allowance::new(1 << 30)).unwrap();
        let others = [
            BulkNear { token: near.token ^ 1, ..near },
            BulkNear { file: 0, ..near },
            BulkNear { process: u32::MAX, ..near },
        ];
        for other in others {
            assert!(Borrower::open(other).is_err(), "{other:?}");
        }
        let borrower = Borrower::open(near).unwrap();
        for (mark, start, length) in [(0, 64, CONNECTION_BYTES), (3, 64, 1), (0, u64::MAX, 2)] {
            assert!(borrower.message(BulkLent { mark, start, length }).is_err(), "{mark} {start}");
        }
        drop(lender);
    }
}
