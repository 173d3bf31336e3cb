//! `rondo-sim coverage`.

use clap::Args;

use super::Done;
use super::batch::{Batch, Totals};
use super::report::rates;
use super::swarm::{cores, fresh_seed, print_failures};
use crate::checks::{Check, is_expected};
use crate::fault::Fault;
use crate::tier::Tier;
use crate::workload::kind::Outcomes;
use crate::world::RunOptions;

/// Searches of the oracle `keys` that may decide nothing, in percent.
const UNDECIDED_MAX: f64 = 0.1;

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
            0 if !must_reach(tier, name) => println!("{name:<32} {hits:>12} {:>20}", "not here"),
            0 => {
                missing += 1;
                println!("{name:<32} {hits:>12} {:>20}", "NEVER");
            }
            _ => println!("{name:<32} {hits:>12} {first:>20}"),
        }
    }
    let (idle, undecided) = (print_checks(tier, totals), undecided(totals));
    println!(
        "{undecided:.4} % of searches for an order of a key's calls decide nothing, of at most \
         {UNDECIDED_MAX} %"
    );
    let poor = print_requests(&totals.outcomes);
    println!(
        "{missing} never reached, {idle} checks of oracles never made, {poor} kinds of requests \
         succeed too seldom"
    );
    missing == 0 && idle == 0 && poor == 0 && undecided <= UNDECIDED_MAX
}

/// Whether a fault or a mark must be reached in the world of this tier. The core world must reach all but the
/// faults that only the shell world has. The shell world must reach those.
fn must_reach(tier: Tier, name: &str) -> bool {
    let is_of_shell = Fault::named(name).is_some_and(Fault::is_of_shell);
    is_of_shell == (tier == Tier::Shell)
}

/// The share of searches for an order of a key's calls that were given up, in percent.
fn undecided(totals: &Totals) -> f64 {
    let made = |check| totals.checks.get(&check).map_or(0, |(made, _)| *made);
    100.0 * made(Check::KeysUndecided) as f64 / (made(Check::KeysSearched) as f64).max(1.0)
}

/// Prints how often each oracle reached each of its judgements; how many never did that must.
fn print_checks(tier: Tier, totals: &Totals) -> usize {
    println!("{:<32} {:>12} {:>20}", "checks", "made", "first seed");
    let mut idle = 0;
    for (check, (made, first)) in &totals.checks {
        let is_expected = is_expected(*check, tier == Tier::Shell);
        match made {
            0 if is_expected => {
                idle += 1;
                println!("{check:<32} {made:>12} {:>20}", "NEVER");
            }
            0 => {}
            _ => println!("{check:<32} {made:>12} {first:>20}"),
        }
    }
    idle
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

#[cfg(test)]
mod tests {
    use super::{Check, Fault, Tier, Totals, must_reach, print_checks, undecided};

    #[test]
    fn a_check_that_is_never_made_is_told_in_the_world_that_has_it() {
        let mut totals = Totals::default();
        totals.checks.extend(Check::ALL.iter().map(|check| (*check, (1, 7))));
        assert_eq!(print_checks(Tier::Core, &totals), 0);
        totals.checks.insert(Check::Votes, (0, u64::MAX));
        totals.checks.insert(Check::Wire, (0, u64::MAX));
        assert_eq!(print_checks(Tier::Core, &totals), 1);
        assert_eq!(print_checks(Tier::Shell, &totals), 1);
        totals.checks.insert(Check::KeysUndecided, (0, u64::MAX));
        assert_eq!(print_checks(Tier::Core, &totals), 1, "the fewer the better");
    }

    #[test]
    fn each_fault_must_be_reached_in_one_of_the_worlds() {
        for fault in Fault::ALL {
            let worlds = [Tier::Core, Tier::Shell].map(|tier| must_reach(tier, fault.name()));
            assert_eq!(worlds, [!fault.is_of_shell(), fault.is_of_shell()], "{fault}");
        }
        assert!(must_reach(Tier::Core, "updates-refused"), "a mark");
    }

    #[test]
    fn the_share_of_searches_that_decide_nothing_is_told() {
        let mut totals = Totals::default();
        assert!(undecided(&totals) < 1e-9);
        totals.checks.insert(Check::KeysSearched, (400, 1));
        totals.checks.insert(Check::KeysUndecided, (2, 9));
        assert!((undecided(&totals) - 0.5).abs() < 1e-9);
    }
}
