//! `rondo namespace`: the jobs that a server coordinates.

use clap::Subcommand;
use rondo_core::coordination::{NamespaceReport, Report};
use rondo_proto::admin as wire;
use rondo_proto::convert::{self, RESET_NAMESPACE_PATH};

use super::ask::{ServerArgs, run};
use super::exit::Failure;
use super::journal::say;
use super::status_coordination::namespaces;

/// What to do about namespaces.
#[derive(Subcommand, Clone, Debug, PartialEq, Eq)]
pub(super) enum NamespaceCommand {
    /// Show all namespaces
    List {
        #[command(flatten)]
        server: ServerArgs,
    },
    /// Begin a new life of a namespace
    ///
    /// Whoever takes part in the present life is told that it is over; its keys, barriers and
    /// errors are gone. It is not needed for a job that starts again after all its tasks have left
    /// or died: that begins a new life by itself.
    Reset {
        /// The namespace; `default` is the one that needs no flag
        #[arg(value_name = "NAME")]
        name: String,

        #[command(flatten)]
        server: ServerArgs,
    },
}

/// Carries out a command about namespaces.
pub(super) fn namespace(command: &NamespaceCommand) -> Result<(), Failure> {
    say(run(carry_out(command))?.trim_end())
}

async fn carry_out(command: &NamespaceCommand) -> Result<String, Failure> {
    match command {
        NamespaceCommand::List { server } => {
            let all: Vec<NamespaceReport> = report(server).await?.namespaces;
            Ok(namespaces(&all, usize::MAX, true))
        }
        NamespaceCommand::Reset { name, server } => {
            let request = wire::ResetNamespaceRequest { name: name.clone() };
            let response: wire::ResetNamespaceResponse =
                server.ask(RESET_NAMESPACE_PATH, &request).await?;
            let life = response.service_incarnation;
            Ok(format!("namespace {name:?} begins a new life: {life}"))
        }
    }
}

/// What a server coordinates.
///
/// # Errors
/// As [`ServerArgs::ask`].
pub(super) async fn report(server: &ServerArgs) -> Result<Report, Failure> {
    let response = server.status().await?;
    Ok(convert::coordination_report(response.coordination.unwrap_or_default()))
}
