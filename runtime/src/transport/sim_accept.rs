//! Accepting on the simulated network, which fails while a simulation says so.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};

use tokio::net::{TcpListener, TcpStream};

/// The system's number for: the connection was broken before it was accepted.
const ECONNABORTED: i32 = 103;

/// Says whether accepting connections fails. All clones say the same.
#[derive(Clone, Debug, Default)]
pub struct Accepting(Arc<State>);

#[derive(Debug, Default)]
struct State {
    /// The system's number for the error; 0 while accepting works.
    error: AtomicI32,
    /// How often accepting has failed with it.
    failures: AtomicU64,
}

impl PartialEq for Accepting {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Accepting {}

impl Accepting {
    /// From now on accepting fails with the error of this number.
    pub fn fail(&self, error: i32) {
        self.0.failures.store(0, Ordering::Relaxed);
        self.0.error.store(error, Ordering::Relaxed);
    }

    /// From now on accepting works. Returns how often it has failed.
    pub fn work(&self) -> u64 {
        self.0.error.store(0, Ordering::Relaxed);
        self.0.failures.swap(0, Ordering::Relaxed)
    }

    /// The number of the error with which accepting fails now, if it does. Counts this failure.
    fn next_error(&self) -> Option<i32> {
        let error = Some(self.0.error.load(Ordering::Relaxed)).filter(|error| *error != 0);
        if error.is_some() {
            self.0.failures.fetch_add(1, Ordering::Relaxed);
        }
        error
    }
}

/// A listener and the connection that waits at it. As on a real system, a connection that could not be
/// accepted waits until it can be, unless it was broken.
pub(super) struct Backlog<'a> {
    listener: &'a TcpListener,
    accepting: Accepting,
    waiting: Option<(TcpStream, SocketAddr)>,
}

impl<'a> Backlog<'a> {
    /// The connections at a listener.
    pub(super) fn new(listener: &'a TcpListener, accepting: &Accepting) -> Self {
        Self { listener, accepting: accepting.clone(), waiting: None }
    }

    /// Accepts the next connection.
    pub(super) async fn accept(&mut self) -> io::Result<(TcpStream, SocketAddr)> {
        let connection = match self.waiting.take() {
            Some(connection) => connection,
            None => self.listener.accept().await?,
        };
        let Some(error) = self.accepting.next_error() else { return Ok(connection) };
        if error != ECONNABORTED {
            self.waiting = Some(connection);
        }
        Err(io::Error::from_raw_os_error(error))
    }
}
