//! Tells of long work on stderr: a line now and then, nothing for short work.

use std::io::Write;
use std::time::{Duration, Instant};

/// Time between two lines.
const INTERVAL: Duration = Duration::from_secs(2);

/// Work of a known number of steps.
pub(super) struct Progress {
    what: &'static str,
    total: usize,
    done: usize,
    told: Instant,
}

impl Progress {
    /// Begins `total` steps of reading `what`.
    pub(super) fn of(what: &'static str, total: usize) -> Self {
        Self { what, total, done: 0, told: Instant::now() }
    }

    /// Says that one more step is done.
    pub(super) fn step(&mut self) {
        self.done = self.done.saturating_add(1);
        if self.told.elapsed() >= INTERVAL {
            self.told = Instant::now();
            // Whoever closed stderr does not want to know.
            let _ = writeln!(std::io::stderr(), "{}: {} of {}", self.what, self.done, self.total);
        }
    }
}
