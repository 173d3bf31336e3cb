//! Lanes: of one process, what happens at the same time is drawn side by side.

use std::collections::BTreeMap;

/// A lane of a process: a thread, as viewers of traces have it.
#[derive(Clone, Debug)]
struct Lane {
    thread: u32,
    /// Until when something is drawn there, in nanoseconds.
    until: i128,
}

/// The lanes of all processes. Each has some for each other one it has to do with.
#[derive(Clone, Debug, Default)]
pub(super) struct Lanes {
    all: BTreeMap<(u32, u32), Vec<Lane>>,
    threads: BTreeMap<u32, u32>,
}

impl Lanes {
    /// A lane of `process`, towards `peer`, where nothing else is drawn from `start` to `end`. Who asks
    /// later may not want an earlier start.
    pub(super) fn take(&mut self, (process, peer): (u32, u32), start: i128, end: i128) -> u32 {
        let lanes = self.all.entry((process, peer)).or_default();
        // What begins where another ends could be taken for a part of it.
        if let Some(lane) = lanes.iter_mut().find(|lane| lane.until < start) {
            lane.until = end;
            return lane.thread;
        }
        let next = self.threads.entry(process).or_default();
        *next = next.saturating_add(1);
        lanes.push(Lane { thread: *next, until: end });
        *next
    }

    /// All lanes: process, peer, which of these, and the thread.
    pub(super) fn all(&self) -> impl Iterator<Item = (u32, u32, usize, u32)> {
        self.all.iter().flat_map(|((process, peer), lanes)| {
            lanes.iter().enumerate().map(|(at, lane)| (*process, *peer, at, lane.thread))
        })
    }
}
