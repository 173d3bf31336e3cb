//! `rondo-sim bench`: speed on one core, oracles on.

use std::time::Duration;

use clap::Args;

use super::Done;
use super::batch::Batch;
use super::report::rates;
use super::swarm::print_failures;
use crate::tier::Tier;
use crate::world::RunOptions;

/// How long.
#[derive(Debug, Args)]
pub(super) struct BenchArguments {
    /// Which world.
    #[arg(long, value_enum, default_value_t)]
    tier: Tier,
    /// Seconds to measure.
    #[arg(long, default_value_t = 10)]
    seconds: u64,
}

/// Measures; well when no promise was broken.
pub(super) fn run(arguments: &BenchArguments) -> Done {
    let tier = arguments.tier;
    tier.check()?;
    if cfg!(debug_assertions) {
        return Err("a debug build says nothing of speed: use --release".into());
    }
    let batch = Batch {
        from: 1,
        seeds: u64::MAX,
        until: Some(Duration::from_secs(arguments.seconds)),
        jobs: 1,
        keep_going: true,
        options: RunOptions { tier, standard: true, ..RunOptions::default() },
        progress: false,
        ..Batch::default()
    };
    let totals = batch.run();
    println!("standard (60 s, 5 machines, faults): {}", rates(&totals));
    let mixed = Batch { options: RunOptions { tier, ..RunOptions::default() }, ..batch };
    let mixed = mixed.run();
    println!("swarm (as drawn):                    {}", rates(&mixed));
    print_failures(tier, &totals);
    print_failures(tier, &mixed);
    Ok(totals.failures.is_empty() && mixed.failures.is_empty())
}
