//! Traces as they are collected: of each answer that a worker gets, what it answers and when it passed
//! where.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use super::clock::Offset;
use super::ids::{Handler, InstanceRank};
use super::stamps::Stamps;
use crate::time::Time;

/// Passages of one [`Page`] at most.
pub const PASSAGES_PER_PAGE_MAX: usize = 1 << 10;

/// What an answer is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Leg {
    /// The request's pushes have arrived, or, of a single push, were answered.
    Push = 1,
    /// What the request pulls has come.
    Pull = 2,
}

impl Leg {
    /// The number on the wire.
    pub const fn number(self) -> i32 {
        self as i32
    }

    /// The leg with this number.
    pub const fn of_number(number: i32) -> Option<Self> {
        match number {
            1 => Some(Self::Push),
            2 => Some(Self::Pull),
            _ => None,
        }
    }
}

/// One way of a request to one server and back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Passage {
    /// Counts the passages of this run of the worker, from 1.
    pub number: u64,
    /// The first of the handlers that it completes, as far as this server is concerned.
    pub handler: Handler,
    /// How many these are.
    pub handlers: u64,
    /// What came back.
    pub leg: Leg,
    /// The server.
    pub server: InstanceRank,
    /// Bytes that were pushed, or pulled.
    pub bytes: u64,
    /// When it passed where.
    pub stamps: Stamps,
}

/// Some of what a process knows of its passages.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Page {
    /// When it was asked for it, by its clock.
    pub received: Time,
    /// When it answered.
    pub answered: Time,
    /// The number of the last passage that there is; 0 if there is none.
    pub last: u64,
    /// Passages in the order of their numbers, [`PASSAGES_PER_PAGE_MAX`] at most.
    pub passages: Vec<Passage>,
    /// How far the clocks of others are ahead of its own, as far as is known. Only on a page from the
    /// beginning.
    pub clocks: Vec<(InstanceRank, Offset)>,
}

/// A page, and when it was asked for and came, by the clock of who passed it on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Traces {
    /// When the process was asked.
    pub asked: Time,
    /// When it had answered.
    pub back: Time,
    /// What it said.
    pub page: Page,
}

impl Traces {
    /// How far the process' clock is ahead of that of who passed the page on, and how long the way there
    /// and back took, in nanoseconds; `None` if the stamps contradict each other.
    pub fn clock(&self) -> Option<Offset> {
        let Self { asked, back, page: Page { received, answered, .. } } = self;
        Offset::of_ways([*asked, *received, *answered, *back])
    }
}

/// The passages that a worker keeps: the latest of them.
#[derive(Clone, Debug, Default)]
pub(in crate::exchange) struct Passages {
    kept: VecDeque<Passage>,
    last: u64,
}

impl Passages {
    /// Adds one, whose number is given here, and forgets the oldest beyond `max`.
    pub(in crate::exchange) fn add(&mut self, passage: Passage, max: usize) {
        self.last = self.last.saturating_add(1);
        while self.kept.len() >= max.max(1) {
            self.kept.pop_front();
        }
        self.kept.push_back(Passage { number: self.last, ..passage });
    }

    /// How many are kept.
    pub(in crate::exchange) fn len(&self) -> usize {
        self.kept.len()
    }

    /// The number of the last one.
    pub(in crate::exchange) const fn last(&self) -> u64 {
        self.last
    }

    /// Those after this number, in their order, `max` at most.
    pub(in crate::exchange) fn after(&self, number: u64, max: usize) -> Vec<Passage> {
        let from = self.kept.partition_point(|passage| passage.number <= number);
        self.kept.range(from..).take(max).copied().collect()
    }
}
