//! The command line. The only place in the simulator that knows files, threads and the clock.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "it talks to people")]

mod again;
mod batch;
mod bench;
mod coverage;
mod mutants;
mod replay;
mod report;
mod run;
mod shrink;
mod swarm;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Rondo under injected faults: any failure is one seed away.
#[derive(Debug, Parser)]
#[command(name = "rondo-sim", version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run one seed and print its configuration and what came of it.
    Run(run::RunArguments),
    /// Run many seeds, with progress and rates.
    Swarm(swarm::SwarmArguments),
    /// Run one seed again and write its timeline.
    Replay(replay::ReplayArguments),
    /// Find the fewest decisions that break the same promise, and write them to a file.
    Shrink(shrink::ShrinkArguments),
    /// Run many seeds and print how often each fault and each state was reached.
    Coverage(coverage::CoverageArguments),
    /// Plant bugs one by one, and see which oracle finds each and how soon.
    Mutants(mutants::MutantsArguments),
    /// Measure speed on the standard configuration.
    Bench(bench::BenchArguments),
}

/// How a command ended: whether all is well, or why it could not be done.
type Done = Result<bool, String>;

/// Runs the command line.
pub fn main() -> ExitCode {
    let done = match Arguments::parse().command {
        Command::Run(arguments) => run::run(&arguments),
        Command::Swarm(arguments) => swarm::run(&arguments),
        Command::Replay(arguments) => replay::run(&arguments),
        Command::Shrink(arguments) => shrink::run(&arguments),
        Command::Coverage(arguments) => coverage::run(&arguments),
        Command::Mutants(arguments) => mutants::run(&arguments),
        Command::Bench(arguments) => bench::run(&arguments),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(reason) => {
            eprintln!("rondo-sim: {reason}");
            ExitCode::from(2)
        }
    }
}
