//! Finding out that a peer is gone while nothing is said.

use std::io;
use std::time::Duration;

use socket2::{SockRef, TcpKeepalive};
use tokio::net::TcpStream;

/// Questions without an answer after which the system gives a connection up.
const PROBES: u32 = 4;
/// The shortest time that the system knows here.
const SYSTEM_MIN: Duration = Duration::from_secs(1);

/// How a silent peer is asked whether it is alive. The default is that of clients.
#[derive(Clone, Copy, Debug)]
pub(super) struct Keepalive {
    /// How long it may be silent before it is asked.
    pub(super) interval: Duration,
    /// How long it may take to answer before its connection is given up.
    pub(super) timeout: Duration,
}

impl Default for Keepalive {
    fn default() -> Self {
        Self { interval: Duration::from_secs(20), timeout: Duration::from_secs(20) }
    }
}

impl Keepalive {
    /// Has the system ask the peer of a connection. It does not while something is on its way to the peer:
    /// then it sends that again and again, for as long as it is set to.
    ///
    /// # Errors
    /// When the system takes no such times.
    pub(super) fn set_on(self, stream: &TcpStream) -> io::Result<()> {
        let between = self.timeout.checked_div(PROBES).unwrap_or_default();
        let keepalive = TcpKeepalive::new()
            .with_time(self.interval.max(SYSTEM_MIN))
            .with_interval(between.max(SYSTEM_MIN))
            .with_retries(PROBES);
        SockRef::from(stream).set_tcp_keepalive(&keepalive)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_documentation_has_the_times_of_clients() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/operations.md");
        let page = std::fs::read_to_string(path).unwrap();
        let Keepalive { interval, timeout } = Keepalive::default();
        let row = format!(
            "(after {} s of silence within a call) and that does not answer for {} s |",
            interval.as_secs(),
            timeout.as_secs()
        );
        assert!(page.contains(&row), "{row}");
    }

    #[tokio::test]
    async fn the_system_gives_up_when_the_time_is_over() {
        let door = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let stream = TcpStream::connect(door.local_addr().unwrap()).await.unwrap();
        for (interval, timeout) in [(20, 20), (30, 120), (1, 4)] {
            let [interval, timeout] = [interval, timeout].map(Duration::from_secs);
            Keepalive { interval, timeout }.set_on(&stream).unwrap();
            let socket = SockRef::from(&stream);
            assert!(socket.keepalive().unwrap());
            assert_eq!(socket.tcp_keepalive_time().unwrap(), interval);
            let each = socket.tcp_keepalive_interval().unwrap();
            assert_eq!(each * socket.tcp_keepalive_retries().unwrap(), timeout);
        }
    }
}
