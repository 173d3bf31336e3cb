//! Calls on their way to the node. Each connection has a line of its own, and the node takes one call of each
//! line in turn: a connection that sends many calls waits for them itself, and others do not.
//!
//! The node takes the addresses of clients in turn. In the turn of an address each of its lines has one turn,
//! until the node has taken 32 calls. So a thousand connections of one address do not keep another one
//! waiting.
//!
//! A relay carries the calls of many clients on one connection: the node takes several calls of it in a turn,
//! one of each client after the other.
//! A line has a bound, since a client may withdraw calls as fast as it makes them.

use std::collections::hash_map::DefaultHasher;
use std::collections::{HashMap, VecDeque};
use std::hash::{Hash, Hasher};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use super::queue::Queue;
use crate::transport::{ConnectionId, network};

/// Calls that the node takes of a relay's line in one turn.
const CALLS_OF_RELAY: usize = 32;
/// Calls that the node takes of an address in one turn: as many as one relay may have.
const CALLS_OF_ADDRESS: usize = CALLS_OF_RELAY;

/// Who waits in a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line {
    connection: ConnectionId,
    address: IpAddr,
    /// Which of a relay's clients it is, as a hash of the name by which the relay calls it. `None` for a
    /// client's own connection.
    of_relay: Option<u64>,
}

impl Line {
    /// The line of a client's connection, from this machine.
    pub const fn of_client(connection: ConnectionId) -> Self {
        Self { connection, address: IpAddr::V4(Ipv4Addr::LOCALHOST), of_relay: None }
    }

    /// The line of a relay's connection, from this machine, for a call of the relay's client of this name.
    pub fn of_relay(connection: ConnectionId, client: &str) -> Self {
        let mut hasher = DefaultHasher::new();
        client.hash(&mut hasher);
        Self { of_relay: Some(hasher.finish()), ..Self::of_client(connection) }
    }

    /// The same of a connection from this address.
    pub fn from_address(self, address: IpAddr) -> Self {
        Self { address: network(address), ..self }
    }
}

/// Why a call is not taken.
#[derive(Debug)]
pub(super) enum NotTaken {
    /// The node has stopped.
    Stopped,
    /// So many calls wait in its line, as many as may.
    Full(usize),
}

/// A way into an inbox. Cheap to clone; the inbox is closed when the last clone is gone.
pub(super) struct Submissions<T>(Arc<Entrance<T>>);

impl<T> Clone for Submissions<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

/// The calls that wait.
pub(super) struct Inbox<T>(Arc<Lines<T>>);

/// An empty inbox with so many places in each line, and the way into it.
pub(super) fn inbox<T>(line_max: usize) -> (Submissions<T>, Inbox<T>) {
    let waiting = Waiting {
        lines: HashMap::new(),
        turns: VecDeque::new(),
        turns_of: HashMap::new(),
        taken: 0,
        of_address: (0, 0),
        line_max,
        is_closed: false,
    };
    let lines = Arc::new(Lines { waiting: Mutex::new(waiting), came: Notify::new() });
    (Submissions(Arc::new(Entrance(Arc::clone(&lines)))), Inbox(lines))
}

struct Entrance<T>(Arc<Lines<T>>);

impl<T> Drop for Entrance<T> {
    fn drop(&mut self) {
        self.0.waiting().is_closed = true;
        self.0.came.notify_one();
    }
}

struct Lines<T> {
    waiting: Mutex<Waiting<T>>,
    came: Notify,
}

struct Waiting<T> {
    lines: HashMap<ConnectionId, Queue<T>>,
    /// The addresses that have lines, each once, in the order of their turns.
    turns: VecDeque<IpAddr>,
    /// The lines of each of these addresses that are not empty, each once, in the order of their turns.
    turns_of: HashMap<IpAddr, VecDeque<Line>>,
    /// Calls that were taken of the first line in its turn.
    taken: usize,
    /// Calls that were taken of the first address in its turn, and lines of it that have theirs yet.
    of_address: (usize, usize),
    line_max: usize,
    is_closed: bool,
}

impl<T> Lines<T> {
    fn waiting(&self) -> MutexGuard<'_, Waiting<T>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> Waiting<T> {
    fn next(&mut self) -> Option<T> {
        let address = *self.turns.front()?;
        let of_address = self.turns_of.get_mut(&address)?;
        let first = *of_address.front()?;
        let line = self.lines.get_mut(&first.connection)?;
        let call = line.pop();
        self.taken = self.taken.saturating_add(1);
        let (calls, lines_left) = &mut self.of_address;
        if *calls == 0 {
            *lines_left = of_address.len();
        }
        *calls = calls.saturating_add(1);
        let most = if first.of_relay.is_some() { CALLS_OF_RELAY } else { 1 };
        let is_empty = line.len() == 0;
        if is_empty {
            self.lines.remove(&first.connection);
        }
        if is_empty || self.taken >= most {
            self.taken = 0;
            *lines_left = lines_left.saturating_sub(1);
            of_address.pop_front();
            if !is_empty {
                of_address.push_back(first);
            }
            if *lines_left == 0 || *calls >= CALLS_OF_ADDRESS {
                self.end_turn(address);
            }
        }
        call
    }

