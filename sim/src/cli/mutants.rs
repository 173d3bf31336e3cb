//! `rondo-sim mutants`: planted bugs, found or not.
//!
//! Each patch is applied to a copy of the sources, the simulator is built there, and the swarm runs
//! from several starting points until a promise is broken.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::Args;

use super::Done;

/// Which bugs, and where to build.
#[derive(Debug, Args)]
pub(super) struct MutantsArguments {
    /// The folder of patches.
    #[arg(long, default_value = "sim/mutants")]
    patches: PathBuf,
    /// Where the copies are built; kept, so that the next time is quicker.
    #[arg(long, default_value = "target/mutants")]
    scratch: PathBuf,
    /// Only bugs whose names contain this.
    #[arg(long)]
    only: Option<String>,
    /// Starting points.
    #[arg(long, default_value_t = 10)]
    points: u64,
    /// Seeds to run from each starting point at most.
    #[arg(long, default_value_t = 20_000)]
    seeds: u64,
}

/// A planted bug.
struct Mutant {
    name: String,
    path: PathBuf,
    /// The oracles that should find it: the first words of promises.
    expected: Vec<String>,
}

/// What came of one.
struct Found {
    /// Seeds needed from each starting point that found it.
    needed: Vec<u64>,
    /// Promises broken.
    fired: Vec<String>,
}

/// Runs it; well when all were found.
pub(super) fn run(arguments: &MutantsArguments) -> Done {
    let mutants = read_all(arguments)?;
    let tree = arguments.scratch.join("tree");
    println!(
        "{:<34} {:<24} {:<24} {:>8} {:>8} {:>7}",
        "bug", "expected", "fired", "median", "worst", "found"
    );
    let (mut survivors, mut others) = (0, 0);
    for mutant in &mutants {
        copy_sources(&tree)?;
        apply(&tree, &mutant.path)?;
        let found = hunt(arguments, &tree)?;
        let expected = found.fired.iter().filter(|fired| mutant.expects(fired)).count();
        survivors += u64::from(found.needed.is_empty());
        others += u64::from(!found.needed.is_empty() && expected * 2 < found.fired.len());
        print_row(mutant, found, arguments.points);
    }
    println!("{} planted, {survivors} survived, {others} found by another oracle", mutants.len());
    Ok(survivors == 0)
}

impl Mutant {
    fn expects(&self, fired: &str) -> bool {
        self.expected.iter().any(|expected| fired.starts_with(expected))
    }
}

fn print_row(mutant: &Mutant, mut found: Found, points: u64) {
    found.needed.sort_unstable();
    found.fired.sort_unstable();
    found.fired.dedup();
    let number = |needed: Option<&u64>| needed.map_or_else(|| "-".into(), u64::to_string);
    println!(
        "{:<34} {:<24} {:<24} {:>8} {:>8} {:>4}/{points}",
        mutant.name,
        mutant.expected.join(","),
        if found.fired.is_empty() { "SURVIVED".into() } else { found.fired.join(",") },
        number(found.needed.get(found.needed.len() / 2)),
        number(found.needed.last()),
        found.needed.len(),
    );
}

fn read_all(arguments: &MutantsArguments) -> Result<Vec<Mutant>, String> {
    let entries = fs::read_dir(&arguments.patches)
        .map_err(|error| format!("cannot list {}: {error}", arguments.patches.display()))?;
    let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "patch"));
    paths.sort();
    let mutants: Result<Vec<Mutant>, String> = paths.into_iter().map(read_one).collect();
    let mut mutants = mutants?;
    if let Some(only) = &arguments.only {
        mutants.retain(|mutant| mutant.name.contains(only));
    }
    Ok(mutants)
}

fn read_one(path: PathBuf) -> Result<Mutant, String> {
    let text =
        fs::read_to_string(&path).map_err(|e| format!("cannot read {}: {e}", path.display()))?;
    let header = text.lines().find_map(|line| line.strip_prefix("Expected: "));
    let header = header.ok_or_else(|| format!("{} has no line Expected:", path.display()))?;
    let expected = header.split(',').map(|oracle| oracle.trim().to_owned()).collect();
    let name = path.file_stem().map(|stem| stem.to_string_lossy().into_owned());
    let path = path.canonicalize().map_err(|error| error.to_string())?;
    Ok(Mutant { name: name.unwrap_or_default(), path, expected })
}

