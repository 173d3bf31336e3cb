//! `rondo-sim swarm`.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clap::Args;

use super::batch::{Batch, Totals};
use super::coverage::print_reached;
use super::report::{configuration_hash, failure_line, rates};
use super::{Done, again};
use crate::cost;
use crate::rng::Source;
use crate::swarm::{Part, Swarm};
use crate::tier::Tier;
use crate::world::RunOptions;

/// Which seeds, and how long.
#[derive(Debug, Args)]
pub(super) struct SwarmArguments {
    /// Which world.
    #[arg(long, value_enum, default_value_t)]
    tier: Tier,
    /// How many seeds; with `--only` those that are passed over count too.
    #[arg(long, default_value_t = 10_000)]
    seeds: u64,
    /// Only seeds whose runs are of this part.
    #[arg(long, value_enum)]
    only: Option<Part>,
    /// The first seed; a fresh one if not said.
    #[arg(long)]
    from: Option<u64>,
    /// Stop after so many minutes.
    #[arg(long)]
    minutes: Option<u64>,
    /// How many at once; as many as there are cores if not said.
    #[arg(long)]
    jobs: Option<usize>,
    /// Go on after a failure, and list all.
    #[arg(long)]
    keep_going: bool,
    /// Run each seed again in a fresh process, the last one first, and compare the traces.
    #[arg(long)]
    twice: bool,
    /// Print too how often each fault and each state was reached, and fail where one never was.
    #[arg(long, conflicts_with = "only")]
    coverage: bool,
    /// Run the last seed first.
    #[arg(long)]
    backwards: bool,
    /// Print the hash of each seed's trace.
    #[arg(long)]
    hashes: bool,
    /// Say nothing on the way.
    #[arg(long)]
    quiet: bool,
}

/// As many as there are cores.
pub(super) fn cores() -> usize {
    match cost::is_measured() {
        // The count of work is that of all threads.
        true => 1,
        false => std::thread::available_parallelism().map_or(1, usize::from),
    }
}

/// A seed nobody has chosen.
pub(super) fn fresh_seed() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(1, |now| u64::from(now.subsec_nanos()) << 32 ^ now.as_secs())
}

/// Runs it; well when no promise was broken.
pub(super) fn run(arguments: &SwarmArguments) -> Done {
    let tier = arguments.tier;
    tier.check()?;
    let from = arguments.from.unwrap_or_else(fresh_seed);
    println!("seeds from {from} on");
    let batch = Batch {
        from,
        seeds: arguments.seeds,
        only: arguments.only,
        backwards: arguments.backwards,
        traces: arguments.twice || arguments.hashes,
        until: arguments.minutes.map(|minutes| Duration::from_secs(60 * minutes)),
        jobs: arguments.jobs.unwrap_or_else(cores),
        keep_going: arguments.keep_going,
        options: RunOptions { tier, ..RunOptions::default() },
        progress: !arguments.quiet,
    };
    let totals = batch.run();
    println!("{}", rates(&totals));
    if let Some((ran, allowed)) = cost::nearest() {
        println!("the step nearest to its bound ran {ran} blocks of {allowed}");
    }
    print_failures(tier, &totals);
    if arguments.hashes {
        print!("{}", again::print(&totals.traces));
    }
    let well = totals.failures.is_empty() && (totals.seeds > 0 || arguments.only.is_some());
    let well = well && (!arguments.coverage || print_reached(tier, &totals));
    Ok(well && (!arguments.twice || again::is_same((tier, arguments.only), from, &totals.traces)?))
}

/// Failures with the line that brings each back; how many of each kind.
pub(super) fn print_failures(tier: Tier, totals: &Totals) {
    for (seed, broken) in &totals.failures {
        let (swarm, _) = Swarm::draw(&Source::seed(*seed));
        println!("BROKEN {broken}");
        println!("  {}", failure_line(tier, *seed, broken, configuration_hash(&swarm)));
    }
}
