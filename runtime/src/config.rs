//! A server's settings, resolved and checked.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use rondo_core::{coordination, dispatcher};

use crate::rendezvous;
use crate::store::StoreKind;
#[cfg(madsim)]
use crate::transport::Accepting;

/// Everything `rondo serve` needs to know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Where to listen, `host:port`.
    pub listen: Listen,
    /// Whether a listener that other machines can reach may go without TLS.
    pub insecure: bool,
    /// Where the state is kept.
    pub storage: Storage,
    /// The dispatcher's settings.
    pub dispatcher: dispatcher::Config,
    /// The coordination service's settings, those of the default namespace first.
    pub coordination: coordination::Config,
    /// Where the other namespaces listen.
    pub namespace_ports: Vec<NamespacePort>,
    /// The rendezvous that is hosted, if one is.
    pub rendezvous: Option<rendezvous::Settings>,
    /// What `GetVersion` answers.
    pub protocol_version: i64,
    /// What the server takes on at most.
    pub bounds: Bounds,
    /// Whether accepting connections fails.
    #[cfg(madsim)]
    pub accepting: Accepting,
}

/// A namespace's own port, on the host of [`Config::listen`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamespacePort {
    /// The namespace.
    pub name: Arc<str>,
    /// 0 lets the system choose.
    pub port: u16,
}

/// Where to listen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listen {
    /// A name or an IP address, without brackets.
    pub host: String,
    /// 0 lets the system choose.
    pub port: u16,
}

/// Where the state is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Storage {
    /// Nowhere; it goes with the process.
    Memory,
    /// In a directory.
    Directory {
        /// The directory, absolute.
        path: PathBuf,
        /// How the journal is kept in it; `None` for whatever is there, and sled in a new one.
        store: Option<StoreKind>,
        /// Free space below which the journal refuses to grow, in bytes.
        free_space_reserve_bytes: u64,
        /// Size at which a segment of the journal is closed and a snapshot built, in bytes.
        segment_bytes_max: u64,
    },
}

/// What a server takes on at most.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Longest request message, in bytes.
    pub message_bytes_max: u64,
    /// Memory of the process, in bytes; `None` for no bound.
    pub memory_bytes_max: Option<u64>,
    /// Memory for large messages under way, in bytes.
    pub inflight_bytes_max: u64,
    /// Open connections.
    pub connections_max: usize,
    /// Calls under way on one connection.
    pub calls_per_connection_max: u32,
    /// Memory for long messages to clients on the same host, in bytes.
    pub shared_memory_bytes_max: u64,
    /// Listings of the state that wait for their turn.
    pub queue_calls_max: usize,
    /// Calls the node takes in one turn.
    pub batch_calls_max: usize,
    /// How long calls under way may take once shutdown has begun.
    pub shutdown_grace: Duration,
}

impl std::fmt::Display for Listen {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.host.contains(':') {
            write!(out, "[{}]:{}", self.host, self.port)
        } else {
            write!(out, "{}:{}", self.host, self.port)
        }
    }
}

impl std::str::FromStr for Listen {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let bad = || format!("{text:?} is not of the form host:port, such as 127.0.0.1:5050");
        let (host, port) = text.rsplit_once(':').ok_or_else(bad)?;
        let is_number = !port.is_empty() && port.bytes().all(|digit| digit.is_ascii_digit());
        let port = port.parse().map_err(|_| match is_number {
            true => format!("the port of {text:?} is larger than {}, the largest one", u16::MAX),
            false => bad(),
        })?;
        let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        let host = bare.unwrap_or(host);
        if host.is_empty() || (bare.is_none() && host.contains(':')) {
            return Err(bad());
        }
        Ok(Self { host: host.to_owned(), port })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listen_addresses_are_read_and_written_alike() {
        for text in ["127.0.0.1:5050", "localhost:0", "[::1]:65535", "0.0.0.0:1"] {
            assert_eq!(text.parse::<Listen>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn bad_listen_addresses_are_named() {
        for text in ["", "5050", "host", "host:", ":5050", "host:65536", "::1:5050", "host:-1"] {
            let error = text.parse::<Listen>().unwrap_err();
            assert!(error.contains(&format!("{text:?}")), "{error}");
        }
    }
}
