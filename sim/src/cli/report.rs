//! What people are told: rates, failures and how to have one again.

use std::process::Command;

use super::batch::Totals;
use crate::cost;
use crate::oracle::Broken;
use crate::swarm::Swarm;
use crate::tier::Tier;
use crate::trace::TraceHash;

/// The commit that is checked out, for people.
fn commit() -> String {
    let output = Command::new("git").args(["rev-parse", "--short", "HEAD"]).output();
    let text = output.ok().filter(|output| output.status.success()).map(|output| output.stdout);
    let text = text.and_then(|text| String::from_utf8(text).ok());
    text.map_or_else(|| "unknown".into(), |text| text.trim().into())
}

/// A configuration's hash.
pub(super) fn configuration_hash(swarm: &Swarm) -> u64 {
    let mut hash = TraceHash::default();
    hash.add_bytes(swarm.to_string().as_bytes());
    hash.value()
}

/// The line to paste that brings a failure back.
pub(super) fn failure_line(tier: Tier, seed: u64, broken: &Broken, configuration: u64) -> String {
    let promise = &broken.promise;
    let behind = format!(
        "--seed {seed}  # {promise}, commit {}, configuration {configuration:016x}",
        commit()
    );
    if cost::is_measured() {
        let program = std::env::args().next().unwrap_or_else(|| "rondo-sim-cost".into());
        return format!("{program} run {behind}");
    }
    let (before, after) = match tier {
        Tier::Core => ("", ""),
        Tier::Shell => ("RUSTFLAGS='--cfg madsim' ", " --tier shell"),
    };
    let target = if tier == Tier::Shell { " --target-dir target/madsim" } else { "" };
    format!("{before}cargo run --release{target} -p rondo-sim -- run{after} {behind}")
}

/// Rates of many seeds.
pub(super) fn rates(totals: &Totals) -> String {
    let wall = totals.wall.as_secs_f64().max(1e-9);
    let simulated = totals.simulated_ns as f64 / 1e9;
    format!(
        "{} seeds in {wall:.1} s: {:.0} seeds/s, {:.0} events/s, {:.0} steps/s, {:.0} × real time \
         ({:.0} simulated s), {:.0} events a seed",
        totals.seeds,
        totals.seeds as f64 / wall,
        totals.events as f64 / wall,
        totals.steps as f64 / wall,
        simulated / wall,
        simulated,
        totals.events as f64 / (totals.seeds as f64).max(1.0),
    )
}
