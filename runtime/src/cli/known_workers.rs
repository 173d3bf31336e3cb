//! `rondo worker list` and `rondo worker remove`: the workers that a server knows.

use clap::Subcommand;
use rondo_proto::admin as wire;
use rondo_proto::convert::REMOVE_WORKER_PATH;

use super::ask::{ServerArgs, run};
use super::exit::Failure;
use super::job::report;
use super::journal::say;
use super::status_tables::workers;

/// What to do about workers that a server knows.
#[derive(Subcommand, Clone, Debug, PartialEq, Eq)]
pub(super) enum KnownWorkersCommand {
    /// Show all workers that a server knows
    List {
        #[command(flatten)]
        server: ServerArgs,
    },
    /// Make a server forget a worker that is lost
    ///
    /// Refused while the worker is heard, and while iterations have tasks of it. A lost worker without
    /// tasks is forgotten by itself after --lost-worker-retention.
    Remove {
        /// The worker's address, as `list` shows it
        #[arg(value_name = "HOST:PORT")]
        address: String,

        #[command(flatten)]
        server: ServerArgs,
    },
}

/// Carries out a command about workers that a server knows.
pub(super) fn known_workers(command: &KnownWorkersCommand) -> Result<(), Failure> {
    say(run(carry_out(command))?.trim_end())
}

async fn carry_out(command: &KnownWorkersCommand) -> Result<String, Failure> {
    match command {
        KnownWorkersCommand::List { server } => {
            Ok(workers(&report(server).await?.workers, usize::MAX, true))
        }
        KnownWorkersCommand::Remove { address, server } => {
            let request = wire::RemoveWorkerRequest { address: address.clone() };
            let _: wire::RemoveWorkerResponse = server.ask(REMOVE_WORKER_PATH, &request).await?;
            Ok(format!("worker {address} removed"))
        }
    }
}
