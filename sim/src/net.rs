//! The network: what becomes of each message on its directed link.

use crate::fault::{Fault, Faults};
use crate::mark::{Mark, Tally};
use crate::rng::Stream;
use crate::swarm::NetShape;

/// How many messages a burst of losses takes at most.
const BURST: u64 = 12;
/// How much later an old message may come again, in µs.
const REPLAY_US: u64 = 20_000_000;

/// A directed link.
#[derive(Clone, Copy, Debug, Default)]
struct Link {
    /// How many partitions cut it.
    cuts: u32,
    /// Nothing arrives before this true time, in ns.
    clogged_until_ns: u64,
    /// Messages to be lost one after the other.
    burst: u64,
    /// Messages on it.
    on_it: u32,
    /// What it takes more than the shortest delay, on average, in µs.
    mean_us: u64,
}

/// What becomes of a message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fate {
    /// When it arrives, in ns of true time; `None` when it is lost.
    pub arrives_ns: Option<u64>,
    /// When a copy of it arrives.
    pub copy_ns: Option<u64>,
}

/// All links between some machines.
#[derive(Clone, Debug)]
pub struct Net {
    machines: usize,
    links: Vec<Link>,
    shape: NetShape,
    stream: Stream,
}

impl Net {
    /// A network of this many machines, each link as fast as it happens to be.
    pub fn new(machines: usize, shape: NetShape, faults: &Faults, mut stream: Stream) -> Self {
        let slow = faults.has(Fault::Delay);
        let mean = |stream: &mut Stream| match slow {
            true => stream.exponential(shape.delay_us_mean),
            false => 0,
        };
        let link = |_| Link { mean_us: mean(&mut stream), ..Link::default() };
        let links = (0..machines.saturating_mul(machines)).map(link).collect();
        Self { machines, links, shape, stream }
    }

    #[inline]
    fn link(&mut self, from: u32, to: u32) -> Option<&mut Link> {
        let (from, to) = (from as usize, to as usize);
        self.links.get_mut(from.checked_mul(self.machines)?.checked_add(to)?)
    }

    /// Sends a message; `copies` when the network may send it again.
    pub fn send(
        &mut self,
        now_ns: u64,
        (from, to): (u32, u32),
        copies: bool,
        faults: &Faults,
        tally: &mut Tally,
    ) -> Fate {
        let room = self.shape.link_room;
        let Some(link) = self.link(from, to).copied() else {
            return Fate::default();
        };
        if link.cuts > 0 || self.is_lost(link, (from, to), faults, tally) {
            return Fate::default();
        }
        if faults.has(Fault::QueueOverflow) && link.on_it >= room {
            tally.fault(Fault::QueueOverflow);
            return Fate::default();
        }
        let arrives = self.arrival(now_ns, link, faults, tally);
        if let Some(link) = self.link(from, to) {
            link.on_it = link.on_it.saturating_add(1);
        }
        let copy_ns = match copies {
            true => self.copy(arrives, faults, tally),
            false => None,
        };
        Fate { arrives_ns: Some(arrives), copy_ns }
    }

    /// Its decisions.
    pub const fn stream(&mut self) -> &mut Stream {
        &mut self.stream
    }

    /// A message has left its link.
    #[inline]
    pub fn arrived(&mut self, from: u32, to: u32) {
        if let Some(link) = self.link(from, to) {
            link.on_it = link.on_it.saturating_sub(1);
        }
    }

    fn is_lost(
        &mut self,
        link: Link,
        (from, to): (u32, u32),
        faults: &Faults,
        tally: &mut Tally,
    ) -> bool {
        if self.stream.chance(faults.strength(Fault::Loss) * 3 / 10) {
            tally.fault(Fault::Loss);
            return true;
        }
        let mut burst = link.burst;
        if burst == 0 && self.stream.chance(faults.strength(Fault::LossBurst) / 30) {
            burst = self.stream.between(2, BURST);
        }
        if burst == 0 {
            return false;
        }
        tally.fault(Fault::LossBurst);
        if let Some(link) = self.link(from, to) {
            link.burst = burst.saturating_sub(1);
        }
        true
    }

    fn arrival(&mut self, now_ns: u64, link: Link, faults: &Faults, tally: &mut Tally) -> u64 {
        let mut delay_us = self.shape.delay_us_min;
        if faults.has(Fault::Delay) {
            tally.fault(Fault::Delay);
            delay_us = delay_us.saturating_add(self.stream.exponential(link.mean_us));
        }
        if self.stream.chance(faults.strength(Fault::Reorder) / 5) {
            tally.fault(Fault::Reorder);
            let late = self.shape.delay_us_mean.saturating_mul(4);
            delay_us = delay_us.saturating_add(self.stream.between(1, late.max(1)));
        }
        let at = now_ns.saturating_add(delay_us.saturating_mul(1000));
        at.max(link.clogged_until_ns)
    }

    fn copy(&mut self, arrives_ns: u64, faults: &Faults, tally: &mut Tally) -> Option<u64> {
        let later_us = if self.stream.chance(faults.strength(Fault::Duplicate) / 5) {
            tally.fault(Fault::Duplicate);
            self.stream.between(1, 2000)
        } else if self.stream.chance(faults.strength(Fault::LateReplay) / 10) {
            tally.fault(Fault::LateReplay);
            self.stream.between(10_000, REPLAY_US)
        } else {
            return None;
        };
        Some(arrives_ns.saturating_add(later_us.saturating_mul(1000)))
    }

    /// Cuts the links from those in `from` to those in `to`, or heals one such cut.
    pub fn cut(&mut self, from: &[u32], to: &[u32], cut: bool, tally: &mut Tally) {
        for (from, to) in from.iter().flat_map(|from| to.iter().map(move |to| (*from, *to))) {
            let Some(link) = self.link(from, to).filter(|_| from != to) else {
                continue;
            };
            if cut && link.cuts > 0 {
                tally.mark(Mark::PartitionsOverlapped);
            }
            link.cuts = match cut {
                true => link.cuts.saturating_add(1),
                false => link.cuts.saturating_sub(1),
            };
        }
    }

    /// Whether nothing passes from one machine to another.
    pub fn is_cut(&mut self, from: u32, to: u32) -> bool {
        self.link(from, to).is_none_or(|link| link.cuts > 0)
    }

    /// Lets nothing arrive on a link before a time.
    pub fn clog(&mut self, from: u32, to: u32, until_ns: u64) {
        if let Some(link) = self.link(from, to) {
            link.clogged_until_ns = until_ns;
        }
    }

    /// Heals every link.
    pub fn heal(&mut self) {
        for link in &mut self.links {
            (link.cuts, link.clogged_until_ns, link.burst, link.mean_us) = (0, 0, 0, 0);
        }
    }
}
