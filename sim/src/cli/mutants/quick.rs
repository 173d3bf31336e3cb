//! A part of the planted bugs in one build: those that are found within few seeds, each by a promise
//! that no other of them breaks.
//!
//! They are planted together, so that all of them cost one build. Runs end at the first broken
//! promise, so a bug that every run meets would hide the others; such bugs are not for here.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::{Command, Stdio};

use super::plant::Plant;
use crate::swarm::Part;

/// Seeds run between two looks at what was found.
const SEEDS_AT_ONCE: u64 = 100;

/// The parts that are looked at one after the other.
const PARTS: [Part; 4] = [Part::Node, Part::Mixed, Part::Rendezvous, Part::Exchange];

/// Broken promises: in how many runs, and the first seed.
type Fired = BTreeMap<String, (u64, u64)>;

/// What became of one bug.
pub(super) struct Found<'a> {
    plant: &'a Plant,
    /// The expected promise that was broken, in how many runs, and the first seed.
    by: Option<(String, u64, u64)>,
}

/// Whether each bug breaks promises that no other one of its part breaks.
///
/// # Errors
/// Two bugs that cannot be told from each other.
pub(super) fn check_apart(plants: &[Plant]) -> Result<(), String> {
    for (number, plant) in plants.iter().enumerate() {
        for other in plants.iter().skip(number + 1).filter(|other| part(other) == part(plant)) {
            let mut both = signs(plant).filter(|promise| is_sign(other, promise));
            let mut back = signs(other).filter(|promise| is_sign(plant, promise));
            if let Some(promise) = both.next().or_else(|| back.next()) {
                let (one, two) = (&plant.name, &other.name);
                return Err(format!("{one} and {two} are both expected to break {promise}"));
            }
        }
    }
    Ok(())
}

/// Runs seeds until all bugs are found, or as many as there may be of each part.
///
/// # Errors
/// When the simulator cannot be run.
pub(super) fn look<'a>(
    binary: &Path,
    plants: &'a [Plant],
    seeds: u64,
    jobs: usize,
) -> Result<Vec<Found<'a>>, String> {
    let mut found = Vec::new();
    for of in PARTS {
        let mine: Vec<&Plant> = plants.iter().filter(|plant| part(plant) == of).collect();
        let mut fired = Fired::new();
        let mut next = 1;
        while next <= seeds && mine.iter().any(|plant| by(plant, &fired).is_none()) {
            let count = SEEDS_AT_ONCE.min(seeds.saturating_sub(next).saturating_add(1));
            swarm(binary, of, (next, count), jobs, &mut fired)?;
            next = next.saturating_add(count);
        }
        found.extend(mine.into_iter().map(|plant| Found { plant, by: by(plant, &fired) }));
    }
    Ok(found)
}

fn part(plant: &Plant) -> Part {
    plant.part.unwrap_or(Part::Node)
}

/// The promises that tell a bug from others: those expected, without invariants if there are others.
fn signs(plant: &Plant) -> impl Iterator<Item = &String> {
    let is_invariant = |promise: &String| promise.starts_with("invariant");
    let has_others = !plant.expected.iter().all(is_invariant);
    plant.expected.iter().filter(move |promise| !(has_others && is_invariant(promise)))
}

fn is_sign(plant: &Plant, promise: &str) -> bool {
    signs(plant).any(|sign| promise.starts_with(sign))
}

fn by(plant: &Plant, fired: &Fired) -> Option<(String, u64, u64)> {
    let expected = fired.iter().find(|(promise, _)| is_sign(plant, promise));
    expected.map(|(promise, (runs, first))| (promise.clone(), *runs, *first))
}

fn swarm(
    binary: &Path,
    part: Part,
    (from, seeds): (u64, u64),
    jobs: usize,
    fired: &mut Fired,
) -> Result<(), String> {
    let output = Command::new(binary)
        .args(["swarm", "--quiet", "--keep-going", "--only", part.name()])
        .args(["--from", &from.to_string(), "--seeds", &seeds.to_string()])
        .args(["--jobs", &jobs.to_string()])
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("cannot run {}: {error}", binary.display()))?;
    let text = String::from_utf8_lossy(&output.stderr);
    for (seed, promise) in text.lines().filter_map(broken) {
        let (runs, first) = fired.entry(promise).or_insert((0, u64::MAX));
        (*runs, *first) = (runs.saturating_add(1), (*first).min(seed));
    }
    match output.status.code() {
        Some(0 | 1) => Ok(()),
        _ => Err(format!("the swarm died ({}): {text}", output.status)),
    }
}

/// The seed and the promise of the line that tells of a failure.
fn broken(line: &str) -> Option<(u64, String)> {
    let (seed, rest) = line.strip_prefix("seed ")?.split_once(" BROKEN ")?;
    let (promise, _) = rest.split_once(": ")?;
    Some((seed.parse().ok()?, promise.to_owned()))
}

/// Prints a line for each bug; whether all were found.
pub(super) fn print(found: &[Found<'_>]) -> bool {
    println!("{:<40} {:<24} {:>6} {:>8}", "bug", "found by", "runs", "seed");
    let mut missing = BTreeSet::new();
    for Found { plant, by } in found {
        let name = &plant.name;
        if let Some((promise, runs, first)) = by {
            println!("{name:<40} {promise:<24} {runs:>6} {first:>8}");
        } else {
            println!("{name:<40} SURVIVED, expected {}", plant.expected.join(", "));
            missing.insert(name);
        }
    }
    println!("{} of {} planted bugs found", found.len() - missing.len(), found.len());
    missing.is_empty() && !found.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tier::Tier;

    fn plant(name: &str, expected: &[&str]) -> Plant {
        Plant {
            name: name.into(),
            path: name.into(),
            what: String::new(),
            expected: expected.iter().map(|promise| (*promise).to_owned()).collect(),
            tier: Tier::Core,
            part: None,
            is_quick: true,
            is_counted: false,
        }
    }

    #[test]
    fn bugs_that_break_one_promise_are_not_planted_together() {
        let apart = [plant("one", &["keys", "barrier"]), plant("two", &["watch"])];
        assert_eq!(check_apart(&apart), Ok(()));
        let both = [plant("one", &["invariant D4"]), plant("two", &["invariant"])];
        assert!(check_apart(&both).is_err_and(|text| text.contains("one and two")));
        let told_apart = [plant("one", &["keys", "invariant"]), plant("two", &["invariant"])];
        assert_eq!(check_apart(&told_apart), Ok(()), "by `keys`");
    }

    #[test]
    fn a_broken_promise_is_read_off_the_line_that_tells_it() {
        let line = "seed 45 BROKEN invariant D9: others were told: this";
        assert_eq!(broken(line), Some((45, "invariant D9".into())));
        assert_eq!(broken("200 seeds, 40 a second"), None);
    }

    #[test]
    fn a_bug_that_nothing_found_is_told() {
        let plants = [plant("one", &["keys"]), plant("two", &["watch"])];
        let fired = Fired::from([("keys".to_owned(), (3, 17))]);
        let found: Vec<_> =
            plants.iter().map(|plant| Found { plant, by: by(plant, &fired) }).collect();
        assert!(print(&found[..1]) && !print(&found) && !print(&[]));
    }
}
