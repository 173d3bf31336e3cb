//! Looking for a planted bug from several starting points.

use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use crate::swarm::Part;
use crate::tier::Tier;

/// Between two starting points.
const APART: u64 = 1_000_000_007;
/// Seeds that a process runs at first, and at most: each later one runs more of them. In the shell
/// world a seed takes some tenths of a second.
const fn seeds_at_once(tier: Tier) -> (u64, u64) {
    match tier {
        Tier::Core => (100, 2_000),
        Tier::Shell => (10, 100),
    }
}

/// A process that takes longer hangs.
const HANGS_AFTER: Duration = Duration::from_secs(180);

/// How long to look.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    pub(super) points: u64,
    pub(super) seeds: u64,
    pub(super) time: Duration,
    pub(super) jobs: usize,
}

/// A hunt for one bug.
pub(super) struct Hunt {
    pub(super) binary: PathBuf,
    pub(super) tier: Tier,
    /// Only seeds of this part are run.
    pub(super) part: Option<Part>,
    pub(super) bounds: Bounds,
}

/// What came of one starting point.
#[derive(Clone, Debug)]
pub(super) struct Point {
    from: u64,
    /// Seeds run, with the one that failed.
    pub(super) seeds: u64,
    /// The promise that was broken, if one was.
    pub(super) promise: Option<String>,
    chunk: u64,
}

impl Hunt {
    /// Runs it: all points step by step, so that they share the time.
    ///
    /// # Errors
    /// When the swarm cannot be run.
    pub(super) fn run(&self) -> Vec<Point> {
        let began = Instant::now();
        let mut points: Vec<Point> =
            (1..=self.bounds.points).map(|number| Point::new(number, self.tier)).collect();
        while began.elapsed() < self.bounds.time && points.iter().any(|point| self.goes_on(point)) {
            let rest: Mutex<Vec<&mut Point>> =
                Mutex::new(points.iter_mut().filter(|point| self.goes_on(point)).collect());
            std::thread::scope(|scope| {
                for _ in 0..self.bounds.jobs {
                    scope.spawn(|| self.work(&rest));
                }
            });
        }
        points
    }

    fn goes_on(&self, point: &Point) -> bool {
        point.promise.is_none() && point.seeds < self.bounds.seeds
    }

    fn work(&self, rest: &Mutex<Vec<&mut Point>>) {
        loop {
            let next = rest.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).pop();
            let Some(point) = next else {
                return;
            };
            self.go_on(point);
        }
    }

    /// Runs some more seeds from a point.
    fn go_on(&self, point: &mut Point) {
        let seeds = point.chunk.min(self.bounds.seeds.saturating_sub(point.seeds));
        point.chunk = point.chunk.saturating_mul(2).min(seeds_at_once(self.tier).1);
        let next = point.from.wrapping_add(point.seeds);
        match self.swarm(next, seeds) {
            Ok(None) => point.seeds = point.seeds.saturating_add(seeds),
            Ok(Some((seed, promise))) => {
                point.seeds = seed.wrapping_sub(point.from).saturating_add(1);
                point.promise = Some(promise);
            }
            Err(what) => {
                point.seeds = point.seeds.saturating_add(seeds);
                point.promise = Some(what);
            }
        }
    }

    /// The first seed that fails, and the promise it breaks.
    fn swarm(&self, from: u64, seeds: u64) -> Result<Option<(u64, String)>, String> {
        let child = Command::new(&self.binary)
            .args(["swarm", "--quiet", "--jobs", "1", "--from", &from.to_string()])
            .args(["--seeds", &seeds.to_string(), "--tier", self.tier.name()])
            .args(self.part.into_iter().flat_map(|part| ["--only", part.name()]))
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| format!("cannot run {}: {error}", self.binary.display()))?;
        let output = wait(child)?;
        let text = String::from_utf8_lossy(&output.stdout);
        match text.lines().find_map(failure) {
            Some(found) => Ok(Some(found)),
            None if output.status.success() => Ok(None),
            None => Err(format!("process died: {}", output.status)),
        }
    }
}

impl Point {
    const fn new(number: u64, tier: Tier) -> Self {
        let from = number.wrapping_mul(APART);
        Self { from, seeds: 0, promise: None, chunk: seeds_at_once(tier).0 }
    }
}

/// The seed and the promise of the line that brings a failure back.
fn failure(line: &str) -> Option<(u64, String)> {
    let seed = line.split("--seed ").nth(1)?.split_whitespace().next()?.parse().ok()?;
    let promise = line.split("# ").nth(1)?.split(", commit").next()?;
    Some((seed, promise.to_owned()))
}

/// Waits for a process, which says little, but not for ever.
fn wait(mut child: Child) -> Result<Output, String> {
    let began = Instant::now();
    let failed = |error: std::io::Error| format!("cannot wait for the swarm: {error}");
    while child.try_wait().map_err(failed)?.is_none() {
        if began.elapsed() > HANGS_AFTER {
            child.kill().map_err(failed)?;
            child.wait().map_err(failed)?;
            return Err("hangs".into());
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    child.wait_with_output().map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::failure;

    #[test]
    fn a_failing_seed_and_its_promise_are_read_off_the_line_that_is_printed() {
        let line =
            "  cargo run --release -p rondo-sim -- run --seed 17  # invariant D9, commit 4e3, x";
        assert_eq!(failure(line), Some((17, "invariant D9".into())));
        assert_eq!(failure("2000 seeds in 23.4 s: 86 seeds/s"), None);
    }
}
