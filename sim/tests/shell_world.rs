//! The shell world: a seed gives the same trace everywhere, and a build that lacks the world says
//! so instead of passing.

#![allow(clippy::unwrap_used, reason = "a test stops where something is not as it must be")]

use std::process::{Command, Output};

fn rondo_sim(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_rondo-sim")).args(arguments).output().unwrap()
}

/// A simulation that ran nothing must not look like one that found nothing.
#[cfg(not(madsim))]
#[test]
fn a_build_without_it_refuses_to_run_its_seeds() {
    let command_lines: [&[&str]; 2] =
        [&["swarm", "--tier", "shell", "--seeds", "1"], &["run", "--tier", "shell", "--seed", "1"]];
    for arguments in command_lines {
        let output = rondo_sim(arguments);
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        assert!(String::from_utf8_lossy(&output.stderr).contains("--cfg madsim"), "{output:?}");
    }
}

#[cfg(madsim)]
#[test]
fn a_swarm_of_no_seeds_fails() {
    let output = rondo_sim(&["swarm", "--tier", "shell", "--seeds", "0", "--quiet"]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
}

#[cfg(madsim)]
#[test]
fn a_seed_gives_the_same_trace_in_a_batch_and_in_a_process_of_its_own() {
    use rondo_sim::rng::Source;
    use rondo_sim::tier::Tier;
    use rondo_sim::world::RunOptions;

    let options = RunOptions { tier: Tier::Shell, ..RunOptions::default() };
    for seed in 1..=20 {
        let outcome = Tier::Shell.run(&Source::seed(seed), options);
        assert!(outcome.events > 0, "seed {seed} did nothing");
        let seed = seed.to_string();
        let alone = rondo_sim(&["run", "--tier", "shell", "--seed", &seed, "--hash"]);
        let hash = String::from_utf8_lossy(&alone.stdout).trim().to_owned();
        assert_eq!(hash, format!("{:016x}", outcome.hash), "seed {seed}: {alone:?}");
    }
}
