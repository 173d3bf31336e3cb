//! Links between processes of one host: what is short goes over a Unix socket, what is long through memory
//! that both have. It is copied into that once, and not at all at the other end if nobody wants it elsewhere.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::path::PathBuf;

use bytes::{BufMut, Bytes, BytesMut};
use mio::event::Source;
use mio::net::UnixStream;
use rondo_proto::convert::exchange::FrameLimits;
use rustix::io::retry_on_intr;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};

use super::inbox::Inbox;
use super::landing::{Landing, Origin};
use super::named::{Devices, Sharing};
use super::outbox::Outbox;
use super::sockets::UnixDoor;
use super::{Bounds, Frame, Link, Listener, Place, Placer, Transport};
use crate::arena::{Allowance, Borrowed, Lent};
use crate::tensor::cuda::{CudaError, Named, Uuid};
use crate::tensor::{Region, TensorBuffer};

/// The shortest body that goes through shared memory, in bytes.
const SHARED_BYTES_MIN: u64 = 32 << 10;
/// What stands in front of a frame: what it is, and a place in the sender's memory.
const PREFIX_BYTES: usize = 9;
/// The body comes behind its header.
const BEHIND: u8 = 0;
/// The body lies at that place.
const SHARED: u8 = 1;
/// No frame: this place is not read any more.
const DONE: u8 = 2;
/// Behind the header come names of memory on GPUs, from which the receiver copies the body.
const NAMED: u8 = 3;

/// Shared memory between processes of one host.
#[derive(Clone, Debug)]
pub struct SharedMemory {
    /// What is taken from other processes at once.
    pub limits: FrameLimits,
    /// Where its sockets are.
    pub directory: PathBuf,
    /// Memory for each direction of each link, in bytes, of which only that is there which has been used.
    pub bytes: u64,
    /// The bytes that all links together may use. A frame that finds none left goes over the socket.
    pub allowance: Allowance,
    /// The GPUs whose memory processes may open that see them.
    pub devices: Sharing,
}

/// A link over a socket and shared memory.
struct SharedLink {
    socket: UnixStream,
    lent: Lent,
    /// Not there before the other end has said what it lends.
    borrowed: Option<Borrowed>,
    bytes_max: u64,
    has_introduced: bool,
    inbox: Inbox,
    outbox: Outbox,
    devices: Devices,
    /// What stands in front of the next frame, once it is there.
    prefix: Option<(u8, u64)>,
    /// Where tensors go whose names come.
    named: Option<Vec<Place>>,
    /// The tensors of a frame on their way, and whether they were named.
    landing: Option<(Landing, bool)>,
    what: String,
}

impl SharedMemory {
    fn link(&self, socket: UnixStream, path: &str) -> io::Result<Box<dyn Link>> {
        let (devices, mut outbox) = (self.devices.begin(), Outbox::default());
        outbox.push_header(devices.ours());
        Ok(Box::new(SharedLink {
            socket,
            lent: Lent::new("rondo-exchange", self.bytes)?.within(&self.allowance),
            borrowed: None,
            bytes_max: self.bytes,
            has_introduced: false,
            inbox: Inbox::new(self.limits),
            outbox,
            devices,
            prefix: None,
            named: None,
            landing: None,
            what: format!("shm://{path}"),
        }))
    }
}

impl Transport for SharedMemory {
    fn scheme(&self) -> &'static str {
        "shm"
    }

    fn reaches(&self, from: &str, to: &str) -> bool {
        from == to
    }

    fn listen(&self, _host: &str, _port: u16) -> io::Result<Box<dyn Listener>> {
        let door = UnixDoor::open(&self.directory)?;
        Ok(Box::new(Listening { door, transport: self.clone() }))
    }

    fn connect(&self, address: &str) -> io::Result<Box<dyn Link>> {
        self.link(UnixStream::connect(address)?, address)
    }
}

struct Listening {
    door: UnixDoor,
    transport: SharedMemory,
}

impl Listener for Listening {
    fn source(&mut self) -> &mut dyn Source {
        self.door.source()
    }

    fn accept(&mut self) -> io::Result<Option<Box<dyn Link>>> {
        let Some(socket) = self.door.accept()? else { return Ok(None) };
        self.transport.link(socket, &self.door.path()).map(Some)
    }

    fn address(&self) -> String {
        format!("shm://{}", self.door.path())
    }
}

fn prefix(what: u8, place: u64) -> Bytes {
    let mut bytes = BytesMut::with_capacity(PREFIX_BYTES);
    bytes.put_u8(what);
    bytes.put_u64_le(place);
    bytes.freeze()
}

