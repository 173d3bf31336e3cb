//! `rondo job`: the jobs that read datasets.

use clap::Subcommand;
use rondo_core::dispatcher::Report;
use rondo_proto::admin as wire;
use rondo_proto::convert::{self, DELETE_JOB_PATH};

use super::ask::{ServerArgs, name, run};
use super::exit::Failure;
use super::journal::say;
use super::status_tables::{freed_jobs, jobs};

/// What to do about jobs.
#[derive(Subcommand, Clone, Debug, PartialEq, Eq)]
pub(super) enum JobCommand {
    /// Show all jobs, and which passes of freed ones were read or abandoned
    List {
        #[command(flatten)]
        server: ServerArgs,
    },
    /// Delete a job and all that is known of it: who reads its name next reads everything anew
    ///
    /// Refused while clients read the job. A job that nobody uses goes by itself after
    /// --named-job-retention, but the server remembers which of its repetitions were read or
    /// abandoned; this command makes the server forget that too.
    Delete {
        /// The job's name (`--job` of `read`, `job_name` of `distribute`)
        #[arg(value_name = "NAME", value_parser = name)]
        name: String,

        #[command(flatten)]
        server: ServerArgs,
    },
}

/// Carries out a command about jobs.
pub(super) fn job(command: &JobCommand) -> Result<(), Failure> {
    say(run(carry_out(command))?.trim_end())
}

async fn carry_out(command: &JobCommand) -> Result<String, Failure> {
    match command {
        JobCommand::List { server } => Ok(list(&report(server).await?)),
        JobCommand::Delete { name, server } => {
            let request = wire::DeleteJobRequest { name: name.clone() };
            let _: wire::DeleteJobResponse = server.ask(DELETE_JOB_PATH, &request).await?;
            Ok(format!("job {name:?} deleted"))
        }
    }
}

/// All jobs, and those that were freed if there are any.
fn list(report: &Report) -> String {
    let jobs = jobs(&report.jobs, usize::MAX, true);
    match report.freed_jobs.is_empty() {
        true => jobs,
        false => format!("{jobs}\n{}", freed_jobs(&report.freed_jobs)),
    }
}

/// What a server's dispatcher has.
///
/// # Errors
/// As [`ServerArgs::ask`].
pub(super) async fn report(server: &ServerArgs) -> Result<Report, Failure> {
    let response = server.status().await?;
    Ok(convert::report(response.dispatcher.unwrap_or_default()))
}