    /// Begins the next address's turn.
    fn end_turn(&mut self, address: IpAddr) {
        self.of_address = (0, 0);
        self.turns.pop_front();
        match self.turns_of.get(&address).is_some_and(|lines| !lines.is_empty()) {
            true => self.turns.push_back(address),
            false => drop(self.turns_of.remove(&address)),
        }
    }

    /// Adds a line behind the others of its address.
    fn add(&mut self, line: Line) {
        let of_address = self.turns_of.entry(line.address).or_default();
        if of_address.is_empty() {
            self.turns.push_back(line.address);
        }
        of_address.push_back(line);
    }
}

impl<T> Submissions<T> {
    /// Adds a call to its connection's line.
    ///
    /// # Errors
    /// [`NotTaken`].
    pub(super) fn send(&self, to: Line, call: T) -> Result<(), NotTaken> {
        let mut waiting = self.0.0.waiting();
        if waiting.is_closed {
            return Err(NotTaken::Stopped);
        }
        let (was_empty, most) = (waiting.turns.is_empty(), waiting.line_max);
        let line = waiting.lines.entry(to.connection);
        let line = line.or_insert_with(|| Queue::new(to.of_relay.is_some()));
        let client = to.of_relay.unwrap_or_default();
        if !line.has_room(client, most) {
            return Err(NotTaken::Full(most));
        }
        line.push(client, call);
        if line.len() == 1 {
            waiting.add(to);
        }
        drop(waiting);
        if was_empty {
            self.0.0.came.notify_one();
        }
        Ok(())
    }
}

impl<T> Inbox<T> {
    /// Waits for calls and takes `most` of them at most, one of each line in turn. How many; 0 when no more
    /// can come.
    pub(super) async fn recv_many(&mut self, calls: &mut Vec<T>, most: usize) -> usize {
        let lines = Arc::clone(&self.0);
        loop {
            // Made before the look, so that a call between the look and the wait is not missed.
            let came = lines.came.notified();
            let taken = self.take(calls, most);
            if taken > 0 || self.0.waiting().is_closed {
                return taken;
            }
            came.await;
        }
    }

    /// Whether calls wait.
    pub(super) fn has_calls(&self) -> bool {
        !self.0.waiting().turns.is_empty()
    }

    /// Takes `most` calls of those that are there, one of each line in turn. How many.
    pub(super) fn take(&mut self, calls: &mut Vec<T>, most: usize) -> usize {
        let mut waiting = self.0.waiting();
        let before = calls.len();
        calls.extend(std::iter::from_fn(|| waiting.next()).take(most));
        calls.len().saturating_sub(before)
    }
}

