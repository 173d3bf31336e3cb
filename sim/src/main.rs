//! `rondo-sim`: runs, replays and shrinks simulations.

use std::process::ExitCode;

fn main() -> ExitCode {
    rondo_sim::cli::main()
}
