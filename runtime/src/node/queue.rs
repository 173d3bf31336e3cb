//! The calls that wait in one line.

use std::collections::{HashMap, VecDeque};

/// The calls of one connection, in the order in which the node takes them.
pub(super) enum Queue<T> {
    /// One after the other.
    OfClient(VecDeque<T>),
    /// One of each of the relay's clients in turn.
    OfRelay(OfClients<T>),
}

/// The calls of a relay's clients.
pub(super) struct OfClients<T> {
    /// The calls of each client that has any.
    calls: HashMap<u64, VecDeque<T>>,
    /// These clients, each once, in the order of their turns.
    turns: VecDeque<u64>,
    count: usize,
}

impl<T> Queue<T> {
    /// No call waits. `is_of_relay`: several clients share the line.
    pub(super) fn new(is_of_relay: bool) -> Self {
        match is_of_relay {
            false => Self::OfClient(VecDeque::new()),
            true => {
                Self::OfRelay(OfClients { calls: HashMap::new(), turns: VecDeque::new(), count: 0 })
            }
        }
    }

    /// How many calls wait.
    pub(super) fn len(&self) -> usize {
        match self {
            Self::OfClient(calls) => calls.len(),
            Self::OfRelay(of_clients) => of_clients.count,
        }
    }

    /// Whether a client may add a call where `most` may wait. A relay's client may have as many as it leaves
    /// free.
    pub(super) fn has_room(&self, client: u64, most: usize) -> bool {
        match self {
            Self::OfClient(calls) => calls.len() < most,
            Self::OfRelay(of_clients) => {
                let mine = of_clients.calls.get(&client).map_or(0, VecDeque::len);
                mine < most.saturating_sub(of_clients.count)
            }
        }
    }

    /// Adds a call of a client behind that client's others.
    pub(super) fn push(&mut self, client: u64, call: T) {
        match self {
            Self::OfClient(calls) => calls.push_back(call),
            Self::OfRelay(of_clients) => of_clients.push(client, call),
        }
    }

    /// Takes the next call.
    pub(super) fn pop(&mut self) -> Option<T> {
        match self {
            Self::OfClient(calls) => calls.pop_front(),
            Self::OfRelay(of_clients) => of_clients.pop(),
        }
    }
}

impl<T> OfClients<T> {
    fn push(&mut self, client: u64, call: T) {
        let calls = self.calls.entry(client).or_default();
        if calls.is_empty() {
            self.turns.push_back(client);
        }
        calls.push_back(call);
        self.count = self.count.saturating_add(1);
    }

    fn pop(&mut self) -> Option<T> {
        let client = self.turns.pop_front()?;
        let calls = self.calls.get_mut(&client)?;
        let call = calls.pop_front()?;
        self.count = self.count.saturating_sub(1);
        match calls.is_empty() {
            true => drop(self.calls.remove(&client)),
            false => self.turns.push_back(client),
        }
        Some(call)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(queue: &mut Queue<(u64, u32)>) -> Vec<(u64, u32)> {
        std::iter::from_fn(|| queue.pop()).collect()
    }

    #[test]
    fn each_client_of_a_relay_has_its_turn() {
        let mut queue = Queue::new(true);
        for call in 0..3 {
            queue.push(1, (1, call));
        }
        queue.push(2, (2, 0));
        queue.push(3, (3, 0));
        queue.push(3, (3, 1));
        assert_eq!(queue.len(), 6);
        assert_eq!(taken(&mut queue), [(1, 0), (2, 0), (3, 0), (1, 1), (3, 1), (1, 2)]);
        assert_eq!(queue.len(), 0);
        queue.push(2, (2, 1));
        assert_eq!((queue.len(), taken(&mut queue)), (1, vec![(2, 1)]));
    }

    #[test]
    fn a_client_of_a_relay_leaves_room_for_others() {
        let mut queue = Queue::new(true);
        let mut taken = |client: u64| {
            let mut count = 0;
            while queue.has_room(client, 100) {
                queue.push(client, (client, count));
                count += 1;
            }
            count
        };
        assert_eq!([1, 2, 3, 1].map(&mut taken), [50, 25, 13, 0]);
    }

    #[test]
    fn calls_of_a_connection_are_taken_in_order() {
        let mut queue = Queue::new(false);
        for call in 0..4 {
            queue.push(u64::from(call) % 2, (0, call));
        }
        assert_eq!(queue.len(), 4);
        assert!(queue.has_room(0, 5) && !queue.has_room(0, 4));
        assert_eq!(taken(&mut queue), [(0, 0), (0, 1), (0, 2), (0, 3)]);
    }
}
