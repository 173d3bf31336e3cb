//! The configured list of workers: who may register, and which index each has under static
//! sharding.
//!
//! An entry is `host:port`, or a host whose port is not known beforehand: `host`, `host:%port%` or
//! `host:%port_name%`. The first worker of that host takes the entry over with its full address,
//! and only a worker at that address gets it again.

use alloc::string::String;
use alloc::vec::Vec;

use super::refusal::Refusal;
use super::state::{State, Worker};

/// The list, with the entries that workers have taken over so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct WorkerList {
    entries: Vec<String>,
}

impl WorkerList {
    /// The configured list before any worker has come.
    pub(super) fn new(configured: &[String]) -> Self {
        Self { entries: configured.to_vec() }
    }

    /// The configured list with the entries of the registered workers.
    pub(super) fn with(configured: &[String], state: &State) -> Self {
        Self::of(configured, state.workers().values())
    }

    /// The configured list with the entries of these workers.
    pub(super) fn of<'a>(configured: &[String], workers: impl Iterator<Item = &'a Worker>) -> Self {
        let mut list = Self::new(configured);
        workers.for_each(|worker| list.admit(&worker.address));
        list
    }

    /// Whether a new worker may register.
    pub(super) fn check(&self, address: &str) -> Result<(), Refusal> {
        if self.entries.is_empty() || self.place_for(address).is_some() {
            return Ok(());
        }
        Err(Refusal::WorkerNotConfigured { address: address.into(), configured: self.configured() })
    }

    /// Gives a registered worker its entry. Does nothing if there is none for it, which happens
    /// when the list was changed after the worker had registered.
    pub(super) fn admit(&mut self, address: &str) {
        let place = self.place_for(address).and_then(|place| self.entries.get_mut(place));
        if let Some(entry) = place {
            *entry = address.into();
        }
    }

    /// The number of configured workers.
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether the list has another entry that the worker at an address could have taken: without the
    /// worker, such entries would go to others.
    pub(super) fn has_several_for(configured: &[String], address: &str) -> bool {
        let host = split_port(address).0;
        configured.iter().filter(|entry| free_host(entry) == Some(host)).nth(1).is_some()
    }

    /// A worker's index, if it has one.
    pub(super) fn place_of(&self, address: &str) -> Option<usize> {
        self.entries.iter().position(|entry| entry == address)
    }

    /// A worker's index.
    pub(super) fn index_of(&self, address: &str) -> Result<usize, Refusal> {
        let index = self.place_of(address);
        index.ok_or_else(|| Refusal::WorkerNotListed {
            address: address.into(),
            configured: self.configured(),
        })
    }

    fn place_for(&self, address: &str) -> Option<usize> {
        let host = split_port(address).0;
        let exact = self.entries.iter().position(|entry| entry == address);
        exact.or_else(|| self.entries.iter().position(|entry| free_host(entry) == Some(host)))
    }

    fn configured(&self) -> String {
        self.entries.join(", ")
    }
}

/// The host of an entry whose port is not known yet.
fn free_host(entry: &str) -> Option<&str> {
    let (host, port) = split_port(entry);
    match port {
        None => Some(host),
        Some(port) if port.starts_with('%') => Some(host),
        Some(_) => None,
    }
}

/// Splits `host:port`. What follows the last colon is a port if it looks like one: letters, digits
/// and underscores, or `%port%` or `%port_name%`; else the whole is a host.
fn split_port(address: &str) -> (&str, Option<&str>) {
    let is_word = |text: &str| {
        !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    };
    let is_dynamic = |text: &str| {
        let inner = text.strip_prefix("%port").and_then(|rest| rest.strip_suffix('%'));
        inner.is_some_and(|name| name.is_empty() || name.strip_prefix('_').is_some_and(is_word))
    };
    match address.rsplit_once(':') {
        Some((host, port)) if is_word(port) || is_dynamic(port) => (host, Some(port)),
        _ => (address, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(entries: &[&str]) -> WorkerList {
        let entries: Vec<String> = entries.iter().map(|entry| String::from(*entry)).collect();
        WorkerList::new(&entries)
    }

    #[test]
    fn an_empty_list_admits_anybody_and_gives_nobody_an_index() {
        let mut workers = list(&[]);
        assert_eq!(workers.check("a:1"), Ok(()));
        workers.admit("a:1");
        assert!(matches!(workers.index_of("a:1"), Err(Refusal::WorkerNotListed { .. })));
    }

    #[test]
    fn a_fixed_entry_admits_only_its_address() {
        let workers = list(&["a:1", "b:2"]);
        assert_eq!(workers.check("b:2"), Ok(()));
        assert!(workers.check("b:3").is_err());
        assert_eq!(workers.index_of("b:2"), Ok(1));
    }

    #[test]
    fn a_free_entry_is_bound_by_the_first_worker_of_its_host() {
        for entry in ["h", "h:%port%", "h:%port_grpc%"] {
            let mut workers = list(&["x:9", entry]);
            assert_eq!(workers.check("h:700"), Ok(()), "{entry}");
            workers.admit("h:700");
            assert_eq!(workers.index_of("h:700"), Ok(1));
            assert_eq!(workers.check("h:700"), Ok(()), "a restart at the same port");
            assert!(workers.check("h:701").is_err(), "another port after {entry} was taken");
        }
    }

    #[test]
    fn two_entries_of_one_host_take_two_workers_in_order() {
        let mut workers = list(&["h", "h"]);
        workers.admit("h:5");
        workers.admit("h:4");
        assert_eq!((workers.index_of("h:5"), workers.index_of("h:4")), (Ok(0), Ok(1)));
        assert!(workers.check("h:3").is_err());
    }

    #[test]
    fn ports_are_told_from_hosts() {
        assert_eq!(split_port("[::1]:80"), ("[::1]", Some("80")));
        assert_eq!(split_port("host:grpc"), ("host", Some("grpc")));
        assert_eq!(split_port("/job:worker/task:%bad"), ("/job:worker/task:%bad", None));
    }
}
