//! `rondo-sim run`.

use clap::Args;

use super::Done;
use super::report::{configuration_hash, failure_line};
use crate::rng::Source;
use crate::tier::Tier;
use crate::world::RunOptions;

/// Which seed, and how.
#[derive(Debug, Args)]
pub(super) struct RunArguments {
    /// Which world.
    #[arg(long, value_enum, default_value_t)]
    tier: Tier,
    /// The seed.
    #[arg(long)]
    seed: u64,
    /// Print every line of the timeline.
    #[arg(long)]
    verbose: bool,
    /// Look at the node after every step.
    #[arg(long)]
    strict: bool,
    /// Print the trace hash and nothing else.
    #[arg(long)]
    hash: bool,
}

/// Runs it; well when no promise was broken.
pub(super) fn run(arguments: &RunArguments) -> Done {
    let RunArguments { tier, seed, verbose, strict, hash } = *arguments;
    tier.check()?;
    let options = RunOptions { tier, lines: verbose, strict, ..RunOptions::default() };
    let outcome = tier.run(&Source::seed(seed), options);
    if hash {
        println!("{:016x}", outcome.hash);
        return Ok(outcome.broken.is_none());
    }
    print!("{}", crate::trace::text::page(&outcome.lines, &outcome.lanes));
    print!("{}", outcome.swarm);
    println!(
        "trace {:016x}, {} events, {} steps, {} ms simulated",
        outcome.hash,
        outcome.events,
        outcome.steps,
        outcome.simulated_ns / 1_000_000
    );
    let Some((broken, at_ns)) = outcome.broken else {
        println!("every promise was kept");
        return Ok(true);
    };
    println!("BROKEN at {} ms: {broken}", at_ns / 1_000_000);
    println!("{}", failure_line(tier, seed, &broken, configuration_hash(&outcome.swarm)));
    Ok(false)
}
