//! Which worker asks for a split: TensorFlow's request does not say, and each source of each task
//! opens a connection of its own for it, on which nothing else is sent.
//!
//! What is left is where it comes from. A host (the peer's IP address) from which one worker alone
//! sends heartbeats is that worker's; so is a connection on which one worker alone was ever heard.
//! Rondo's own workers name themselves in the call's metadata.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rondo_core::dispatcher::Request;

use crate::transport::{Call, ConnectionId};

/// Connections remembered; above it, the oldest is forgotten, and who asks on it is unknown.
const CONNECTIONS_MAX: usize = 65_536;
/// Hosts remembered; who asks from another one is unknown.
const HOSTS_MAX: usize = 65_536;
/// A worker must have sent so many heartbeats in a row to have its host to itself: after a restart
/// of this server, others on that host may just not have been heard yet.
const HEARTBEATS_IN_A_ROW: u32 = 2;
/// How long another worker of the host must have been silent: several intervals of its heartbeats.
const SILENCE_OF_OTHERS: Duration = Duration::from_secs(180);

/// The workers heard so far.
#[derive(Debug, Default)]
pub(super) struct Askers(Mutex<Heard>);

#[derive(Debug, Default)]
struct Heard {
    connections: BTreeMap<ConnectionId, OnConnection>,
    hosts: BTreeMap<IpAddr, OnHost>,
}

/// Who was heard on a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
enum OnConnection {
    /// One worker, at this address.
    One(Arc<str>),
    /// More than one.
    Several,
}

/// Who was heard from a host.
#[derive(Clone, Debug)]
struct OnHost {
    /// The worker heard last.
    last: Arc<str>,
    /// Its heartbeats since another one was heard.
    in_a_row: u32,
    /// When another one was heard.
    other: Option<Instant>,
}

impl Askers {
    /// Learns from a request who talks from where, and writes into it who asks, if it is one for a
    /// split.
    pub(super) fn identify(&self, call: &Call, now: Instant, request: &mut Request) {
        match request {
            Request::WorkerHeartbeat(heartbeat) => {
                let mut heard = self.heard();
                heard.on_connection(call.connection, &heartbeat.address);
                heard.on_host(call.peer.ip(), &heartbeat.address, now);
            }
            Request::WorkerUpdate { worker_address, .. } => {
                self.heard().on_connection(call.connection, worker_address);
            }
            Request::GetSplit { asker, .. } => {
                *asker = match &call.worker {
                    Some(name) => Some(name.as_str().into()),
                    None => self.heard().asker(call, now),
                };
            }
            _ => {}
        }
    }

    /// Forgets a connection that is closed.
    pub(super) fn forget(&self, connection: ConnectionId) {
        self.heard().connections.remove(&connection);
    }

    fn heard(&self) -> MutexGuard<'_, Heard> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Heard {
    fn on_connection(&mut self, connection: ConnectionId, address: &str) {
        match self.connections.get_mut(&connection) {
            Some(OnConnection::One(known)) if **known == *address => {}
            Some(seen) => *seen = OnConnection::Several,
            None => {
                if self.connections.len() >= CONNECTIONS_MAX {
                    self.connections.pop_first();
                }
                let one = OnConnection::One(address.into());
                self.connections.insert(connection, one);
            }
        }
    }

    fn on_host(&mut self, host: IpAddr, address: &str, now: Instant) {
        let is_room = self.hosts.len() < HOSTS_MAX;
        match self.hosts.get_mut(&host) {
            Some(seen) if *seen.last == *address => {
                seen.in_a_row = seen.in_a_row.saturating_add(1);
            }
            Some(seen) => {
                seen.last = address.into();
                seen.in_a_row = 1;
                seen.other = Some(now);
            }
            None if is_room => {
                let seen = OnHost { last: address.into(), in_a_row: 1, other: None };
                self.hosts.insert(host, seen);
            }
            None => {}
        }
    }

    fn asker(&self, call: &Call, now: Instant) -> Option<Arc<str>> {
        match self.connections.get(&call.connection) {
            Some(OnConnection::One(address)) => Some(address.clone()),
            Some(OnConnection::Several) => None,
            None => {
                let host = self.hosts.get(&call.peer.ip())?;
                host.is_one_workers(now).then(|| host.last.clone())
            }
        }
    }
}

