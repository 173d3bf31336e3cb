//! The frame that is coming in.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, IoSliceMut, Read};

use bytes::{Buf, Bytes, BytesMut};

use rondo_proto::convert::exchange::{FRAME_HEAD_BYTES, FrameHead};

use super::bounds::{Bounds, HeaderShare};
use super::{Place, Placer};
use crate::tensor::cuda::CudaMemory;
use crate::tensor::{Region, TensorBuffer};

/// What is read at once where it is not known yet whose it is, in bytes.
const AHEAD_BYTES: usize = 16 << 10;
/// Tensors that are filled by one reading.
const REGIONS_MAX: usize = 64;

/// What has come of the next frame.
pub(super) struct Inbox {
    bounds: Bounds,
    /// The room of the header that comes, if it is long.
    share: Option<HeaderShare>,
    /// Read, and not looked at.
    ahead: BytesMut,
    state: State,
    /// Whether the last reading took all that there was, and nobody has waited for anything since: more
    /// may have come while somebody waited, and nothing tells of it again.
    is_drained: bool,
    /// Whether the other end sends no more, or the connection is broken. The system reports this once, maybe
    /// with the last bytes, so the inbox reads until it finds the end.
    is_end_near: bool,
}

enum State {
    /// In front of a frame.
    Head,
    /// Its lengths are known.
    Header(FrameHead),
    /// Its tensors come.
    Body(Filling),
}

/// Tensors that come.
struct Filling {
    /// Places for which there was no pinned memory yet.
    places: VecDeque<Place>,
    regions: Vec<Region>,
    /// Where they go from there; `None` for those that stay.
    onto: Vec<Option<CudaMemory>>,
    /// The one that comes, and how much of it is there.
    at: usize,
    filled: usize,
}

impl Inbox {
    pub(super) fn new(bounds: impl Into<Bounds>) -> Self {
        Self {
            bounds: bounds.into(),
            share: None,
            ahead: BytesMut::with_capacity(AHEAD_BYTES),
            state: State::Head,
            is_drained: false,
            is_end_near: false,
        }
    }

    /// Bounds the frames that follow.
    pub(super) fn set_bounds(&mut self, bounds: Bounds) {
        self.bounds = bounds;
    }

    /// From now on each reading goes on until the system says that nothing is there, or finds the end.
    pub(super) const fn end_is_near(&mut self) {
        self.is_end_near = true;
    }

    /// So many bytes that stand in front of a frame, once they are there; only between frames.
    pub(super) fn prefix<const N: usize>(
        &mut self,
        from: &mut impl Read,
    ) -> io::Result<Option<[u8; N]>> {
        if !self.look_ahead(from, N)? {
            return Ok(None);
        }
        let mut prefix = [0; N];
        self.ahead.copy_to_slice(&mut prefix);
        Ok(Some(prefix))
    }

    /// Receives the header of the next frame, and where its tensors shall lie. Whether they come behind it
    /// is up to the link.
    pub(super) fn header(
        &mut self,
        from: &mut impl Read,
        placer: Placer<'_>,
    ) -> io::Result<Option<Vec<Place>>> {
        if let State::Head = self.state {
            let Some(head) = self.prefix::<FRAME_HEAD_BYTES>(from)? else { return Ok(None) };
            let head = FrameHead::decode(&head, &self.bounds.limits).map_err(io::Error::other)?;
            self.share = self.bounds.share(head);
            self.state = State::Header(head);
        }
        let State::Header(head) = self.state else { return Ok(None) };
        let (header, body) = (head.header_bytes as usize, head.body_bytes);
        if !self.look_ahead(from, header)? {
            return Ok(None);
        }
        let bytes = Bytes::copy_from_slice(self.ahead.get(..header).unwrap_or_default());
        self.ahead.advance(header);
        self.share = None;
        let places = placer(head, &bytes)?;
        if let Some(fixed) = places.iter().find(|place| !place.is_possible()) {
            return Err(io::Error::other(format!("a tensor cannot be received into {fixed:?}")));
        }
        let wanted = places.iter().fold(0_u64, |sum, place| sum.saturating_add(place.bytes()));
        if body != wanted {
            let text = format!("a body of {body} bytes came for tensors of {wanted}");
            return Err(io::Error::other(text));
        }
        self.state = State::Head;
        Ok(Some(places))
    }

    /// Whether the next bytes belong to tensors.
    pub(super) const fn is_in_body(&self) -> bool {
        matches!(self.state, State::Body(_))
    }

    /// Whether the tensors wait for pinned memory.
    pub(super) fn is_landing(&self) -> bool {
        matches!(&self.state, State::Body(filling) if !filling.places.is_empty())
    }

    /// Others are looked after before the next reading, which then looks for more.
    pub(super) const fn pause(&mut self) {
        self.is_drained = false;
    }

