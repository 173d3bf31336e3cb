//! The keys of one step: what was sent and not received, and who waits for what was not sent.

use alloc::collections::BTreeMap;
use alloc::collections::btree_map::Entry;

use super::key::Key;
use super::line::{Line, Taken};
use super::types::{Args, Value};
use crate::ids::{CallId, RequestId};

/// A tensor that nobody has received.
#[derive(Clone, Debug)]
pub(super) struct Sent<T> {
    pub(super) args: Args,
    pub(super) value: Value<T>,
    /// Its sender, if that waits for room: then it is not counted among those that are held.
    pub(super) sender: Option<CallId>,
}

/// Somebody who waits for a tensor.
#[derive(Clone, Debug)]
pub(super) struct Waiter {
    pub(super) call: CallId,
    pub(super) args: Args,
    /// The request, if what answers it is kept.
    pub(super) kept: Option<RequestId>,
}

/// What is there under one key: tensors or receivers, never both.
#[derive(Clone, Debug)]
pub(super) enum Queue<T> {
    Sent(Line<Sent<T>>),
    Waiting(Line<Waiter>),
}

/// The queues of one step; none is empty.
#[derive(Clone, Debug)]
pub(super) struct Table<T> {
    pub(super) queues: BTreeMap<Key, Queue<T>>,
}

impl<T> Default for Table<T> {
    fn default() -> Self {
        Self { queues: BTreeMap::new() }
    }
}

impl<T> Table<T> {
    /// The receiver that has waited longest, who is taken out. None waits if there is none.
    pub(super) fn receiver(&mut self, key: &Key) -> Option<Waiter> {
        let Some(Queue::Waiting(line)) = self.queues.get_mut(key) else {
            return None;
        };
        if let Taken::Entry(_, waiter) = line.pop() {
            return Some(waiter);
        }
        match self.queues.remove(key) {
            Some(Queue::Waiting(line)) => Some(line.into_only().1),
            _ => None,
        }
    }

    /// The tensor that was sent first, which is taken out, with its number.
    pub(super) fn tensor(&mut self, key: &Key) -> Option<(u64, Sent<T>)> {
        let Some(Queue::Sent(line)) = self.queues.get_mut(key) else {
            return None;
        };
        if let Taken::Entry(number, sent) = line.pop() {
            return Some((number, sent));
        }
        match self.queues.remove(key) {
            Some(Queue::Sent(line)) => Some(line.into_only()),
            _ => None,
        }
    }

    /// Adds a tensor for which nobody waits.
    pub(super) fn hold(&mut self, key: Key, number: u64, sent: Sent<T>) {
        match self.queues.entry(key) {
            Entry::Vacant(place) => {
                place.insert(Queue::Sent(Line::new(number, sent)));
            }
            Entry::Occupied(mut place) => match place.get_mut() {
                Queue::Sent(line) => line.push(number, sent),
                Queue::Waiting(_) => debug_assert!(false, "receivers are served first"),
            },
        }
    }

    /// Adds a receiver for whom there is nothing.
    pub(super) fn wait(&mut self, key: Key, number: u64, waiter: Waiter) {
        match self.queues.entry(key) {
            Entry::Vacant(place) => {
                place.insert(Queue::Waiting(Line::new(number, waiter)));
            }
            Entry::Occupied(mut place) => match place.get_mut() {
                Queue::Waiting(line) => line.push(number, waiter),
                Queue::Sent(_) => debug_assert!(false, "tensors are taken first"),
            },
        }
    }

    /// A tensor that waits for room.
    pub(super) fn sent_mut(&mut self, key: &Key, number: u64) -> Option<&mut Sent<T>> {
        match self.queues.get_mut(key) {
            Some(Queue::Sent(line)) => line.get_mut(number),
            _ => None,
        }
    }

    /// A receiver.
    pub(super) fn waiter_mut(&mut self, key: &Key, number: u64) -> Option<&mut Waiter> {
        match self.queues.get_mut(key) {
            Some(Queue::Waiting(line)) => line.get_mut(number),
            _ => None,
        }
    }

    /// Takes out what has this number, a tensor or a receiver.
    pub(super) fn remove(&mut self, key: &Key, number: u64) {
        let is_only = match self.queues.get_mut(key) {
            Some(Queue::Sent(line)) => matches!(line.remove(number), Taken::Only),
            Some(Queue::Waiting(line)) => matches!(line.remove(number), Taken::Only),
            None => false,
        };
        if is_only {
            self.queues.remove(key);
        }
    }

    /// Takes anything out.
    pub(super) fn pop(&mut self) -> Option<Popped<T>> {
        let mut first = self.queues.first_entry()?;
        match first.get_mut() {
            Queue::Sent(line) => {
                if let Taken::Entry(number, sent) = line.pop() {
                    return Some(Popped::Sent(number, sent));
                }
            }
            Queue::Waiting(line) => {
                if let Taken::Entry(_, waiter) = line.pop() {
                    return Some(Popped::Waiter(waiter));
                }
            }
        }
        Some(match first.remove() {
            Queue::Sent(line) => {
                let (number, sent) = line.into_only();
                Popped::Sent(number, sent)
            }
            Queue::Waiting(line) => Popped::Waiter(line.into_only().1),
        })
    }
}

/// What was taken out.
pub(super) enum Popped<T> {
    Sent(u64, Sent<T>),
    Waiter(Waiter),
}
