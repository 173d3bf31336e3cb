//! `rondo-sim replay`.

use std::path::PathBuf;

use clap::Args;

use super::Done;
use crate::regression;
use crate::rng::Source;
use crate::tier::Tier;
use crate::trace::{html, json, text};
use crate::world::RunOptions;

/// Which seed, and where to.
#[derive(Debug, Args)]
pub(super) struct ReplayArguments {
    /// The seed, or a regression file as `shrink` writes them.
    #[arg(value_name = "SEED|FILE")]
    what: String,
    /// Which world.
    #[arg(long, value_enum, default_value_t)]
    tier: Tier,
    /// Where the timeline goes: a file ending in .html or .json, or `text` for the terminal.
    #[arg(long, default_value = "text")]
    trace: PathBuf,
}

fn source(what: &str) -> Result<Source, String> {
    if let Ok(seed) = what.parse() {
        return Ok(Source::seed(seed));
    }
    let text = std::fs::read_to_string(what).map_err(|error| {
        format!("{what} is neither a seed nor a regression file that can be read: {error}")
    })?;
    regression::read(&text).map(Source::Tape).map_err(|error| format!("{what}: {error}"))
}

/// Runs it; well when no promise was broken.
pub(super) fn run(arguments: &ReplayArguments) -> Done {
    let tier = arguments.tier;
    tier.check()?;
    let options = RunOptions { tier, lines: true, ..RunOptions::default() };
    let outcome = tier.run(&source(&arguments.what)?, options);
    let extension = arguments.trace.extension().and_then(|extension| extension.to_str());
    let page = match extension {
        Some("html") => html::page(&arguments.what, &outcome),
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
