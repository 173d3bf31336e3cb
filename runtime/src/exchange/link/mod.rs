//! Links: how frames get from one process of an exchange to another, and what carries them.
//!
//! A frame is a header of some bytes and a body: the memory of tensors, one after the other. Links take
//! bodies from where they lie, and leave them where whoever receives the frame wants them. What else there
//! is to decide is not theirs.

mod bounds;
mod inbox;
mod landing;
mod named;
pub(super) mod names;
mod outbox;
mod shared;
mod sockets;
mod stream;
#[cfg(test)]
mod tests;

use std::io;
use std::os::fd::RawFd;

use bytes::Bytes;
use mio::event::Source;
use rondo_proto::convert::exchange::FrameHead;

use crate::tensor::cuda::{CudaMemory, Uuid};
use crate::tensor::{Region, TensorBuffer};

pub(super) use bounds::SHORT_HEADER_BYTES;
pub use bounds::{Bounds, HeaderRoom};
pub use named::Sharing;
pub use names::{Names, SystemNames};
pub use shared::SharedMemory;
pub use sockets::{Tcp, Unix};

/// What is sent: whole frames, in their order.
#[derive(Clone, Debug)]
pub struct Frame {
    /// The header as it goes over the link, with the lengths in front of it.
    pub header: Bytes,
    /// The body, tensor after tensor.
    pub body: Vec<TensorBuffer>,
}

/// Where a tensor of a frame shall lie.
#[derive(Clone, Debug)]
pub enum Place {
    /// Here: exactly so long, and writable.
    Into(Region),
    /// Here, on a GPU: exactly so long, and writable.
    Onto(CudaMemory),
    /// Wherever the link has it; so many bytes.
    Anywhere(usize),
}

/// Says where the tensors of a frame shall lie, seen from its header (without the lengths in front of it):
/// one place for each, as long as the body together.
///
/// # Errors
/// A header that means nothing: the link is of no use any more.
pub type Placer<'a> = &'a mut dyn FnMut(FrameHead, &Bytes) -> io::Result<Vec<Place>>;

/// A connection to another process. It never blocks.
pub trait Link: Send {
    /// What becomes readable and writable.
    fn source(&mut self) -> &mut dyn Source;

    /// The file descriptor that becomes readable when something comes, if there is one.
    fn descriptor(&self) -> Option<RawFd> {
        None
    }

    /// Whether it is connected by now.
    ///
    /// # Errors
    /// When it never will be.
    fn is_connected(&mut self) -> io::Result<bool> {
        Ok(true)
    }

    /// Takes on a frame behind the others. Tensors on GPUs go from where they were staged
    /// ([`CudaMemory::staged`]), but for devices that the other end sees.
    fn send(&mut self, frame: Frame);

    /// Sends what it can at the moment. Whether nothing is left.
    ///
    /// # Errors
    /// When the connection is broken.
    fn flush(&mut self) -> io::Result<bool>;

    /// Receives what there is of the next frame; `None` if it is not whole yet.
    ///
    /// # Errors
    /// When the connection is broken or closed, or what comes is no frame.
    fn receive(&mut self, placer: Placer<'_>) -> io::Result<Option<Vec<TensorBuffer>>>;

    /// The other end sends no more, or the connection is broken. The system says so once: from now on
    /// [`Link::receive`] reads until it finds the end.
    fn end_is_near(&mut self) {}

    /// Bounds the frames that follow.
    fn set_bounds(&mut self, _bounds: Bounds) {}

    /// Whether GPUs have still to do something before the frame that is there can be received: then
    /// [`Link::receive`] is called again soon, though nothing becomes readable.
    fn is_landing(&self) -> bool {
        false
    }

    /// Whether the other end takes tensors from the memory of this GPU by itself.
    fn sees(&self, _device: Uuid) -> bool {
        false
    }

    /// Bytes of frames that it has taken on and not sent.
    fn unsent_bytes(&self) -> u64;

    /// What carries it, for people.
    fn describe(&self) -> String;
}

/// Where other processes connect to.
pub trait Listener: Send {
    /// What becomes readable when somebody does.
    fn source(&mut self) -> &mut dyn Source;

    /// The next who has connected; `None` if nobody has.
    ///
    /// # Errors
    /// When the system does not give the connection.
    fn accept(&mut self) -> io::Result<Option<Box<dyn Link>>>;

    /// The address by which others reach it, with the transport's scheme: `tcp://host:port`.
    fn address(&self) -> String;
}

/// A way between processes.
pub trait Transport: Send + Sync {
    /// What its addresses begin with, such as `tcp`.
    fn scheme(&self) -> &'static str;

    /// Whether a process on this host (by its name) can reach others on that one by it.
    fn reaches(&self, from: &str, to: &str) -> bool;

    /// Listens; `host` is the name or address by which others know this machine.
    ///
    /// # Errors
    /// When it cannot.
    fn listen(&self, host: &str, port: u16) -> io::Result<Box<dyn Listener>>;

    /// The `host:port` in an address without its scheme, if its name must be looked up first: then it is
    /// connected to with what was found.
    fn name_in<'a>(&self, _address: &'a str) -> Option<&'a str> {
        None
    }

    /// Connects to an address without its scheme. It may not be connected when this returns: then sending
    /// waits, and fails if it never will be.
    ///
    /// # Errors
    /// When it cannot.
    fn connect(&self, address: &str) -> io::Result<Box<dyn Link>>;
}