/// Brings the copy to what is in the working tree.
fn copy_sources(tree: &Path) -> Result<(), String> {
    fs::create_dir_all(tree).map_err(|error| error.to_string())?;
    for part in ["Cargo.toml", "Cargo.lock", "core", "proto", "runtime", "sim", "tests"] {
        copy(Path::new(part), &tree.join(part))?;
    }
    Ok(())
}

/// Copies what differs, so that the rest need not be built again.
fn copy(from: &Path, to: &Path) -> Result<(), String> {
    let failed = |error: std::io::Error| format!("cannot copy {}: {error}", from.display());
    if from.is_dir() {
        fs::create_dir_all(to).map_err(failed)?;
        for entry in fs::read_dir(from).map_err(failed)?.flatten() {
            copy(&entry.path(), &to.join(entry.file_name()))?;
        }
        return Ok(());
    }
    let bytes = fs::read(from).map_err(failed)?;
    if fs::read(to).is_ok_and(|there| there == bytes) {
        return Ok(());
    }
    fs::write(to, bytes).map_err(failed)
}

fn apply(tree: &Path, patch: &Path) -> Result<(), String> {
    let output = Command::new("patch")
        .args(["--strip=1", "--forward", "--silent", "--no-backup-if-mismatch", "--input"])
        .arg(patch)
        .current_dir(tree)
        .output()
        .map_err(|error| format!("cannot run patch: {error}"))?;
    match output.status.success() {
        true => Ok(()),
        false => Err(format!(
            "{} does not apply: {}",
            patch.display(),
            String::from_utf8_lossy(&output.stdout)
        )),
    }
}

/// Builds the copy and runs its swarm from all starting points.
fn hunt(arguments: &MutantsArguments, tree: &Path) -> Result<Found, String> {
    let target = arguments.scratch.join("target");
    let target = std::path::absolute(target).map_err(|error| error.to_string())?;
    let built = Command::new("cargo")
        .args(["build", "--quiet", "--profile", "sim", "-p", "rondo-sim"])
        .env("CARGO_TARGET_DIR", &target)
        .current_dir(tree)
        .output()
        .map_err(|error| format!("cannot run cargo: {error}"))?;
    if !built.status.success() {
        return Err(String::from_utf8_lossy(&built.stderr).into_owned());
    }
    let binary = target.join("sim").join("rondo-sim");
    let mut found = Found { needed: Vec::new(), fired: Vec::new() };
    for point in 0..arguments.points {
        let from = point.wrapping_mul(1_000_003).wrapping_add(17);
        if let Some((seed, promise)) = first_failure(&binary, from, arguments.seeds)? {
            found.needed.push(seed.wrapping_sub(from).wrapping_add(1));
            found.fired.push(promise);
        }
    }
    Ok(found)
}

/// The first seed that fails, and the promise it breaks.
fn first_failure(binary: &Path, from: u64, seeds: u64) -> Result<Option<(u64, String)>, String> {
    let (from, seeds) = (from.to_string(), seeds.to_string());
    let output = Command::new(binary)
        .args(["swarm", "--quiet", "--jobs", "1", "--from", &from, "--seeds", &seeds])
        .output()
        .map_err(|error| format!("cannot run {}: {error}", binary.display()))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let line = text.lines().find(|line| line.contains("--seed "));
    if let Some(line) = line {
        let seed = line.split("--seed ").nth(1).and_then(|rest| rest.split_whitespace().next());
        let promise = line.split("# ").nth(1).and_then(|rest| rest.split(", commit").next());
        let seed = seed.and_then(|seed| seed.parse().ok());
        return Ok(seed.zip(promise.map(str::to_owned)));
    }
    // A bug may also bring the whole process down.
    match output.status.success() {
        true => Ok(None),
        false => Ok(Some((panicked_at(&output.stderr), "panic".into()))),
    }
}

fn panicked_at(_: &[u8]) -> u64 {
    0
}
