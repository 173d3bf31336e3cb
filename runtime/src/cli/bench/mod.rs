//! `rondo bench`: figures of running servers on this machine, side by side.

mod barriers;
mod connected;
mod coordination;
mod coordination_speech;
mod coordination_workload;
mod dispatcher;
mod etcd;
mod exchange;
mod exchange_figures;
mod exchange_gloo;
mod exchange_gpu;
mod exchange_peer;
mod figures;
mod graph;
mod load;
mod output;
mod process;
mod python;
mod read;
mod read_figures;
mod read_files;
mod read_loopback;
mod read_tensorflow;
mod rendezvous;
mod rendezvous_figures;
mod rendezvous_pair;
mod rendezvous_tensorflow;
mod rounds;
mod rpc;
mod target;
mod workload;

use clap::Subcommand;

use self::coordination::CoordinationArgs;
use self::dispatcher::DispatcherArgs;
use self::exchange::ExchangeArgs;
use self::exchange_peer::PeerArgs;
use self::read::ReadArgs;
use self::rendezvous::RendezvousArgs;
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

    /// Measure coordination services of JAX jobs on this machine
    ///
    /// Speaks plain gRPC to a coordination service, and in turn to another one and to an etcd beside
    /// it, so that all are measured under the same load of the machine. Registers tasks and writes
    /// keys: use servers that were started for this purpose, with --tasks tasks and a heartbeat
    /// timeout longer than the run.
    Coordination(CoordinationArgs),

    /// Measure how fast records come from files to a consumer
    ///
    /// Starts a server and two workers on this machine, and reads TFRecord files of its own through
    /// them; in the same rounds, the same files by a plain loop, bytes over a bare connection, and,
    /// if a Python with TensorFlow is named, the same files through TensorFlow's own service.
    Read(ReadArgs),

    /// Measure how fast tensors pass from one worker to another
    ///
    /// Two workers in this process, each on a thread of its own: small tensors one after the other
    /// beside bare calls, large ones four at once beside a bare connection and, if a Python with
    /// TensorFlow is named, beside two of TensorFlow's own workers.
    Rendezvous(RendezvousArgs),

    /// Measure how fast tensors are pushed and pulled between processes
    ///
    /// Starts workers and servers as processes of their own, beside threads that send as many bytes over
    /// a bare connection and copy as many in memory.
    Exchange(ExchangeArgs),

    /// A process of an exchange that is measured
    #[command(hide = true)]
    ExchangePeer(PeerArgs),
}

/// Measures, and prints what was found.
pub(super) fn bench(command: &BenchCommand) -> Result<(), Failure> {
    match command {
        BenchCommand::Dispatcher(args) => dispatcher::run(args),
        BenchCommand::Coordination(args) => coordination::run(args),
        BenchCommand::Read(args) => read::run(args),
        BenchCommand::Rendezvous(args) => rendezvous::run(args),
        BenchCommand::Exchange(args) => exchange::run(args),
        BenchCommand::ExchangePeer(args) => exchange_peer::run(args),
    }
}
