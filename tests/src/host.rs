//! Several hosts on one machine: a server sees whoever calls through one of them at its own address.

use std::io;
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::thread;

use socket2::{Domain, Socket, Type};

/// A host at an address of the loopback network, that passes connections on to a server. It lives as
/// long as the test's process.
#[derive(Debug)]
pub struct Host {
    address: String,
}

impl Host {
    /// The host `127.0.0.<number>` before the server at `server` (`host:port`).
    ///
    /// # Panics
    /// When there is no port left, or `server` is no address.
    pub fn start(number: u8, server: &str) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port is free");
        let address = listener.local_addr().expect("it is bound").to_string();
        let server: SocketAddr = server.parse().expect("an address");
        thread::spawn(move || {
            for caller in listener.incoming().flatten() {
                // A server that is not there is the caller's to notice.
                if let Ok(callee) = connect_from(number, server) {
                    pass_on(&caller, &callee);
                }
            }
        });
        Self { address }
    }

    /// Where to call the server through it, `host:port`.
    pub fn address(&self) -> &str {
        &self.address
    }
}

fn connect_from(number: u8, server: SocketAddr) -> io::Result<TcpStream> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
    let own = SocketAddr::from(([127, 0, 0, number], 0));
    socket.bind(&own.into())?;
    socket.connect(&server.into())?;
    socket.set_tcp_nodelay(true)?;
    Ok(socket.into())
}

/// Copies both ways until one side ends; then the other is ended too.
fn pass_on(caller: &TcpStream, callee: &TcpStream) {
    for (from, to) in [(caller, callee), (callee, caller)] {
        let (Ok(mut from), Ok(mut to)) = (from.try_clone(), to.try_clone()) else {
            return;
        };
        thread::spawn(move || {
            let _ = io::copy(&mut from, &mut to);
            let _ = to.shutdown(Shutdown::Both);
            let _ = from.shutdown(Shutdown::Both);
        });
    }
}
