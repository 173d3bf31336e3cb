//! `rondo status`.

use std::io::Write;

use bytes::Bytes;
use clap::{Args, ValueEnum};
use prost::Message;
use rondo_core::coordination;
use rondo_core::dispatcher::Report;
use rondo_core::status::Code;
use rondo_proto::admin as wire;
use rondo_proto::convert::{self, GET_STATUS_PATH, HEALTH_CHECK_PATH};
use serde::Serialize;

use super::ask::{address, noticed};
use super::exit::{Exit, Failure};
use super::status_tables;
use super::units::Span;
use crate::service::JournalStatus;
use crate::transport::Transport;
use crate::transport::grpc_client::GrpcClient;

/// What to show of which server.
#[derive(Args, Clone, Debug, PartialEq, Eq)]
pub(super) struct StatusArgs {
    /// The server to ask
    #[arg(long, env = "RONDO_SERVER", value_name = "HOST:PORT", default_value = "127.0.0.1:5050",
          value_parser = address)]
    server: String,

    /// Form of the answer
    #[arg(long, value_name = "FORM", default_value = "table")]
    format: Format,

    /// Parts to show in tables, comma-separated
    #[arg(long, value_name = "LIST", value_delimiter = ',',
          default_values = ["server", "journal", "datasets", "workers", "jobs", "iterations",
                            "tasks", "clients", "namespaces", "coordinated", "waits"])]
    section: Vec<Section>,

    /// Rows to show of each table; 0 shows all
    #[arg(long, value_name = "ROWS", default_value_t = 50)]
    limit: usize,

    /// How long to wait for the server
    #[arg(long, env = "RONDO_STATUS_TIMEOUT", value_name = "SPAN", default_value = "10s")]
    timeout: Span,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// Tables as narrow as can be
    Table,
    /// Tables with every column, nothing cut off
    Wide,
    /// One JSON object
    Json,
}

/// A part of the picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Section {
    /// The process
    Server,
    /// Where the state is kept
    Journal,
    /// Registered datasets
    Datasets,
    /// Registered workers
    Workers,
    /// Jobs
    Jobs,
    /// Passes of jobs, with their splits and rounds
    Iterations,
    /// Shares of workers in iterations
    Tasks,
    /// Clients of iterations
    Clients,
    /// Jobs whose processes are coordinated
    Namespaces,
    /// Their processes
    Coordinated,
    /// What those wait for
    Waits,
}

/// The whole picture.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(super) struct Status {
    pub(super) server: ServerStatus,
    pub(super) journal: JournalStatus,
    pub(super) dispatcher: Report,
    pub(super) coordination: coordination::Report,
}

/// The process.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct ServerStatus {
    pub(super) version: String,
    pub(super) listen_address: String,
    pub(super) uptime_ms: u64,
    pub(super) healthy: bool,
    pub(super) reason: String,
    /// The bytes that the process has resident, without shared memory; 0 where the system does not
    /// tell.
    pub(super) memory_bytes: u64,
    /// How many of them it may have; 0 for no bound.
    pub(super) memory_bytes_max: u64,
    /// Whether the server refuses what makes the state larger, for want of memory.
    pub(super) refuses_state: bool,
}

/// Asks a server for its status and prints it.
pub(super) fn status(args: &StatusArgs) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::new(Exit::Other, error))?;
    let status = runtime.block_on(ask(args))?;
    let text = render(&status, args).map_err(|error| Failure::new(Exit::Other, error))?;
    let printed = std::io::stdout().write_all(text.as_bytes());
    printed.map_err(|error| Failure::new(Exit::Other, error))?;
    if status.server.healthy {
        return Ok(());
    }
    let text = format!("the server is not healthy: {}", status.server.reason);
    Err(Failure::new(Exit::Unhealthy, text))
}

async fn ask(args: &StatusArgs) -> Result<Status, Failure> {
    let client = GrpcClient::new();
    let deadline = args.timeout.std();
    let call = |path| {
        let asked = client.unary(&args.server, path, Bytes::new(), deadline);
        noticed(&args.server, deadline, asked)
    };
    // A server that answers this one is there, whatever it says next.
    call(HEALTH_CHECK_PATH).await.map_err(|status| match status.code {
        Code::Unimplemented => {
            let text = format!("{} is no Rondo server: {}", args.server, status.message);
            Failure::new(Exit::Other, text)
        }
        _ => Failure::new(Exit::Unreachable, status.message),
    })?;
    let answer = call(GET_STATUS_PATH).await.map_err(|status| match status.code {
        Code::Unavailable => Failure::new(
            Exit::Unhealthy,
            format!("{} is not ready: {}", args.server, status.message),
        ),
        Code::DeadlineExceeded => Failure::new(Exit::Unhealthy, status.message),
        _ => Failure::new(Exit::Other, format!("{}: {status}", args.server)),
    })?;
    decode(answer).map_err(|error| {
        Failure::new(Exit::Other, format!("{} answers with no status: {error}", args.server))
    })
}

fn decode(answer: Bytes) -> Result<Status, prost::DecodeError> {
    let answer = wire::GetStatusResponse::decode(answer)?;
    let server = answer.server.unwrap_or_default();
    Ok(Status {
        server: ServerStatus {
            version: server.version,
            listen_address: server.listen_address,
            uptime_ms: server.uptime_ms,
            healthy: server.healthy,
            reason: server.reason,
            memory_bytes: server.memory_bytes,
            memory_bytes_max: server.memory_bytes_max,
            refuses_state: server.refuses_state,
        },
        journal: answer.journal.unwrap_or_default().into(),
        dispatcher: convert::report(answer.dispatcher.unwrap_or_default()),
        coordination: convert::coordination_report(answer.coordination.unwrap_or_default()),
    })
}

fn render(status: &Status, args: &StatusArgs) -> Result<String, serde_json::Error> {
    let limit = if args.limit == 0 { usize::MAX } else { args.limit };
    match args.format {
        Format::Json => Ok(serde_json::to_string_pretty(status)? + "\n"),
        Format::Table => Ok(status_tables::render(status, &args.section, limit, false)),
        Format::Wide => Ok(status_tables::render(status, &args.section, limit, true)),
    }
}