impl SharedLink {
    /// Sends the file of what this end lends, with one byte: how many devices it sees, whose names come
    /// next. Whether it has left.
    fn introduce(&mut self) -> io::Result<bool> {
        if self.has_introduced {
            return Ok(true);
        }
        let file = self.lent.file();
        let files = [file.as_fd()];
        let mut room = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut room);
        control.push(SendAncillaryMessage::ScmRights(&files));
        let count = [self.devices.count()];
        let (slices, flags) = ([IoSlice::new(&count)], SendFlags::NOSIGNAL);
        let sent = retry_on_intr(|| sendmsg(&self.socket, &slices, &mut control, flags));
        match sent.map_err(io::Error::from) {
            Ok(_) => {
                self.has_introduced = true;
                Ok(true)
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Receives what the other end lends. Whether it is there.
    fn meet(&mut self) -> io::Result<bool> {
        if self.borrowed.is_some() {
            return Ok(true);
        }
        let mut byte = [0; 1];
        let mut room = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = RecvAncillaryBuffer::new(&mut room);
        let mut slices = [IoSliceMut::new(&mut byte)];
        let flags = RecvFlags::CMSG_CLOEXEC;
        let received = retry_on_intr(|| recvmsg(&self.socket, &mut slices, &mut control, flags));
        let received = match received {
            Ok(received) => received,
            Err(error) if io::Error::from(error).kind() == ErrorKind::WouldBlock => {
                return Ok(false);
            }
            Err(error) => return Err(error.into()),
        };
        if received.bytes == 0 {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        let files = control.drain().filter_map(|message| match message {
            RecvAncillaryMessage::ScmRights(files) => Some(files),
            _ => None,
        });
        let file: Option<OwnedFd> = files.flatten().next();
        let file = file.ok_or_else(|| io::Error::other("the other end lends no memory"))?;
        self.borrowed = Some(Borrowed::new(file, self.bytes_max)?);
        let [count] = byte;
        self.devices.expect(count);
        Ok(true)
    }

    /// Tells the other end which pieces it may use again.
    fn tell_done(&mut self) {
        let done = self.borrowed.as_ref().map(Borrowed::done).unwrap_or_default();
        for place in done {
            self.outbox.push_header(prefix(DONE, place));
        }
    }

    /// Reads what stands in front of the next frame; `None` if it is not there yet.
    fn next_prefix(&mut self) -> io::Result<Option<()>> {
        while self.devices.are_missing() {
            match self.inbox.prefix(&mut self.socket)? {
                Some(uuid) => self.devices.meet(Uuid(uuid)),
                None => return Ok(None),
            }
        }
        while self.prefix.is_none() {
            let prefix = self.inbox.prefix::<PREFIX_BYTES>(&mut self.socket)?;
            let Some([what, place @ ..]) = prefix else { return Ok(None) };
            let place = u64::from_le_bytes(place);
            match what {
                BEHIND | SHARED | NAMED => self.prefix = Some((what, place)),
                DONE if self.lent.give_back(place) => {}
                _ => {
                    let text =
                        format!("{what} at {place} came in front of a frame: it means nothing");
                    return Err(io::Error::other(text));
                }
            }
        }
        Ok(Some(()))
    }

    /// The tensors of a frame that lie in shared memory from a place on, each with where it shall lie.
    fn taken(&self, place: u64, places: Vec<Place>) -> io::Result<VecDeque<(Place, Origin)>> {
        let length = places.iter().fold(0_u64, |sum, place| sum.saturating_add(place.bytes()));
        let whole = self.borrowed.as_ref().and_then(|memory| memory.piece(place, length));
        let whole = whole.ok_or_else(|| {
            io::Error::other(format!(
                "{length} bytes at {place} are not in the memory that was lent"
            ))
        })?;
        let mut offset = 0;
        let mut parts = VecDeque::with_capacity(places.len());
        for place in places {
            let length = usize::try_from(place.bytes()).unwrap_or(usize::MAX);
            let part = whole.part(offset, length).ok_or(ErrorKind::InvalidData)?;
            offset = offset.saturating_add(length);
            parts.push_back((place, Origin::Here(part)));
        }
        Ok(parts)
    }

    /// The tensors of the frame whose header came.
    fn body(&mut self) -> io::Result<Option<Vec<TensorBuffer>>> {
        let Some(tensors) = self.inbox.body(&mut self.socket)? else { return Ok(None) };
        let Some(places) = self.named.take() else { return Ok(Some(tensors)) };
        let named = Devices::landing(places, &tensors)?;
        self.land(Landing::new(named), true)
    }

    /// The tensors of a frame once they are where they shall lie.
    fn land(
        &mut self,
        mut landing: Landing,
        are_named: bool,
    ) -> io::Result<Option<Vec<TensorBuffer>>> {
        match landing.advance(self.devices.cuda()) {
            Ok(None) => {
                self.landing = Some((landing, are_named));
                self.inbox.pause();
                Ok(None)
            }
            Ok(landed) => Ok(landed),
            Err(error) => {
                match are_named {
                    true if lacks_room(&error) => self.devices.pause(),
                    true => self.devices.give_up(),
                    false => {}
                }
                Err(error)
            }
        }
    }
}

/// Whether it is only pinned memory that was missing.
fn lacks_room(error: &io::Error) -> bool {
    let error = error.get_ref().and_then(|error| error.downcast_ref());
    matches!(error, Some(CudaError::NoStaging { .. }))
}

/// Copies tensors one behind the other, from where they lie or were staged.
fn gather(tensors: &[TensorBuffer], to: &Region) -> io::Result<()> {
    let mut offset = 0;
    for tensor in tensors {
        let staged = match tensor {
            TensorBuffer::Host(region) => region.clone(),
            TensorBuffer::Cuda(memory) => memory.staged().map_err(io::Error::other)?,
        };
        // SAFETY: nobody else uses the memory until the other end is told of it, and `staged` is only read.
        offset += unsafe { to.write(offset, staged.bytes()) };
    }
    Ok(())
}

impl Link for SharedLink {
    fn source(&mut self) -> &mut dyn Source {
        &mut self.socket
    }

    fn descriptor(&self) -> Option<RawFd> {
        Some(self.socket.as_raw_fd())
    }

    fn send(&mut self, frame: Frame) {
        if let Some(names) = self.devices.names(&frame.body) {
            self.outbox.push_header(prefix(NAMED, 0));
            self.outbox.push_header(frame.header);
            self.outbox.push_header(names);
            return;
        }
        let length = frame.body.iter().fold(0_u64, |sum, it| sum.saturating_add(it.len() as u64));
        let room = match length {
            SHARED_BYTES_MIN.. => self.lent.take(length),
            _ => None,
        };
        let Some((place, memory)) = room else {
            self.outbox.push_header(prefix(BEHIND, 0));
            self.outbox.push_header(frame.header);
            frame.body.into_iter().for_each(|buffer| self.outbox.push_tensor(buffer));
            return;
        };
        if let Err(error) = gather(&frame.body, &memory) {
            self.outbox.fail(error);
        }
        self.outbox.push_header(prefix(SHARED, place));
        self.outbox.push_header(frame.header);
    }

    fn flush(&mut self) -> io::Result<bool> {
        self.tell_done();
        Ok(self.introduce()? && self.outbox.write_to(&mut self.socket)?)
    }

    fn receive(&mut self, placer: Placer<'_>) -> io::Result<Option<Vec<TensorBuffer>>> {
        if !self.meet()? {
            return Ok(None);
        }
        if let Some((landing, are_named)) = self.landing.take() {
            return self.land(landing, are_named);
        }
        if !self.inbox.is_in_body() {
            if self.next_prefix()?.is_none() {
                return Ok(None);
            }
            let Some(places) = self.inbox.header(&mut self.socket, placer)? else {
                return Ok(None);
            };
            match self.prefix.take() {
                Some((SHARED, place)) => {
                    let taken = self.taken(place, places)?;
                    return self.land(Landing::new(taken), false);
                }
                Some((NAMED, _)) => {
                    let wanted = places.iter().filter(|place| place.bytes() > 0);
                    let names = wanted.map(|_| Place::Anywhere(Named::BYTES)).collect();
                    self.named = Some(places);
                    self.inbox.expect_body(names)?;
                }
                _ => self.inbox.expect_body(places)?,
            }
        }
        self.body()
    }

    fn end_is_near(&mut self) {
        self.inbox.end_is_near();
    }

    fn set_bounds(&mut self, bounds: Bounds) {
        self.inbox.set_bounds(bounds);
    }

    fn is_landing(&self) -> bool {
        self.landing.is_some() || self.inbox.is_landing()
    }

    fn sees(&self, device: Uuid) -> bool {
        self.devices.are_seen(device)
    }

    fn unsent_bytes(&self) -> u64 {
        self.outbox.bytes()
    }

    fn describe(&self) -> String {
        self.what.clone()
    }
}
