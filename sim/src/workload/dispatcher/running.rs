//! A task as its worker runs it.

use rondo_core::dispatcher::{ShardingPolicy, TaskDef};
use rondo_core::ids::IterationId;
use rondo_core::time::Time;

use super::record_bytes::READ_BY_SPLIT;

/// Elements of a task that asks for no splits.
const ELEMENTS: u64 = 4;

/// A task under way.
#[derive(Clone, Debug)]
pub(super) struct Running {
    pub(super) iteration: IterationId,
    work: Work,
    /// When it goes on.
    pub(super) next_at: Time,
    /// Whether it waits for a split.
    pub(super) asking: bool,
}

/// What a task does.
#[derive(Clone, Debug)]
enum Work {
    /// It asks for splits.
    Splits(Splits),
    /// It makes so many more elements.
    Elements(u64),
    /// It makes elements for ever (coordinated reads).
    Endless,
    /// It reads the splits that it is asked for.
    Served,
}

#[derive(Clone, Debug)]
struct Splits {
    sources: i64,
    source: i64,
    pass: i64,
    passes: i64,
    /// Sources are read side by side, and a pass is over when the shortest is.
    zipped: bool,
}

/// What a task does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Ask for a split of this source and pass.
    Ask { source: i64, pass: i64 },
    /// Go on later.
    Rest,
    /// It is over.
    End,
}

impl Running {
    /// Begins a task. What its pipeline is like follows from the iteration, so that all workers do
    /// the same.
    pub(super) fn new(task: &TaskDef, now: Time) -> Self {
        let work = match (task.consumers, task.sharding) {
            (None, ShardingPolicy::Dynamic) if task.dataset.as_str() == READ_BY_SPLIT => {
                Work::Served
            }
            (Some(_), _) => Work::Endless,
            (None, ShardingPolicy::Dynamic) => {
                let number = task.iteration.get();
                Work::Splits(Splits {
                    sources: task.split_providers,
                    source: 0,
                    pass: 0,
                    passes: if number % 3 == 0 { 2 } else { 1 },
                    zipped: number % 4 == 0,
                })
            }
            _ => Work::Elements(ELEMENTS),
        };
        Self { iteration: task.iteration, work, next_at: now, asking: false }
    }

    /// Goes on.
    pub(super) fn step(&mut self) -> Step {
        match &mut self.work {
            Work::Endless | Work::Served => Step::Rest,
            Work::Elements(0) => Step::End,
            Work::Elements(left) => {
                *left = left.saturating_sub(1);
                Step::Rest
            }
            Work::Splits(splits) if splits.is_over() => Step::End,
            Work::Splits(splits) => Step::Ask { source: splits.source, pass: splits.pass },
        }
    }

    /// Whether it never needs to go on by itself.
    pub(super) const fn is_endless(&self) -> bool {
        matches!(self.work, Work::Endless | Work::Served)
    }

    /// Whether it reads the splits that it is asked for.
    pub(super) const fn is_served(&self) -> bool {
        matches!(self.work, Work::Served)
    }

    /// Takes a split, or the end of the pass.
    pub(super) fn took(&mut self, split: Option<i64>) {
        if let Work::Splits(splits) = &mut self.work {
            splits.took(split);
        }
    }
}

impl Splits {
    const fn is_over(&self) -> bool {
        self.sources == 0 || self.pass >= self.passes
    }

    fn took(&mut self, split: Option<i64>) {
        let next = self.source.saturating_add(1);
        match (split, self.zipped) {
            (Some(_), false) => {}
            (Some(_), true) => self.source = next.checked_rem(self.sources).unwrap_or(0),
            (None, false) if next < self.sources => self.source = next,
            (None, _) => {
                self.source = 0;
                self.pass = self.pass.saturating_add(1);
            }
        }
    }
}
