//! Frames as they come in, and tensors as they are written to where they go.

use ::bytes::{Buf, Bytes, BytesMut};
use rondo_core::exchange::message::{ToMember, ToScheduler, ToServer, ToWorker};
use rondo_core::exchange::{Refusal, TensorInfo};
use rondo_core::status::Status;
use rondo_proto::convert::exchange::{
    Body, FRAME_HEAD_BYTES, FrameHead, FrameLimits, decode_to_member, decode_to_scheduler,
    decode_to_server, decode_to_worker, tensors_to_server, tensors_to_worker,
};

use super::links::Purpose;
use crate::letters::End;
use crate::oracle::exchange::Slice;

/// What has come on an end of a connection and is no whole frame yet.
#[derive(Debug, Default)]
pub(super) struct Reader {
    buffer: BytesMut,
    pub(super) coming: Option<Coming>,
}

/// A frame whose header has come.
#[derive(Debug)]
pub(super) struct Coming {
    pub(super) message: Said,
    pub(super) landing: Landing,
    /// Bytes of tensors that have come, and that there are.
    come: u64,
    whole: u64,
}

/// Where the tensors of a frame go.
#[derive(Clone, Debug)]
pub(super) enum Landing {
    At(Vec<Slice>),
    /// Nowhere, for this reason if there is one.
    Nowhere(Option<Refusal>),
}

/// A message whose tensors are not there yet, by whom it is for.
#[derive(Clone, Debug)]
pub(super) enum Said {
    Scheduler(ToScheduler),
    Member(ToMember),
    Server(ToServer<()>),
    Worker(ToWorker<()>),
}

impl Said {
    fn decode(to: End, purpose: Purpose, head: FrameHead, header: &Bytes) -> Result<Self, Status> {
        let limits = FrameLimits::default();
        Ok(match (to, purpose) {
            (End::Server, Purpose::Scheduler(_)) => {
                Self::Scheduler(decode_to_scheduler(head, header)?)
            }
            (End::Client, Purpose::Scheduler(_)) => Self::Member(decode_to_member(head, header)?),
            (End::Server, Purpose::Server(..)) => {
                Self::Server(decode_to_server(head, header, Body::Follows, &limits)?)
            }
            (End::Client, Purpose::Server(..)) => {
                Self::Worker(decode_to_worker(head, header, Body::Follows, &limits)?)
            }
        })
    }

    /// The tensors that follow.
    pub(super) fn tensors(&self) -> Vec<TensorInfo> {
        match self {
            Self::Server(message) => {
                tensors_to_server(message).iter().map(|tensor| tensor.info).collect()
            }
            Self::Worker(message) => {
                tensors_to_worker(message).iter().map(|tensor| tensor.info).collect()
            }
            Self::Scheduler(_) | Self::Member(_) => Vec::new(),
        }
    }
}

impl Coming {
    pub(super) const fn new(message: Said, landing: Landing, whole: u64) -> Self {
        Self { message, landing, come: 0, whole }
    }

    pub(super) const fn is_whole(&self) -> bool {
        self.come >= self.whole
    }
}

/// Bytes that go to a place of a slice.
pub(super) type Piece = (Slice, usize, Bytes);

impl Reader {
    pub(super) fn add(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// The next header, once all of it is there, and how many bytes follow it.
    pub(super) fn header(
        &mut self,
        to: End,
        purpose: Purpose,
    ) -> Option<Result<(Said, u64), Status>> {
        let head: [u8; FRAME_HEAD_BYTES] = self.buffer.get(..FRAME_HEAD_BYTES)?.try_into().ok()?;
        let limits = match purpose {
            Purpose::Scheduler(_) => FrameLimits::of_scheduler(),
            Purpose::Server(..) => FrameLimits::default(),
        };
        let head = match FrameHead::decode(&head, &limits) {
            Ok(head) => head,
            Err(status) => return Some(Err(status)),
        };
        let header_bytes = usize::try_from(head.header_bytes).unwrap_or(usize::MAX);
        if self.buffer.len() < FRAME_HEAD_BYTES.saturating_add(header_bytes) {
            return None;
        }
        self.buffer.advance(FRAME_HEAD_BYTES);
        let header = self.buffer.split_to(header_bytes).freeze();
        Some(Said::decode(to, purpose, head, &header).map(|said| (said, head.body_bytes)))
    }

    /// What has come of the tensors of a frame, by where it goes.
    pub(super) fn body(&mut self) -> Vec<Piece> {
        let Some(coming) = self.coming.as_mut() else {
            return Vec::new();
        };
        let missing = coming.whole.saturating_sub(coming.come);
        let count = usize::try_from(missing).unwrap_or(usize::MAX).min(self.buffer.len());
        let mut bytes = self.buffer.split_to(count).freeze();
        let mut skip = coming.come;
        coming.come = coming.come.saturating_add(count as u64);
        let Landing::At(slices) = &coming.landing else {
            return Vec::new();
        };
        let mut pieces = Vec::new();
        for slice in slices {
            if skip >= slice.bytes {
                skip = skip.saturating_sub(slice.bytes);
                continue;
            }
            let room = usize::try_from(slice.bytes.saturating_sub(skip)).unwrap_or(0);
            let part = bytes.split_to(room.min(bytes.len()));
            if !part.is_empty() {
                pieces.push((*slice, usize::try_from(skip).unwrap_or(0), part));
            }
            skip = 0;
        }
        pieces
    }
}
