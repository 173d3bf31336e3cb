//! The planted bugs fit the code they are to be planted in.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

use rondo_sim::oracle::{Oracles, exchange, rendezvous};
use rondo_sim::rng::Source;
use rondo_sim::swarm::Swarm;

/// Fewer than these have been lost.
const PATCHES_MIN: usize = 50;
/// What is promised in the shell world only.
const OF_THE_SHELL: [&str; 1] = ["wire"];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

fn patches() -> Vec<PathBuf> {
    let listed = std::fs::read_dir(root().join("sim").join("mutants")).unwrap();
    let mut patches: Vec<PathBuf> = listed.map(|entry| entry.unwrap().path()).collect();
    patches.retain(|path| path.extension().is_some_and(|extension| extension == "patch"));
    patches.sort();
    assert!(patches.len() >= PATCHES_MIN, "only {} planted bugs", patches.len());
    patches
}

#[test]
fn every_planted_bug_applies() {
    let mut failed = Vec::new();
    for patch in patches() {
        let output = Command::new("git")
            .args(["apply", "--check", "-C1", "--whitespace=nowarn"])
            .arg(&patch)
            // Whatever checkout this one may lie in is none of ours.
            .env("GIT_CEILING_DIRECTORIES", root().parent().unwrap_or_else(|| root()))
            .current_dir(root())
            .output();
        match output {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                let is_required = std::env::var_os("RONDO_GIT_REQUIRED").is_some();
                assert!(!is_required, "RONDO_GIT_REQUIRED is set, but there is no git");
                // Shown although the test passes, which `println!` is not.
                let text = "skipped: there is no git to apply patches with";
                let _ = writeln!(std::io::stderr(), "{text}");
                return;
            }
            Err(error) => panic!("cannot run git: {error}"),
            Ok(output) if output.status.success() => {}
            Ok(output) => failed.push(String::from_utf8_lossy(&output.stderr).into_owned()),
        }
    }
    assert!(failed.is_empty(), "{} do not apply:\n{}", failed.len(), failed.join(""));
}

#[test]
fn every_planted_bug_names_oracles_that_exist() {
    let (swarm, _) = Swarm::draw(&Source::seed(1));
    let oracles = Oracles::new(&swarm);
    for patch in patches() {
        let text = std::fs::read_to_string(&patch).unwrap();
        let expected = text.lines().find_map(|line| line.strip_prefix("Expected: "));
        let expected = expected.unwrap_or_else(|| panic!("{} expects nothing", patch.display()));
        for promise in expected.split(", ") {
            let name = promise.split(' ').next().unwrap();
            let mut names =
                oracles.names().chain(OF_THE_SHELL).chain(rendezvous::NAMES).chain(exchange::NAMES);
            let known = names.any(|oracle| oracle == name);
            assert!(known, "{} expects {promise:?}, which no oracle promises", patch.display());
        }
    }
}
