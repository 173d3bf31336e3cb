//! Many seeds, on all cores.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::checks::Check;
use crate::mark::Tally;
use crate::oracle::Broken;
use crate::rng::Source;
use crate::swarm::Part;
use crate::tier::Tier;
use crate::workload::kind::Outcomes;
use crate::world::{Outcome, RunOptions};

/// Failing seeds that are kept.
const FAILURES_MAX: usize = 50;

/// What to run.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Batch {
    pub(super) from: u64,
    pub(super) seeds: u64,
    /// Seeds whose runs are of another part are passed over.
    pub(super) only: Option<Part>,
    /// The last seed first.
    pub(super) backwards: bool,
    /// Keep the hash of each trace.
    pub(super) traces: bool,
    pub(super) until: Option<Duration>,
    pub(super) jobs: usize,
    pub(super) keep_going: bool,
    pub(super) options: RunOptions,
    pub(super) progress: bool,
}

/// What came of many seeds.
#[derive(Clone, Debug, Default)]
pub(super) struct Totals {
    pub(super) seeds: u64,
    pub(super) events: u64,
    pub(super) steps: u64,
    pub(super) simulated_ns: u128,
    pub(super) wall: Duration,
    pub(super) outcomes: Outcomes,
    /// Faults and marks: hits and the first seed, by name.
    pub(super) reached: BTreeMap<&'static str, (u64, u64)>,
    /// Judgements of oracles: how often, and the first seed.
    pub(super) checks: BTreeMap<Check, (u64, u64)>,
    /// Hashes of traces by seed, if they are wished.
    pub(super) traces: BTreeMap<u64, u64>,
    /// Broken promises by seed.
    pub(super) failures: BTreeMap<u64, Broken>,
}

impl Totals {
    fn add(&mut self, seed: u64, outcome: &Outcome) {
        self.seeds += 1;
        self.events += outcome.events;
        self.steps += outcome.steps;
        self.simulated_ns += u128::from(outcome.simulated_ns);
        self.outcomes.add(&outcome.outcomes);
        self.reach(seed, &outcome.tally);
        if let Some((broken, _)) = &outcome.broken
            && self.failures.len() < FAILURES_MAX
        {
            self.failures.insert(seed, broken.clone());
        }
    }

    fn reach(&mut self, seed: u64, tally: &Tally) {
        for (name, count) in tally.all() {
            note(self.reached.entry(name).or_insert((0, u64::MAX)), seed, count);
        }
        for check in Check::ALL {
            let entry = self.checks.entry(*check).or_insert((0, u64::MAX));
            note(entry, seed, tally.checks.of(*check));
        }
    }
}

/// Adds what a seed reached.
fn note((hits, first): &mut (u64, u64), seed: u64, count: u64) {
    *hits += count;
    if count > 0 {
        *first = (*first).min(seed);
    }
}

impl Batch {
    /// Runs it.
    pub(super) fn run(&self) -> Totals {
        let began = Instant::now();
        let next = AtomicU64::new(0);
        let stop = AtomicBool::new(false);
        let totals = Mutex::new(Totals::default());
        std::thread::scope(|scope| {
            for _ in 0..self.jobs.max(1) {
                scope.spawn(|| self.work(began, &next, &stop, &totals));
            }
        });
        let mut totals = totals.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner());
        totals.wall = began.elapsed();
        totals
    }

    /// The seed at a place of the batch.
    const fn seed(&self, number: u64) -> u64 {
        let number = match self.backwards {
            true => self.seeds.saturating_sub(1).saturating_sub(number),
            false => number,
        };
        self.from.wrapping_add(number)
    }

    /// Seeds between two signs of life.
    const fn progress_every(&self) -> u64 {
        match self.options.tier {
            Tier::Core => 5000,
            Tier::Shell => 100,
        }
    }

    fn work(&self, began: Instant, next: &AtomicU64, stop: &AtomicBool, totals: &Mutex<Totals>) {
        loop {
            let late = self.until.is_some_and(|until| began.elapsed() >= until);
            let number = next.fetch_add(1, Ordering::Relaxed);
            if late || number >= self.seeds || stop.load(Ordering::Relaxed) {
                return;
            }
            let seed = self.seed(number);
            if self.only.is_some_and(|part| !part.has(&Source::seed(seed))) {
                continue;
            }
            let outcome = self.options.tier.run(&Source::seed(seed), self.options);
            if let Some((broken, _)) = &outcome.broken {
                // At once: whoever stops a long run would never learn of it.
                eprintln!("seed {seed} BROKEN {broken}");
                stop.store(!self.keep_going, Ordering::Relaxed);
            }
            let mut totals = totals.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            totals.add(seed, &outcome);
            if self.traces {
                totals.traces.insert(seed, outcome.hash);
            }
            if self.progress && totals.seeds.is_multiple_of(self.progress_every()) {
                let seconds = began.elapsed().as_secs_f64();
                let rate = totals.seeds as f64 / seconds;
                eprintln!("{} seeds, {rate:.0} a second", totals.seeds);
            }
        }
    }
}