impl OnHost {
    fn is_one_workers(&self, now: Instant) -> bool {
        let alone = |heard: Instant| now.saturating_duration_since(heard) > SILENCE_OF_OTHERS;
        self.in_a_row >= HEARTBEATS_IN_A_ROW && self.other.is_none_or(alone)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transport::RequestMemory;
    use crate::transport::budget::Budget;
    use bytes::Bytes;
    use rondo_core::dispatcher::WorkerHeartbeat;
    use rondo_core::ids::IterationId;

    struct World {
        askers: Askers,
        now: Instant,
    }

    impl World {
        fn new() -> Self {
            Self { askers: Askers::default(), now: Instant::now() }
        }

        fn hear(&self, connection: u64, peer: &str, address: &str) {
            let mut heartbeat = Request::WorkerHeartbeat(WorkerHeartbeat {
                address: address.into(),
                current_tasks: Vec::new(),
                tags: Vec::new(),
                uid: 1,
                transfer_servers: Vec::new(),
            });
            let call = call(connection, peer, None);
            self.askers.identify(&call, self.now, &mut heartbeat);
        }

        fn asker(&self, call: &Call) -> Option<String> {
            let mut split = Request::GetSplit {
                iteration: IterationId::new(1),
                repetition: 0,
                source: 0,
                asker: None,
            };
            self.askers.identify(call, self.now, &mut split);
            match split {
                Request::GetSplit { asker, .. } => asker.map(|asker| asker.to_string()),
                _ => None,
            }
        }

        fn on(&self, connection: u64) -> Option<String> {
            self.asker(&call(connection, "192.0.2.9:1", None))
        }

        fn from(&self, peer: &str) -> Option<String> {
            self.asker(&call(999_999, peer, None))
        }
    }

    fn call(connection: u64, peer: &str, worker: Option<&str>) -> Call {
        Call {
            path: String::new(),
            message: Bytes::new(),
            peer: peer.parse().unwrap(),
            connection: ConnectionId::new(connection),
            worker: worker.map(str::to_owned),
            memory: RequestMemory::default(),
            budget: Budget::new(0, 0),
        }
    }

    #[test]
    fn the_only_worker_of_a_connection_asks_on_it() {
        let world = World::new();
        assert_eq!(world.on(1), None);
        world.hear(1, "10.0.0.1:1", "w:1");
        world.hear(1, "10.0.0.1:1", "w:1");
        world.hear(2, "10.0.0.1:2", "w:2");
        assert_eq!(world.on(1).as_deref(), Some("w:1"));
        assert_eq!(world.on(2).as_deref(), Some("w:2"));
        world.askers.forget(ConnectionId::new(1));
        assert_eq!(world.on(1), None);
    }

    #[test]
    fn an_update_names_its_worker_too() {
        let world = World::new();
        let mut update =
            Request::WorkerUpdate { worker_address: "w:1".into(), progress: Vec::new() };
        let call = call(1, "10.0.0.1:1", None);
        world.askers.identify(&call, world.now, &mut update);
        assert_eq!(world.on(1).as_deref(), Some("w:1"));
    }

    #[test]
    fn of_several_workers_on_a_connection_nobody_knows_who_asks() {
        let world = World::new();
        for address in ["w:1", "w:2", "w:1"] {
            world.hear(1, "10.0.0.1:1", address);
        }
        assert_eq!(world.on(1), None);
        let named = world.asker(&call(1, "10.0.0.1:1", Some("w:2")));
        assert_eq!(named.as_deref(), Some("w:2"), "unless it says so");
    }

    #[test]
    fn the_only_worker_of_a_host_asks_from_there() {
        let world = World::new();
        world.hear(1, "10.0.0.1:7", "w:1");
        assert_eq!(world.from("10.0.0.1:9"), None, "others may be there too");
        world.hear(1, "10.0.0.1:7", "w:1");
        assert_eq!(world.from("10.0.0.1:9").as_deref(), Some("w:1"));
        assert_eq!(world.from("10.0.0.2:9"), None);
        world.hear(2, "[::1]:8", "w:2");
        world.hear(2, "[::1]:8", "w:2");
        assert_eq!(world.from("[::1]:9").as_deref(), Some("w:2"));
    }

    #[test]
    fn of_several_workers_on_a_host_nobody_knows_who_asks() {
        let mut world = World::new();
        for _ in 0..3 {
            world.hear(1, "10.0.0.1:1", "w:1");
            world.hear(2, "10.0.0.1:2", "w:2");
        }
        assert_eq!(world.from("10.0.0.1:3"), None);
        for _ in 0..3 {
            world.hear(1, "10.0.0.1:1", "w:1");
        }
        assert_eq!(world.from("10.0.0.1:3"), None, "the other may be slow");
        world.now = world.now.checked_add(Duration::from_secs(181)).unwrap();
        assert_eq!(world.from("10.0.0.1:3").as_deref(), Some("w:1"), "it is gone");
    }

    #[test]
    fn no_more_is_remembered_than_allowed() {
        let world = World::new();
        for number in 0..=CONNECTIONS_MAX as u64 {
            let host = std::net::Ipv4Addr::from_bits(u32::try_from(number).unwrap());
            world.hear(number, &format!("{host}:1"), "w:1");
        }
        let heard = world.askers.heard();
        assert_eq!(heard.connections.len(), CONNECTIONS_MAX);
        assert_eq!(heard.hosts.len(), HOSTS_MAX);
        drop(heard);
        assert_eq!(world.on(0), None);
    }
}
