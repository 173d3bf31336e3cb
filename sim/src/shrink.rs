//! Finds the fewest decisions that still break the same promise.
//!
//! A run's tape holds every decision, and 0 is the calm one; so decisions are taken back by putting
//! zeros in their places: whole streams first, then runs of decisions, then single ones; what is
//! left is made smaller.

use crate::oracle::Broken;
use crate::rng::{Source, Tape};
use crate::world::{Outcome, RunOptions, run};

/// A tape under work.
#[derive(Debug)]
pub struct Shrinker {
    promise: String,
    best: Tape,
    broken: Broken,
    tries: u64,
    tries_max: u64,
}

/// What was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shrunk {
    /// The decisions.
    pub tape: Tape,
    /// The promise that they break.
    pub broken: Broken,
    /// How many decisions there were.
    pub before: usize,
    /// Runs that it took.
    pub tries: u64,
}

/// Shrinks a failing seed with at most so many runs; `None` when it does not fail.
pub fn shrink(seed: u64, tries_max: u64) -> Option<Shrunk> {
    let outcome = run(&Source::Seed { seed, keep: true }, RunOptions::default());
    let (broken, _) = outcome.broken?;
    let before = outcome.tape.len();
    let promise = broken.promise.clone();
    let mut shrinker = Shrinker { promise, best: outcome.tape, broken, tries: 0, tries_max };
    shrinker.shrink();
    let Shrinker { best, broken, tries, .. } = shrinker;
    Some(Shrunk { tape: best, broken, before, tries })
}

impl Shrinker {
    fn shrink(&mut self) {
        loop {
            let before = self.best.len();
            self.drop_streams();
            self.drop_runs();
            self.lower();
            if self.best.len() >= before || self.tries >= self.tries_max {
                return;
            }
        }
    }

    /// Whether the same promise is broken with these decisions; they are the best so far then.
    fn works(&mut self, tape: Tape) -> bool {
        if self.tries >= self.tries_max {
            return false;
        }
        self.tries += 1;
        let Outcome { broken, tape, .. } = run(&Source::Tape(tape), RunOptions::default());
        match broken {
            Some((broken, _)) if broken.promise == self.promise => {
                self.broken = broken;
                self.best = tape;
                true
            }
            _ => false,
        }
    }

    fn names(&self) -> Vec<(String, u32)> {
        self.best.streams.keys().cloned().collect()
    }

    fn drop_streams(&mut self) {
        for name in self.names() {
            let mut tape = self.best.clone();
            tape.streams.remove(&name);
            self.works(tape);
        }
    }

    fn drop_runs(&mut self) {
        for name in self.names() {
            let mut size = self.len_of(&name).next_power_of_two();
            while size > 0 {
                self.drop_runs_of(&name, size);
                size /= 2;
            }
        }
    }

    fn len_of(&self, name: &(String, u32)) -> usize {
        self.best.streams.get(name).map_or(0, Vec::len)
    }

    fn drop_runs_of(&mut self, name: &(String, u32), size: usize) {
        let mut from = 0;
        while from < self.len_of(name) {
            let mut tape = self.best.clone();
            let decisions = tape.streams.get_mut(name);
            let some = decisions.into_iter().flat_map(|d| d.iter_mut().skip(from).take(size));
            let mut changed = false;
            for decision in some {
                changed |= *decision != 0;
                *decision = 0;
            }
            if changed {
                self.works(tape);
            }
            from += size;
        }
    }

    /// Makes what is left smaller: nodes, clients, spans, delays.
    fn lower(&mut self) {
        for name in self.names() {
            let mut at = 0;
            while at < self.len_of(&name) {
                while self.lower_one(&name, at) {}
                at += 1;
            }
        }
    }

    fn lower_one(&mut self, name: &(String, u32), at: usize) -> bool {
        let mut tape = self.best.clone();
        let decision = tape.streams.get_mut(name).and_then(|decisions| decisions.get_mut(at));
        match decision {
            Some(decision) if *decision > 1 => *decision /= 2,
            _ => return false,
        }
        self.works(tape)
    }
}
