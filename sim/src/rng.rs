//! Every choice of a run comes from a named stream of decisions.
//!
//! A stream is fed by the seed, or by a tape: the list of decisions of an earlier run. In both, 0
//! is the calm choice (no fault, the shortest delay, nothing to do), so a tape is shortened by
//! putting zeros in it, and what it lacks is calm. A tape holds decisions, not random bits, so it
//! stays what it is when the generator changes.

use std::collections::BTreeMap;
use std::fmt;

use crate::swarm::Swarm;

/// A stream's name: what it decides, and for which machine, link or fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct StreamName {
    /// What it decides.
    pub of: &'static str,
    /// For which one.
    pub number: u32,
}

impl fmt::Display for StreamName {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}.{}", self.of, self.number)
    }
}

/// Where the streams of a run come from.
#[derive(Clone, Debug)]
pub enum Source {
    /// A seed.
    Seed {
        /// The seed.
        seed: u64,
        /// Whether every decision is kept for a tape.
        keep: bool,
    },
    /// The decisions of an earlier run.
    Tape(Tape),
}

impl Source {
    /// Streams from a seed that keep nothing.
    pub const fn seed(seed: u64) -> Self {
        Self::Seed { seed, keep: false }
    }

    /// The first number of the stream of a name.
    pub fn first_of(&self, of: &'static str) -> u64 {
        self.stream(of, 0).below(u64::MAX)
    }

    /// The configuration, where a tape says it.
    pub fn swarm(&self) -> Option<&Swarm> {
        match self {
            Self::Seed { .. } => None,
            Self::Tape(tape) => tape.swarm.as_deref(),
        }
    }

    /// The stream of a name. Each name is to be asked for once in a run.
    pub fn stream(&self, of: &'static str, number: u32) -> Stream {
        let name = StreamName { of, number };
        match self {
            Self::Seed { seed, keep } => {
                Stream { name, state: mix(*seed, name), kept: keep.then(Vec::new), tape: None }
            }
            Self::Tape(tape) => {
                let decisions = tape.streams.get(&(of.to_owned(), number));
                let decisions = decisions.cloned().unwrap_or_default();
                let tape = Some(decisions.into_iter());
                Stream { name, state: 0, kept: Some(Vec::new()), tape }
            }
        }
    }
}

/// Decisions of a run, stream by stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tape {
    /// The configuration, if it does not come from decisions.
    pub swarm: Option<Box<Swarm>>,
    /// By the stream's name.
    pub streams: BTreeMap<(String, u32), Vec<u64>>,
}

impl Tape {
    /// The same run, with its configuration said instead of drawn.
    #[must_use]
    pub fn with_swarm(mut self) -> Self {
        let (swarm, _) = Swarm::draw(&Source::Tape(self.clone()));
        let of_swarm = ["swarm", "relays", "elements", "rendezvous", "exchange", "wider", "jobs"];
        for of in of_swarm.into_iter().chain(["apps", "partings"]) {
            self.streams.remove(&(of.to_owned(), 0));
        }
        self.swarm = Some(Box::new(swarm));
        self
    }

    /// Takes what a stream has kept.
    pub fn keep(&mut self, stream: &mut Stream) {
        let Some(kept) = stream.kept.take() else {
            return;
        };
        let used = kept.iter().rposition(|decision| *decision != 0).map_or(0, |last| last + 1);
        if used > 0 {
            let name = (stream.name.of.to_owned(), stream.name.number);
            self.streams.insert(name, kept.into_iter().take(used).collect());
        }
    }

    /// How many decisions are not calm.
    pub fn len(&self) -> usize {
        self.streams.values().flatten().filter(|decision| **decision != 0).count()
    }

    /// Whether all decisions are calm.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// A stream of decisions.
#[derive(Clone, Debug)]
pub struct Stream {
    name: StreamName,
    state: u64,
    kept: Option<Vec<u64>>,
    tape: Option<std::vec::IntoIter<u64>>,
}

/// The finaliser of SplitMix64.
const fn finish(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

fn mix(seed: u64, name: StreamName) -> u64 {
    let letters = name.of.bytes().fold(seed, |state, byte| finish(state ^ u64::from(byte)));
    finish(letters ^ finish(u64::from(name.number).wrapping_add(0x9e37_79b9)))
}

impl Stream {
    /// A stream for tests, from a number.
    pub fn of_seed(seed: u64) -> Self {
        Source::seed(seed).stream("test", 0)
    }

    /// Its name.
    pub const fn name(&self) -> StreamName {
        self.name
    }

    #[inline]
    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        finish(self.state)
    }

    /// A number below `bound`, 0 when that is 0.
    #[inline]
    pub fn below(&mut self, bound: u64) -> u64 {
        if let Some(tape) = &mut self.tape {
            let decision = tape.next().unwrap_or(0).min(bound.saturating_sub(1));
            return self.note(decision);
        }
        let wide = u128::from(self.next()) * u128::from(bound);
        self.note(u64::try_from(wide >> 64).unwrap_or(0))
    }

    #[inline]
    fn note(&mut self, decision: u64) -> u64 {
        if let Some(kept) = &mut self.kept {
            kept.push(decision);
        }
        decision
    }

    /// A number from `low` to `high`, both included; `low` is the calm one.
    #[inline]
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        low.saturating_add(self.below(high.saturating_sub(low).saturating_add(1)))
    }

