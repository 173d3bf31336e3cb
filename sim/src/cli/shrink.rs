//! `rondo-sim shrink`.

use std::path::PathBuf;

use clap::Args;

use super::Done;
use crate::regression;
use crate::rng::Source;
use crate::shrink::shrink;
use crate::swarm::Swarm;

/// Which seed, and where to.
#[derive(Debug, Args)]
pub(super) struct ShrinkArguments {
    /// A seed that fails.
    seed: u64,
    /// Where the regression file goes; by default it is named for the promise and the seed.
    #[arg(long)]
    out: Option<PathBuf>,
    /// The folder of regression files.
    #[arg(long, default_value = "sim/regressions")]
    folder: PathBuf,
    /// Runs to try at most.
    #[arg(long, default_value_t = 20_000)]
    tries: u64,
}

/// Runs it; well when something was found and written.
pub(super) fn run(arguments: &ShrinkArguments) -> Done {
    let seed = arguments.seed;
    let shrunk = shrink(seed, arguments.tries);
    let shrunk = shrunk.ok_or_else(|| format!("seed {seed} breaks no promise"))?;
    let name = format!("{}-{seed}.txt", shrunk.broken.promise.replace(' ', "-"));
    let out = arguments.out.clone().unwrap_or_else(|| arguments.folder.join(name));
    let tape = shrunk.tape.clone().with_swarm();
    let (swarm, _) = Swarm::draw(&Source::Tape(tape.clone()));
    let mut comments = vec![
        shrunk.broken.to_string(),
        format!("from seed {seed}, {} of {} decisions", shrunk.tape.len(), shrunk.before),
    ];
    comments.extend(swarm.to_string().lines().map(str::to_owned));
    let written = std::fs::write(&out, regression::write(&tape, &comments)?);
    written.map_err(|error| format!("cannot write {}: {error}", out.display()))?;
    println!(
        "{} of {} decisions are left after {} runs: {}",
        shrunk.tape.len(),
        shrunk.before,
        shrunk.tries,
        out.display()
    );
    println!("{}", shrunk.broken);
    Ok(true)
}
