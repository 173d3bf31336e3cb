//! `rondo bench`: figures of running servers on this machine, side by side.

mod dispatcher;
mod figures;
mod graph;
mod load;
mod process;
mod workload;

use clap::Subcommand;

use self::dispatcher::DispatcherArgs;
use super::exit::Failure;

/// What to measure.
#[derive(Subcommand, Clone, Debug, PartialEq)]
pub(super) enum BenchCommand {
    /// Measure dispatchers of the tf.data service on this machine
    ///
    /// Speaks plain gRPC to a dispatcher, and to a second one beside it in turn, so that both are
    /// measured under the same load of the machine. Registers a worker, datasets and jobs: use
    /// servers that were started for this purpose and have nothing else to do.
    Dispatcher(DispatcherArgs),
}

/// Measures, and prints what was found.
pub(super) fn bench(command: &BenchCommand) -> Result<(), Failure> {
    match command {
        BenchCommand::Dispatcher(args) => dispatcher::run(args),
    }
}
