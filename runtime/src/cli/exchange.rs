//! `rondo exchange`: processes of an exchange that are no programs of the user's.

use std::net::ToSocketAddrs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use clap::{ArgAction, Args, Subcommand};
use rondo_core::exchange::Config;
use rondo_core::exchange::membership::Sizes;
use rondo_core::exchange::scheduler::Settings;
use rondo_core::status::{Code, Status};
use rondo_core::time::Duration;
use tokio::signal::unix::{SignalKind, signal};

use super::exit::{Exit, Failure};
use super::serve_args::LogArgs;
use super::units::Span;
use super::{log, threads};
use crate::config::Listen;
use crate::exchange::Scheduler;

/// What of an exchange to run.
#[derive(Subcommand, Clone, Debug, PartialEq, Eq)]
pub(super) enum ExchangeCommand {
    /// Know who takes part: give out ranks, notice who is lost, hold barriers
    ///
    /// Workers and servers find it by DMLC_PS_ROOT_URI and DMLC_PS_ROOT_PORT. It ends when all of them
    /// have stopped; SIGTERM or SIGINT ends it at once. It keeps nothing: started again at the same
    /// address, it learns from who is still there.
    Scheduler(Box<SchedulerArgs>),
}

/// Settings of a scheduler.
#[derive(Args, Clone, Debug, PartialEq, Eq)]
pub(super) struct SchedulerArgs {
    /// Address that processes dial; port 0 lets the system choose
    #[arg(
        long,
        env = "RONDO_EXCHANGE_LISTEN",
        value_name = "HOST:PORT",
        default_value = "127.0.0.1:5052"
    )]
    listen: Listen,

    /// Groups of workers [default: as many as the first process says]
    #[arg(long, env = "DMLC_NUM_WORKER", value_name = "COUNT", requires = "servers",
          value_parser = clap::value_parser!(u32).range(1..=1 << 15))]
    workers: Option<u32>,

    /// Groups of servers [default: as many as the first process says]
    #[arg(long, env = "DMLC_NUM_SERVER", value_name = "COUNT", requires = "workers",
          value_parser = clap::value_parser!(u32).range(1..=1 << 15))]
    servers: Option<u32>,

    /// Processes of each group
    #[arg(long, env = "DMLC_GROUP_SIZE", value_name = "COUNT", default_value_t = 1,
          value_parser = clap::value_parser!(u32).range(1..=1 << 10))]
    group_size: u32,

    /// How long to wait until all have come, such as 5m [default: as long as it takes]
    #[arg(long, env = "RONDO_EXCHANGE_BOOTSTRAP_TIMEOUT", value_name = "SPAN")]
    bootstrap_timeout: Option<Span>,

    /// How long a process may be silent until it is lost
    #[arg(
        long,
        env = "RONDO_EXCHANGE_HEARTBEAT_TIMEOUT",
        value_name = "SPAN",
        default_value = "10s"
    )]
    heartbeat_timeout: Span,

    /// How long a process may be without a connection until it is lost
    #[arg(long, env = "RONDO_EXCHANGE_RECONNECT_GRACE", value_name = "SPAN", default_value = "2s")]
    reconnect_grace: Span,

    /// Workers and servers together, in processes
    #[arg(long, env = "RONDO_EXCHANGE_PROCESSES_MAX", value_name = "COUNT", default_value_t = 1 << 16,
          value_parser = clap::value_parser!(u32).range(2..))]
    processes_max: u32,

    /// Go on without those who are lost at barriers, instead of failing there
    #[arg(long, env = "RONDO_EXCHANGE_WITHOUT_LOST", value_name = "BOOL", action = ArgAction::Set,
          num_args = 0..=1, default_value_t = false, default_missing_value = "true")]
    without_lost: bool,

    /// Allow an address that other machines can reach without TLS
    #[arg(long, env = "RONDO_INSECURE", value_name = "BOOL", action = ArgAction::Set,
          num_args = 0..=1, default_value_t = false, default_missing_value = "true")]
    insecure: bool,

    #[command(flatten)]
    log: LogArgs,
}

impl SchedulerArgs {
    fn settings(&self) -> Settings {
        let defaults = Config::default();
        let heartbeat_timeout: Duration = self.heartbeat_timeout.0;
        let tenth = Duration::from_nanos(heartbeat_timeout.as_nanos() / 10);
        let config = Config {
            processes_max: self.processes_max,
            bootstrap_timeout: self.bootstrap_timeout.map(|span| span.0),
            heartbeat_interval: defaults.heartbeat_interval.min(tenth),
            heartbeat_timeout,
            reconnect_grace: self.reconnect_grace.0,
            ..defaults
        };
        let sizes = self.workers.zip(self.servers).map(|(workers, servers)| Sizes {
            workers,
            servers,
            group: self.group_size,
        });
        let goes_on_without_lost = self.without_lost;
        Settings { config, sizes, takes_part: false, goes_on_without_lost }
    }
}

/// Runs a process of an exchange.
pub(super) fn exchange(command: &ExchangeCommand) -> Result<(), Failure> {
    match command {
        ExchangeCommand::Scheduler(args) => scheduler(args),
    }
}

fn scheduler(args: &SchedulerArgs) -> Result<(), Failure> {
    log::start(&args.log)?;
    let failed = |error| Failure::new(Exit::Other, error);
    let stopped = stop_flag()?;
    let Listen { host, port } = &args.listen;
    let unknown =
        |error| Failure::new(Exit::Usage, format!("cannot resolve {}: {error}", args.listen));
    (host.as_str(), *port).to_socket_addrs().map_err(unknown)?;
    let scheduler = Scheduler::start(args.settings(), host, *port, args.insecure);
    let scheduler = scheduler.map_err(|status| Failure::new(exit_of(&status), status))?;
    tracing::info!(address = scheduler.address(), "scheduler of an exchange");
    let mut goes_on = || !stopped.load(Ordering::Relaxed);
    let ended = scheduler.ready(&mut goes_on).and_then(|()| scheduler.ended(&mut goes_on));
    match ended {
        Err(status) if goes_on() => Err(failed(status)),
        _ => Ok(()),
    }
}

/// How the exit status shows that a scheduler does not start.
fn exit_of(status: &Status) -> Exit {
    match status.code {
        Code::InvalidArgument => Exit::Usage,
        _ => Exit::Other,
    }
}

/// Becomes true at SIGTERM or SIGINT.
fn stop_flag() -> Result<Arc<AtomicBool>, Failure> {
    let stopped = Arc::new(AtomicBool::new(false));
    let runtime = threads::pool(Some(1))?;
    let flag = Arc::clone(&stopped);
    let other = |error: std::io::Error| Failure::new(Exit::Other, error);
    let (mut terminate, mut interrupt) = {
        let _within = runtime.enter();
        let both = (signal(SignalKind::terminate()), signal(SignalKind::interrupt()));
        (both.0.map_err(other)?, both.1.map_err(other)?)
    };
    std::thread::spawn(move || {
        runtime.block_on(async {
            tokio::select! {
                biased;
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
        });
        flag.store(true, Ordering::Relaxed);
    });
    Ok(stopped)
}