    /// True `per_mille` times of a thousand; false is calm. Decides nothing when it can be neither.
    #[inline]
    pub fn chance(&mut self, per_mille: u32) -> bool {
        if per_mille == 0 {
            return false;
        }
        if let Some(tape) = &mut self.tape {
            let decision = tape.next().unwrap_or(0).min(1);
            return self.note(decision) == 1;
        }
        let low = self.next() >> 32;
        let hit = low.wrapping_mul(1000) >> 32 < u64::from(per_mille);
        self.note(u64::from(hit)) == 1
    }

    /// One of a thing's values; the first is calm.
    pub fn pick<'a, T>(&mut self, of: &'a [T]) -> Option<&'a T> {
        let index = self.below(of.len() as u64);
        usize::try_from(index).ok().and_then(|index| of.get(index))
    }

    /// An index by weight; the calm choice is the first that weighs anything.
    pub fn weighed(&mut self, weights: &[u32]) -> Option<usize> {
        let total = weights.iter().map(|weight| u64::from(*weight)).sum();
        if total == 0 {
            return None;
        }
        let mut left = self.below(total);
        weights.iter().position(|weight| {
            let taken = left < u64::from(*weight);
            left = left.saturating_sub(u64::from(*weight));
            taken
        })
    }

    /// About exponentially distributed with this mean, at most eight times it; 0 is calm.
    #[inline]
    pub fn exponential(&mut self, mean: u64) -> u64 {
        // The sum of geometric halves: exact enough for delays, and free of floats.
        let bits = self.below(1 << 16);
        let halves = u64::from((bits as u16).leading_ones()).min(7);
        let part = bits & 0xff;
        (mean.saturating_mul(halves) / 2).saturating_add(mean.saturating_mul(part) / 512)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn some(stream: &mut Stream) -> Vec<u64> {
        (1..40)
            .map(|n| if n % 3 == 0 { u64::from(stream.chance(300)) } else { stream.below(n) })
            .collect()
    }

    #[test]
    fn a_name_leaves_the_others_alone() {
        let source = Source::seed(7);
        let one = some(&mut source.stream("net", 1));
        assert_eq!(one, some(&mut source.stream("net", 1)));
        assert_ne!(one, some(&mut source.stream("net", 2)));
        assert_ne!(one, some(&mut source.stream("disk", 1)));
        assert_ne!(one, some(&mut Source::seed(8).stream("net", 1)));
    }

    #[test]
    fn a_tape_decides_as_the_seed_did_and_is_calm_behind_its_end() {
        let mut kept = Source::Seed { seed: 3, keep: true }.stream("net", 1);
        let decided = some(&mut kept);
        let mut tape = Tape::default();
        tape.keep(&mut kept);
        let mut again = Source::Tape(tape.clone()).stream("net", 1);
        assert_eq!(some(&mut again), decided);
        assert!(!again.chance(999) && again.below(9) == 0 && again.exponential(9) == 0);
        assert_eq!(some(&mut Source::Tape(tape).stream("net", 2)), [0; 39]);
    }

    #[test]
    fn chances_are_what_they_say() {
        let mut stream = Stream::of_seed(1);
        let hits = (0..100_000).filter(|_| stream.chance(250)).count();
        assert!((24_000..26_000).contains(&hits), "{hits}");
        assert!(!stream.chance(0));
        let mean = (0..100_000).map(|_| stream.exponential(1000)).sum::<u64>() / 100_000;
        assert!((500..1500).contains(&mean), "{mean}");
    }

    #[test]
    fn weights_choose() {
        let mut stream = Stream::of_seed(2);
        let mut counts = [0; 3];
        (0..10_000).for_each(|_| counts[stream.weighed(&[1, 0, 3]).unwrap()] += 1);
        assert!(counts[1] == 0 && counts[2] > 2 * counts[0], "{counts:?}");
        assert_eq!(stream.weighed(&[0, 0]), None);
    }
}
