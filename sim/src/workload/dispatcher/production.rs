//! How a data worker's elements are made, at a pace of the run's own.

use bytes::Bytes;
use rondo_core::ids::TaskId;
use rondo_core::time::Time;
use rondo_core::worker::{From, Then};

use super::element_bytes::encoded;
use crate::swarm::ElementsShape;
use crate::workload::elements::{ElementId, MadeBy};

/// A production of a task's elements.
#[derive(Clone, Debug)]
pub(super) struct Production {
    pub(super) made: MadeBy,
    pub(super) task: TaskId,
    compressed: bool,
    /// What is done, and when that is.
    pub(super) work: Option<(Time, Work)>,
    /// Elements made so far.
    count: u64,
    /// The split that is read, and how far.
    split: Option<(u64, u64)>,
}

/// What a production does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Work {
    /// It opens the dataset.
    Open,
    /// It makes elements, of these, as many bytes as that at most, about.
    Make(From, u64),
}

impl Production {
    pub(super) const fn new(made: MadeBy, task: TaskId, compressed: bool) -> Self {
        Self { made, task, compressed, work: None, count: 0, split: None }
    }

    /// The split that it begins with these elements, if it does.
    pub(super) fn begins(&self, from: From) -> Option<u64> {
        match from {
            From::Split(split) => {
                let split = split.cast_unsigned();
                self.split.is_none_or(|(of, _)| of != split).then_some(split)
            }
            From::Stream | From::Rest => None,
        }
    }

    /// Takes what is done by then.
    pub(super) fn take_due(&mut self, now: Time) -> Option<Work> {
        let (_, work) = self.work.filter(|(at, _)| *at <= now)?;
        self.work = None;
        Some(work)
    }

    /// Makes some elements, at most this many: they with their bytes, and what comes behind them.
    /// `ends_early` says whether an end that is reached is told with the last of them.
    pub(super) fn make(
        &mut self,
        shape: &ElementsShape,
        (from, room_bytes): (From, u64),
        most: u64,
        ends_early: bool,
    ) -> (Vec<(ElementId, Bytes)>, Then) {
        let mut made = Vec::new();
        let mut bytes = 0_u64;
        while (made.len() as u64) < most {
            let Some((split, offset)) = self.next(shape, from) else {
                break;
            };
            let id =
                ElementId { made: self.made, place: self.count, task: self.task, split, offset };
            let Some(element) = encoded(&id, self.compressed) else {
                break;
            };
            bytes = bytes.saturating_add(element.len() as u64);
            if bytes > room_bytes && !made.is_empty() {
                break;
            }
            made.push((id, element));
            self.count = self.count.saturating_add(1);
            self.split = Some((split, offset.saturating_add(1)));
        }
        let is_over = self.next(shape, from).is_none();
        let then = match is_over && (made.is_empty() || ends_early) {
            true => Then::End,
            false => Then::More,
        };
        if then == Then::End {
            self.split = None;
        }
        (made, then)
    }

    /// The split and the place in it of the next element, if there is one.
    fn next(&self, shape: &ElementsShape, from: From) -> Option<(u64, u64)> {
        let is_there = |(split, offset): &(u64, u64)| *offset < shape.elements_of(*split);
        match from {
            From::Rest => None,
            From::Split(split) => {
                let split = split.cast_unsigned();
                let begun = self.split.filter(|(of, _)| *of == split);
                Some(begun.unwrap_or((split, 0))).filter(is_there)
            }
            From::Stream if shape.rounds => Some((0, self.count)),
            From::Stream => {
                let (split, offset) = self.split.unwrap_or_default();
                let later = (split.saturating_add(1)..shape.splits).map(|split| (split, 0));
                std::iter::once((split, offset)).chain(later).find(is_there)
            }
        }
    }
}