    /// The tensors come behind their header.
    pub(super) fn expect_body(&mut self, places: Vec<Place>) -> io::Result<()> {
        let mut filling = Filling {
            regions: Vec::with_capacity(places.len()),
            onto: Vec::with_capacity(places.len()),
            places: places.into(),
            at: 0,
            filled: 0,
        };
        filling.find_room()?;
        self.state = State::Body(filling);
        Ok(())
    }

    /// Receives the tensors; `None` if not all of them are there.
    pub(super) fn body(&mut self, from: &mut impl Read) -> io::Result<Option<Vec<TensorBuffer>>> {
        loop {
            let State::Body(filling) = &mut self.state else { return Ok(None) };
            if !filling.find_room()? {
                self.pause();
                return Ok(None);
            }
            let taken = filling.take(&self.ahead);
            self.ahead.advance(taken);
            if filling.is_full() {
                let tensors = filling.landed()?;
                self.state = State::Head;
                return Ok(Some(tensors));
            }
            if std::mem::take(&mut self.is_drained) && !self.is_end_near {
                return Ok(None);
            }
            let (room, read) = filling.read(from);
            match read {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(read) => {
                    filling.advance(read);
                    self.is_drained = read < room;
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(None),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Whether so many bytes are there. Memory is taken for twice as many as came, not for as many as were
    /// announced.
    fn look_ahead(&mut self, from: &mut impl Read, length: usize) -> io::Result<bool> {
        while self.ahead.len() < length {
            if std::mem::take(&mut self.is_drained) && !self.is_end_near {
                return Ok(false);
            }
            let there = self.ahead.len();
            let room = length.min(there.saturating_mul(2)).max(AHEAD_BYTES);
            if let Some(share) = &mut self.share {
                share.grow_to(room)?;
            }
            self.ahead.resize(room, 0);
            let read = from.read(self.ahead.get_mut(there..).unwrap_or_default());
            self.ahead.truncate(there.saturating_add(*read.as_ref().unwrap_or(&0)));
            match read {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(read) => self.is_drained = read < room.saturating_sub(there),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }
}

impl From<TensorBuffer> for Place {
    fn from(buffer: TensorBuffer) -> Self {
        match buffer {
            TensorBuffer::Host(region) => Self::Into(region),
            TensorBuffer::Cuda(memory) => Self::Onto(memory),
        }
    }
}

impl Place {
    /// How long the tensor is, in bytes.
    pub(super) const fn bytes(&self) -> u64 {
        match self {
            Self::Into(region) => region.len() as u64,
            Self::Onto(memory) => memory.len() as u64,
            Self::Anywhere(length) => *length as u64,
        }
    }

    const fn is_possible(&self) -> bool {
        match self {
            Self::Into(region) => region.is_writable() || region.is_empty(),
            Self::Onto(memory) => memory.is_writable() || memory.is_empty(),
            Self::Anywhere(_) => true,
        }
    }

    /// The host's memory that it comes into; for a GPU, where it is staged: `None` if there is no room now.
    fn region(&self) -> io::Result<Option<Region>> {
        match self {
            Self::Into(region) => Ok(Some(region.clone())),
            Self::Onto(memory) => {
                let staged = memory.cuda().stage_if_room(memory.device(), memory.len());
                staged.map_err(io::Error::other)
            }
            Self::Anywhere(length) => Ok(Some(Region::allocate(*length))),
        }
    }

    /// The GPU's memory that it goes onto from there.
    fn onto(self) -> Option<CudaMemory> {
        match self {
            Self::Onto(memory) => Some(memory),
            Self::Into(_) | Self::Anywhere(_) => None,
        }
    }
}

impl Filling {
    /// Finds room for the tensors. Whether all have it.
    fn find_room(&mut self) -> io::Result<bool> {
        while let Some(place) = self.places.front() {
            let Some(region) = place.region()? else { return Ok(false) };
            self.regions.push(region);
            self.onto.extend(self.places.pop_front().map(Place::onto));
        }
        // Tensors without bytes are there.
        self.advance(0);
        Ok(true)
    }

    /// The tensors that came. Those for a GPU are on their way there.
    fn landed(&mut self) -> io::Result<Vec<TensorBuffer>> {
        let (regions, onto) = (std::mem::take(&mut self.regions), std::mem::take(&mut self.onto));
        let landed = regions.into_iter().zip(onto).map(|(region, onto)| match onto {
            None => Ok(TensorBuffer::Host(region)),
            Some(memory) => memory.fill(region).map(|()| TensorBuffer::Cuda(memory)),
        });
        landed.collect::<Result<_, _>>().map_err(io::Error::other)
    }

    fn is_full(&self) -> bool {
        self.left() == 0
    }

    /// Bytes that are still to come.
    fn left(&self) -> u64 {
        let regions = self.regions.iter().skip(self.at);
        let all = regions.fold(0_u64, |sum, region| sum.saturating_add(region.len() as u64));
        all.saturating_sub(self.filled as u64)
    }

    /// Takes bytes that were read already. How many.
    fn take(&mut self, ahead: &[u8]) -> usize {
        let mut taken = 0;
        while let Some(region) = self.regions.get(self.at) {
            let rest = ahead.get(taken..).unwrap_or_default();
            let wanted = region.len().saturating_sub(self.filled);
            // SAFETY: nobody else uses memory that a tensor comes into: it is new, or it was handed over by
            // an unsafe call whose caller promised that.
            let written = unsafe { region.write(self.filled, rest.get(..wanted).unwrap_or(rest)) };
            taken = taken.saturating_add(written);
            self.advance(written);
            if written < wanted {
                break;
            }
        }
        taken
    }

    /// Reads into the next tensors: how many bytes there was room for, and how many came.
    fn read(&self, from: &mut impl Read) -> (usize, io::Result<usize>) {
        let mut skipped = self.filled;
        let regions = self.regions.iter().skip(self.at).take(REGIONS_MAX);
        let mut slices: Vec<IoSliceMut<'_>> = regions
            .map(|region| {
                // SAFETY: as in `take`: nobody else uses memory that a tensor comes into.
                let bytes = unsafe { region.bytes_mut() };
                let from = std::mem::take(&mut skipped);
                IoSliceMut::new(bytes.get_mut(from..).unwrap_or_default())
            })
            .collect();
        let room = slices.iter().fold(0_usize, |sum, slice| sum.saturating_add(slice.len()));
        (room, from.read_vectored(&mut slices))
    }

    fn advance(&mut self, read: usize) {
        self.filled = self.filled.saturating_add(read);
        while let Some(region) = self.regions.get(self.at)
            && self.filled >= region.len()
        {
            self.filled -= region.len();
            self.at += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use rondo_proto::convert::exchange::FrameLimits;

    use super::super::bounds::HeaderRoom;
    use super::*;

    const LONG: u32 = 16 << 20;

    /// The head of a frame whose header is as long as that, and the beginning of the header.
    fn announced(header_bytes: u32, came: usize) -> Vec<u8> {
        [&FrameHead { header_bytes, body_bytes: 0 }.encode()[..], &vec![7; came]].concat()
    }

    /// Receives what came so far, after which nothing is there.
    fn receive(inbox: &mut Inbox, bytes: &[u8]) -> io::Result<Option<usize>> {
        struct Now<'a>(&'a [u8]);
        impl Read for Now<'_> {
            fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
                match self.0.read(to)? {
                    0 => Err(ErrorKind::WouldBlock.into()),
                    read => Ok(read),
                }
            }
        }
        let (mut from, mut length) = (Now(bytes), 0);
        let mut placer = |_: FrameHead, header: &Bytes| {
            length = header.len();
            Ok(Vec::new())
        };
        loop {
            let is_over = from.0.is_empty();
            match inbox.header(&mut from, &mut placer)? {
                Some(_) => return Ok(Some(length)),
                None if is_over => return Ok(None),
                None => {}
            }
        }
    }

    #[test]
    fn a_header_has_memory_for_what_came_of_it_and_not_for_what_was_announced() {
        let mut inbox = Inbox::new(FrameLimits::of_scheduler());
        assert_eq!(receive(&mut inbox, &announced(LONG, 2)).unwrap(), None);
        assert!(inbox.ahead.capacity() < 64 << 10, "{}", inbox.ahead.capacity());
        let rest = vec![7; LONG as usize - 2];
        assert_eq!(receive(&mut inbox, &rest).unwrap(), Some(LONG as usize));
    }

    #[test]
    fn long_headers_share_their_room_and_give_it_back() {
        let room = Some(Arc::new(HeaderRoom::new(20 << 20)));
        let bounds = Bounds { limits: FrameLimits::of_scheduler(), long_headers: room };
        let (mut first, mut second) = (Inbox::new(bounds.clone()), Inbox::new(bounds.clone()));
        // A header that is only announced takes little room.
        let silent: Vec<_> = (0..100)
            .map(|_| {
                let mut inbox = Inbox::new(bounds.clone());
                assert_eq!(receive(&mut inbox, &announced(LONG, 2)).unwrap(), None);
                inbox
            })
            .collect();
        drop(silent);
        let nearly = LONG as usize - 2;
        assert_eq!(receive(&mut first, &announced(LONG, nearly)).unwrap(), None);
        let refused = receive(&mut second, &announced(LONG, nearly)).unwrap_err().to_string();
        assert!(refused.contains("no room for "), "{refused}");
        drop(second);
        let mut short = Inbox::new(bounds.clone());
        assert_eq!(receive(&mut short, &announced(64 << 10, 64 << 10)).unwrap(), Some(64 << 10));
        assert_eq!(receive(&mut first, &[7; 2]).unwrap(), Some(LONG as usize));
        let mut third = Inbox::new(bounds.clone());
        assert_eq!(receive(&mut third, &announced(LONG, nearly)).unwrap(), None);
        drop(third);
        assert_eq!(receive(&mut Inbox::new(bounds), &announced(LONG, nearly)).unwrap(), None);
    }
}
