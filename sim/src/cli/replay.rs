//! `rondo-sim replay`.

use std::path::PathBuf;

use clap::Args;

use super::Done;
use crate::rng::Source;
use crate::tier::Tier;
use crate::trace::{html, json, text};
use crate::world::RunOptions;

/// Which seed, and where to.
#[derive(Debug, Args)]
pub(super) struct ReplayArguments {
    /// The seed.
    seed: u64,
    /// Which world.
    #[arg(long, value_enum, default_value_t)]
    tier: Tier,
    /// Where the timeline goes: a file ending in .html or .json, or `text` for the terminal.
    #[arg(long, default_value = "text")]
    trace: PathBuf,
}

/// Runs it; well when no promise was broken.
pub(super) fn run(arguments: &ReplayArguments) -> Done {
    let tier = arguments.tier;
    tier.check()?;
    let options = RunOptions { tier, lines: true, ..RunOptions::default() };
    let outcome = tier.run(&Source::seed(arguments.seed), options);
    let extension = arguments.trace.extension().and_then(|extension| extension.to_str());
    let page = match extension {
        Some("html") => html::page(arguments.seed, &outcome),
        Some("json") => json::page(&outcome.lines, &outcome.lanes),
        _ => text::page(&outcome.lines, &outcome.lanes),
    };
    let place = arguments.trace.display();
    match extension {
        Some("html" | "json") => {
            let written = std::fs::write(&arguments.trace, page);
            written.map_err(|error| format!("cannot write {place}: {error}"))?;
            println!("{} lines written to {place}", outcome.lines.len());
        }
        _ if arguments.trace.as_os_str() == "text" => print!("{page}"),
        _ => return Err(format!("{place} ends neither in .html nor in .json, and is not `text`")),
    }
    Ok(outcome.broken.is_none())
}