impl<T> Drop for Inbox<T> {
    fn drop(&mut self) {
        let mut waiting = self.0.waiting();
        waiting.is_closed = true;
        let left = std::mem::take(&mut waiting.lines);
        waiting.turns.clear();
        waiting.turns_of.clear();
        drop(waiting);
        drop(left);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn of(number: u64) -> Line {
        Line::of_client(ConnectionId::new(number))
    }

    #[test]
    fn each_connection_has_its_turn_whatever_others_send() {
        let (submissions, mut inbox) = inbox(10_000);
        for call in 0..1000 {
            submissions.send(of(1), (1, call)).unwrap();
        }
        for call in 0..2 {
            submissions.send(of(2), (2, call)).unwrap();
        }
        submissions.send(of(3), (3, 0)).unwrap();
        let mut calls = Vec::new();
        assert_eq!(inbox.take(&mut calls, 6), 6);
        assert_eq!(calls, [(1, 0), (2, 0), (3, 0), (1, 1), (2, 1), (1, 2)]);
        // A line that was empty begins anew behind the others.
        submissions.send(of(2), (2, 2)).unwrap();
        calls.clear();
        assert_eq!(inbox.take(&mut calls, 3), 3);
        assert_eq!(calls, [(1, 3), (2, 2), (1, 4)]);
        calls.clear();
        assert_eq!(inbox.take(&mut calls, usize::MAX), 1000 - 5);
        assert!(calls.iter().is_sorted());
    }

    #[test]
    fn an_address_with_many_connections_has_a_bound_of_calls_in_its_turn() {
        let (submissions, mut inbox) = inbox(10_000);
        let at = |address: &str, number: u64| of(number).from_address(address.parse().unwrap());
        for call in 0..2 {
            for number in 0..100 {
                // One host has all addresses of its network.
                let host = format!("2001:db8::{number}");
                submissions.send(at(&host, number), ("many", call, number)).unwrap();
            }
        }
        for call in 0..10 {
            submissions.send(at("10.0.0.1", 100), ("one", call, 0)).unwrap();
        }
        let mut calls = Vec::new();
        inbox.take(&mut calls, usize::MAX);
        let of_one = calls.iter().enumerate().filter(|(_, (who, _, _))| *who == "one");
        let places: Vec<_> = of_one.map(|(place, _)| place).collect();
        // 200 calls are six turns and a rest. Then the other one is alone.
        assert_eq!(places, [32, 65, 98, 131, 164, 197, 206, 207, 208, 209]);
        let of_many = calls.iter().filter(|(who, _, _)| *who == "many");
        assert!(of_many.is_sorted_by_key(|(_, call, number)| (*call, *number)));
        assert!(!inbox.has_calls() && inbox.0.waiting().turns_of.is_empty());
    }

    #[test]
    fn each_connection_of_an_address_has_one_turn_in_that_of_the_address() {
        let (submissions, mut inbox) = inbox(10_000);
        let at = |address: &str, number: u64| of(number).from_address(address.parse().unwrap());
        for call in 0..3 {
            for number in 1..=2 {
                submissions.send(at("10.0.0.1", number), (number, call)).unwrap();
            }
            submissions.send(at("10.0.0.2", 3), (3, call)).unwrap();
        }
        let mut calls = Vec::new();
        inbox.take(&mut calls, usize::MAX);
        let expected = [(1, 0), (2, 0), (3, 0), (1, 1), (2, 1), (3, 1), (1, 2), (2, 2), (3, 2)];
        assert_eq!(calls, expected);
    }

    /// It has many clients, and each of them has a part of its turn.
    #[test]
    fn a_relay_has_longer_turns() {
        let (submissions, mut inbox) = inbox(10_000);
        for call in 0..100 {
            submissions.send(Line::of_relay(ConnectionId::new(1), "a"), (1, call)).unwrap();
            submissions.send(of(2), (2, call)).unwrap();
        }
        let mut calls = Vec::new();
        assert_eq!(inbox.take(&mut calls, 2 * CALLS_OF_RELAY + 2), 2 * CALLS_OF_RELAY + 2);
        assert_eq!(calls.iter().filter(|(line, _)| *line == 2).count(), 2);
        assert_eq!(inbox.take(&mut calls, usize::MAX), 200 - 2 * CALLS_OF_RELAY - 2);
        let of_relay: Vec<_> = calls.iter().filter(|(line, _)| *line == 1).collect();
        assert!(of_relay.len() == 100 && of_relay.is_sorted());
    }

    /// A stranger behind a relay does not keep its other clients waiting.
    #[test]
    fn each_client_of_a_relay_has_its_part_of_the_turn() {
        let (submissions, mut inbox) = inbox(10_000);
        let of_client = |name: &str| Line::of_relay(ConnectionId::new(1), name);
        for call in 0..100 {
            submissions.send(of_client("127.0.0.1:1"), ("stranger", call)).unwrap();
        }
        submissions.send(of_client("127.0.0.1:2"), ("neighbour", 0)).unwrap();
        let mut calls = Vec::new();
        inbox.take(&mut calls, 3);
        assert_eq!(calls, [("stranger", 0), ("neighbour", 0), ("stranger", 1)]);
        assert_eq!(inbox.take(&mut calls, usize::MAX), 98);
        assert!(!inbox.has_calls());
    }

    #[test]
    fn a_line_has_a_bound_and_others_do_not_notice() {
        let (submissions, mut inbox) = inbox(3);
        for call in 0..3 {
            submissions.send(of(1), call).unwrap();
        }
        assert!(matches!(submissions.send(of(1), 3), Err(NotTaken::Full(3))));
        submissions.send(of(2), 4).unwrap();
        let mut calls = Vec::new();
        inbox.take(&mut calls, 1);
        submissions.send(of(1), 5).unwrap();
        inbox.take(&mut calls, usize::MAX);
        assert_eq!(calls, [0, 4, 1, 2, 5]);
    }

    #[tokio::test]
    async fn who_waits_for_calls_is_woken_by_the_first_and_by_the_end() {
        let (submissions, mut inbox) = inbox(10_000);
        let receiving = tokio::spawn(async move {
            let mut calls = Vec::new();
            while inbox.recv_many(&mut calls, 10).await > 0 {}
            calls
        });
        for call in 0..3 {
            tokio::task::yield_now().await;
            submissions.clone().send(of(7), call).unwrap();
        }
        drop(submissions);
        assert_eq!(receiving.await.unwrap(), [0, 1, 2]);
    }

    /// What somebody stops waiting for comes to whoever waits next.
    #[tokio::test]
    async fn a_wait_that_is_given_up_loses_no_call() {
        let (submissions, mut inbox) = inbox(10_000);
        let mut calls = Vec::new();
        for call in 0..100 {
            let given_up = tokio::time::timeout(Duration::ZERO, inbox.recv_many(&mut calls, 10));
            assert!(given_up.await.is_err());
            submissions.send(of(call), call).unwrap();
            assert_eq!(inbox.recv_many(&mut calls, 10).await, 1);
        }
        assert_eq!(calls.len(), 100);
    }

    #[test]
    fn a_stopped_node_takes_no_calls_and_keeps_none() {
        let (submissions, inbox) = inbox(10_000);
        let call = Arc::new(());
        submissions.send(of(1), Arc::clone(&call)).unwrap();
        drop(inbox);
        assert_eq!(Arc::strong_count(&call), 1);
        assert!(submissions.send(of(1), call).is_err());
    }
}
