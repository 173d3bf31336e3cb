//! Links over sockets: TCP between hosts, Unix sockets on one.

use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::path::PathBuf;

use mio::event::Source;
use mio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use rondo_proto::convert::exchange::FrameLimits;
use socket2::{SockRef, TcpKeepalive};

use super::names::{Names, SystemNames};
use super::stream::{Stream, StreamLink};
use super::{Link, Listener, Transport};
use crate::exchange::of_process::OfProcess;
use crate::transport::exposure;

/// How long a peer may be silent before the system asks whether it is alive.
const KEEPALIVE: std::time::Duration = std::time::Duration::from_secs(5);

/// TCP.
#[derive(Clone, Copy, Debug)]
pub struct Tcp {
    /// What is taken from other processes at once.
    pub limits: FrameLimits,
    /// Whether it listens where other machines can reach it: there is no TLS.
    pub insecure: bool,
}

struct TcpDoor {
    listener: TcpListener,
    transport: Tcp,
    address: String,
}

impl Tcp {
    fn link(self, stream: TcpStream, peer: &str) -> io::Result<Box<dyn Link>> {
        stream.set_nodelay(true)?;
        let keepalive = TcpKeepalive::new().with_time(KEEPALIVE).with_interval(KEEPALIVE);
        SockRef::from(&stream).set_tcp_keepalive(&keepalive)?;
        Ok(Box::new(StreamLink::new(stream, self.limits, format!("tcp://{peer}"))))
    }
}

impl Transport for Tcp {
    fn scheme(&self) -> &'static str {
        "tcp"
    }

    fn reaches(&self, _from: &str, _to: &str) -> bool {
        true
    }

    fn listen(&self, host: &str, port: u16) -> io::Result<Box<dyn Listener>> {
        // The address that is checked is the one that is bound.
        let found = SystemNames.look_up(&format!("{host}:{port}"))?;
        exposure::check(found, self.insecure)
            .map_err(|exposed| io::Error::new(ErrorKind::PermissionDenied, exposed))?;
        let listener = TcpListener::bind(found)?;
        let port = listener.local_addr()?.port();
        let address = format!("tcp://{host}:{port}");
        Ok(Box::new(TcpDoor { listener, transport: *self, address }))
    }

    fn name_in<'a>(&self, address: &'a str) -> Option<&'a str> {
        address.parse::<SocketAddr>().is_err().then_some(address)
    }

    fn connect(&self, address: &str) -> io::Result<Box<dyn Link>> {
        let found = address.parse().map_err(|error| {
            io::Error::new(ErrorKind::AddrNotAvailable, format!("{address}: {error}"))
        })?;
        self.link(TcpStream::connect(found)?, address)
    }
}

impl Listener for TcpDoor {
    fn source(&mut self) -> &mut dyn Source {
        &mut self.listener
    }

    fn accept(&mut self) -> io::Result<Option<Box<dyn Link>>> {
        let Some((stream, peer)) = one(self.listener.accept())? else { return Ok(None) };
        self.transport.link(stream, &peer.to_string()).map(Some)
    }

    fn address(&self) -> String {
        self.address.clone()
    }
}

/// Unix sockets.
#[derive(Clone, Debug)]
pub struct Unix {
    /// What is taken from other processes at once.
    pub limits: FrameLimits,
    /// Where the sockets are.
    pub directory: PathBuf,
}

pub(super) struct UnixDoor {
    listener: UnixListener,
    /// Removed with the door.
    path: OfProcess<tempfile::TempPath>,
}

impl UnixDoor {
    /// Listens at a path of its own.
    pub(super) fn open(directory: &std::path::Path) -> io::Result<Self> {
        std::fs::create_dir_all(directory)?;
        let made = tempfile::Builder::new()
            .prefix("exchange-")
            .suffix(".sock")
            .make_in(directory, |path| UnixListener::bind(path))?;
        let (listener, path) = made.into_parts();
        Ok(Self { listener, path: OfProcess::new(path) })
    }

    pub(super) fn path(&self) -> String {
        self.path.display().to_string()
    }

    pub(super) fn source(&mut self) -> &mut UnixListener {
        &mut self.listener
    }

    pub(super) fn accept(&self) -> io::Result<Option<UnixStream>> {
        Ok(one(self.listener.accept())?.map(|(stream, _)| stream))
    }
}

struct UnixListening {
    door: UnixDoor,
    limits: FrameLimits,
}

impl Transport for Unix {
    fn scheme(&self) -> &'static str {
        "unix"
    }

    fn reaches(&self, from: &str, to: &str) -> bool {
        from == to
    }

    fn listen(&self, _host: &str, _port: u16) -> io::Result<Box<dyn Listener>> {
        let door = UnixDoor::open(&self.directory)?;
        Ok(Box::new(UnixListening { door, limits: self.limits }))
    }

    fn connect(&self, address: &str) -> io::Result<Box<dyn Link>> {
        let stream = UnixStream::connect(address)?;
        Ok(Box::new(StreamLink::new(stream, self.limits, format!("unix://{address}"))))
    }
}

impl Listener for UnixListening {
    fn source(&mut self) -> &mut dyn Source {
        self.door.source()
    }

    fn accept(&mut self) -> io::Result<Option<Box<dyn Link>>> {
        let Some(stream) = self.door.accept()? else { return Ok(None) };
        Ok(Some(Box::new(StreamLink::new(stream, self.limits, self.address()))))
    }

    fn address(&self) -> String {
        format!("unix://{}", self.door.path())
    }
}

impl Stream for TcpStream {
    fn is_connected(&self) -> io::Result<bool> {
        if let Some(error) = self.take_error()? {
            return Err(error);
        }
        match self.peer_addr() {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == ErrorKind::NotConnected => Ok(false),
            Err(error) => Err(error),
        }
    }
}

impl Stream for UnixStream {
    fn is_connected(&self) -> io::Result<bool> {
        Ok(true)
    }
}

/// What was accepted; `None` if nobody waits.
fn one<T>(accepted: io::Result<T>) -> io::Result<Option<T>> {
    match accepted {
        Ok(it) => Ok(Some(it)),
        Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(None),
        Err(error) => Err(error),
    }
}
