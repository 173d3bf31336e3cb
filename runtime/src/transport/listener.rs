//! A bound TCP port.

use std::io;
use std::net::SocketAddr;

#[cfg(not(madsim))]
use socket2::{Domain, Protocol, Socket, Type};
use tokio::net::TcpListener;

/// Connections the system may hold before they are accepted.
#[cfg(not(madsim))]
const BACKLOG: i32 = 1024;

/// Why a port cannot be listened on.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// Somebody else has it.
    #[error(
        "port {port} on {ip} is in use. `ss -ltnp 'sport = :{port}'` shows by which process; \
         --port or --listen chooses another",
        port = .0.port(), ip = .0.ip()
    )]
    Busy(SocketAddr),
    /// Anything else.
    #[error("cannot listen on {address}: {source}")]
    Other {
        /// The address wanted.
        address: SocketAddr,
        /// What the system said.
        source: io::Error,
    },
}

/// Listens on `address`. A port that a dead process left in TIME_WAIT is taken over at once; one
/// that a living process listens on is not.
///
/// # Errors
/// When the port is busy or the address is not this machine's.
#[cfg(not(madsim))]
pub fn bind(address: SocketAddr) -> Result<TcpListener, BindError> {
    listen(address).map_err(|source| failed(address, source))
}

/// Listens on `address` of the simulated network.
///
/// # Errors
/// When the port is busy or the address is not this machine's.
#[cfg(madsim)]
pub async fn bind(address: SocketAddr) -> Result<TcpListener, BindError> {
    TcpListener::bind(address).await.map_err(|source| failed(address, source))
}

fn failed(address: SocketAddr, source: io::Error) -> BindError {
    match source.kind() {
        io::ErrorKind::AddrInUse => BindError::Busy(address),
        _ => BindError::Other { address, source },
    }
}

#[cfg(not(madsim))]
fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    TcpListener::from_std(socket.into())
}

#[cfg(all(test, not(madsim)))]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_busy_port_is_named() {
        let first = bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let address = first.local_addr().unwrap();
        let error = bind(address).unwrap_err();
        assert!(matches!(error, BindError::Busy(busy) if busy == address));
        assert!(error.to_string().contains(&address.port().to_string()), "{error}");
    }

    #[tokio::test]
    async fn a_port_is_free_again_at_once() {
        let first = bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let address = first.local_addr().unwrap();
        // A connection that the server closes first leaves the port in TIME_WAIT.
        let client = tokio::net::TcpStream::connect(address).await.unwrap();
        drop(first.accept().await.unwrap());
        drop(first);
        drop(client);
        bind(address).unwrap();
    }

    #[tokio::test]
    async fn a_foreign_address_is_an_error_that_names_it() {
        let error = bind("192.0.2.1:1".parse().unwrap()).unwrap_err();
        assert!(error.to_string().contains("192.0.2.1:1"), "{error}");
    }
}
