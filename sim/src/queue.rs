//! What is to happen when: time jumps from one event to the next.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Events in order of time, then of being planned.
#[derive(Debug)]
pub(crate) struct Queue<E> {
    heap: BinaryHeap<Reverse<(u64, u64, E)>>,
    planned: u64,
}

impl<E: Ord> Default for Queue<E> {
    fn default() -> Self {
        Self { heap: BinaryHeap::new(), planned: 0 }
    }
}

impl<E: Ord> Queue<E> {
    /// Plans an event at a time in ns.
    #[inline]
    pub(crate) fn plan(&mut self, at_ns: u64, event: E) {
        self.planned = self.planned.wrapping_add(1);
        self.heap.push(Reverse((at_ns, self.planned, event)));
    }

    /// The next one.
    #[inline]
    pub(crate) fn next(&mut self) -> Option<(u64, E)> {
        self.heap.pop().map(|Reverse((at, _, event))| (at, event))
    }
}
