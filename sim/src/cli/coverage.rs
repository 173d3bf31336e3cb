//! `rondo-sim coverage`.

use clap::Args;

use super::Done;
use super::batch::{Batch, Totals};
use super::report::rates;
use super::swarm::{cores, fresh_seed, print_failures};
use crate::tier::Tier;
use crate::workload::kind::Outcomes;
use crate::world::RunOptions;

/// Of which seeds.
#[derive(Debug, Args)]
pub(super) struct CoverageArguments {
    /// Which world.
    #[arg(long, value_enum, default_value_t)]
    tier: Tier,
    /// How many seeds.
    #[arg(long, default_value_t = 20_000)]
    seeds: u64,
    /// The first seed; a fresh one if not said.
    #[arg(long)]
    from: Option<u64>,
}

/// Runs it; well when everything was reached and no promise was broken.
pub(super) fn run(arguments: &CoverageArguments) -> Done {
    let tier = arguments.tier;
    tier.check()?;
    let from = arguments.from.unwrap_or_else(fresh_seed);
    println!("seeds from {from} on");
    let batch = Batch {
        from,
        seeds: arguments.seeds,
        until: None,
        jobs: cores(),
        keep_going: true,
        options: RunOptions { tier, ..RunOptions::default() },
        progress: true,
        ..Batch::default()
    };
    let totals = batch.run();
    let reached = print_reached(tier, &totals);
    println!("{}", rates(&totals));
    print_failures(tier, &totals);
    Ok(reached && totals.failures.is_empty())
}

/// Prints what was reached; whether that is all there is, and no kind of request hardly ever succeeds.
pub(super) fn print_reached(tier: Tier, totals: &Totals) -> bool {
    println!("{:<32} {:>12} {:>20}", "reached", "hits", "first seed");
    let mut missing = 0;
    for (name, (hits, first)) in &totals.reached {
        match hits {
            0 => {
                missing += 1;
                println!("{name:<32} {hits:>12} {:>20}", "NEVER");
            }
            _ => println!("{name:<32} {hits:>12} {first:>20}"),
        }
    }
    let poor = print_requests(&totals.outcomes);
    println!("{missing} never reached, {poor} kinds of requests succeed too seldom");
    // What the shell world cannot do, the core world must.
    let reached = tier == Tier::Shell || missing == 0;
    reached && poor == 0
}

/// Prints what became of requests; how many kinds succeed in less than one of a hundred.
fn print_requests(outcomes: &Outcomes) -> usize {
    println!("{:<32} {:>12} {:>12} {:>12}", "requests", "succeeded", "refused", "failed");
    let mut poor = 0;
    for (kind, outcome) in outcomes.all() {
        let all = outcome.succeeded + outcome.refused + outcome.failed;
        poor += usize::from(outcome.succeeded * 100 < all || all == 0);
        let name = kind.name();
        println!(
            "{name:<32} {:>12} {:>12} {:>12}",
            outcome.succeeded, outcome.refused, outcome.failed
        );
    }
    poor
}
