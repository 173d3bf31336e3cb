//! `rondo relay`.

use clap::{ArgAction, Args};
use rondo_core::coordination::{DEFAULT_NAMESPACE, NamespaceConfig};
use rondo_core::limits::RELAY_PATIENCE_MAX;
use rondo_core::relay;
use rondo_core::time::Duration;

use super::exit::{Exit, Failure};
use super::from_cluster::{FromCluster, told};
use super::layers::Settings;
use super::memory_max::MemoryMax;
use super::serve::exit_of;
use super::serve_args::LogArgs;
use super::units::{Span, size};
use super::{log, threads};
use crate::config::Listen;
use crate::descriptors;
use crate::memory::{self, Ceiling};
use crate::relay::{Config, run};
use crate::transport::budget::Budget;
use crate::transport::{ServerConfig, UNREAD_MAX};

/// Room above the bounds of clients and of their calls, so that whoever hits one is told instead of
/// waiting.
const ROOM: u32 = 64;

/// Settings of a relay.
#[derive(Args, Clone, Debug, PartialEq, Eq)]
pub(super) struct RelayArgs {
    /// Address that the processes of this machine dial; port 0 lets the system choose
    #[arg(
        long,
        env = "RONDO_RELAY_LISTEN",
        value_name = "HOST:PORT",
        default_value = "127.0.0.1:5051"
    )]
    listen: Listen,

    /// The server, at the port of the job's namespace
    #[arg(long, env = "RONDO_UPSTREAM", value_name = "HOST:PORT")]
    upstream: Option<Listen>,

    /// The namespace that the server's port must be that of [default: whichever it is]
    #[arg(long, env = "RONDO_RELAY_NAMESPACE", value_name = "NAME", default_value = "")]
    namespace: String,

    /// How long the server may be away until clients are told, such as 10m; 1h at most
    #[arg(long, env = "RONDO_UPSTREAM_PATIENCE", value_name = "SPAN", default_value = "10m")]
    upstream_patience: Span,

    /// How long the server may take over a heartbeat until the relay answers it; must be less than
    /// half the clients' heartbeat timeout
    #[arg(long, env = "RONDO_HEARTBEAT_PATIENCE", value_name = "SPAN", default_value = "2s")]
    heartbeat_patience: Span,

    /// Connections of clients
    #[arg(long, env = "RONDO_CLIENTS_MAX", value_name = "COUNT", default_value_t = 512,
          value_parser = clap::value_parser!(u32).range(1..))]
    clients_max: u32,

    /// Calls under way
    #[arg(long, env = "RONDO_CALLS_MAX", value_name = "COUNT", default_value_t = 2500,
          value_parser = clap::value_parser!(u32).range(1..))]
    calls_max: u32,

    /// Calls under way of one client
    #[arg(long, env = "RONDO_CALLS_PER_CLIENT_MAX", value_name = "COUNT", default_value_t = 1250,
          value_parser = clap::value_parser!(u32).range(1..))]
    calls_per_client_max: u32,

    /// Memory for messages of all calls under way together, and for as many bytes of long answers
    #[arg(long, env = "RONDO_HELD_SIZE_MAX", value_name = "SIZE", default_value = "1GiB",
          value_parser = size(1024..))]
    held_size_max: u64,

    /// Memory that the relay may have; auto: a quarter of what the machine or the container has; none:
    /// no bound. A relay that has so much refuses calls that take more
    #[arg(long, env = "RONDO_MEMORY_MAX", value_name = "SIZE", default_value = "auto",
          value_parser = MemoryMax::read)]
    memory_max: MemoryMax,

    /// Allow an address that other machines can reach without TLS
    #[arg(long, env = "RONDO_INSECURE", value_name = "BOOL", action = ArgAction::Set,
          num_args = 0..=1, default_value_t = false, default_missing_value = "true")]
    insecure: bool,

    #[command(flatten)]
    from_cluster: FromCluster,

    #[command(flatten)]
    log: LogArgs,
}

impl RelayArgs {
    fn patience(&self) -> Result<Duration, Failure> {
        let (patience, most) = (self.upstream_patience.0, RELAY_PATIENCE_MAX);
        if patience <= most {
            return Ok(patience);
        }
        let text = format!(
            "--upstream-patience is {} ms, at most {} ms can be: the server forgets after twice as long what \
             a relay has asked, and would do it again",
            patience.as_millis(),
            most.as_millis()
        );
        Err(Failure::new(Exit::Usage, text))
    }

    /// Memory for messages that go one way.
    fn budget(&self, ceiling: &Ceiling) -> Budget {
        Budget::below(ceiling.clone(), self.held_size_max, self.held_size_max / 2)
    }

    fn resolve(&self) -> Result<Config, Failure> {
        // The cluster may tell it, so that clap cannot ask for it.
        let upstream = self.upstream.as_ref().ok_or_else(|| {
            let text =
                "--upstream HOST:PORT is missing: the server, at the port of the job's namespace";
            Failure::new(Exit::Usage, text)
        })?;
        let count = |count: u32| usize::try_from(count).unwrap_or(usize::MAX);
        let relay = relay::Config {
            patience: self.patience()?,
            heartbeat_patience: self.heartbeat_patience.0,
            clients_max: count(self.clients_max),
            calls_max: count(self.calls_max),
            calls_per_client_max: count(self.calls_per_client_max),
            held_bytes_max: self.held_size_max,
            ..relay::Config::of(upstream.to_string())
        };
        let ceiling = memory::watched("the relay", self.memory_max.bytes());
        let connections = count(self.clients_max.saturating_add(ROOM));
        let server = ServerConfig {
            budget: self.budget(&ceiling),
            connections_max: descriptors::allowed(1, connections, "--clients-max"),
            calls_per_connection_max: self.calls_per_client_max.saturating_add(ROOM),
            unread_max: Some(unread_max()),
            ..ServerConfig::default()
        };
        Ok(Config {
            listen: self.listen.clone(),
            insecure: self.insecure,
            namespace: self.namespace.clone(),
            relay,
            server,
            answers: self.budget(&ceiling),
        })
    }
}

/// How long a long answer may stay unread. A task that the server takes for alive, by default, keeps its
/// connection.
fn unread_max() -> std::time::Duration {
    let silence = NamespaceConfig::named(DEFAULT_NAMESPACE).heartbeat_timeout;
    UNREAD_MAX.saturating_add(std::time::Duration::from_millis(silence.as_millis()))
}

/// Relays until it is asked to stop.
pub(super) fn relay(args: &RelayArgs, settings: &Settings) -> Result<(), Failure> {
    log::start(&args.log)?;
    let config = args.resolve()?;
    if let Some(told) = told(settings) {
        tracing::info!("{told}");
    }
    let runtime = threads::pool(Some(1))?;
    runtime.block_on(run(config)).map_err(|error| Failure::new(exit_of(&error), error))
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::*;
    use crate::cli::{Cli, Command, parse};

    fn resolved(flags: &[&str]) -> Config {
        let arguments = ["rondo", "relay", "--upstream=127.0.0.1:1", "--memory-max=none"];
        let arguments = arguments.iter().chain(flags).map(OsString::from);
        let parsed = parse(arguments.collect());
        let Ok((Cli { command: Command::Relay(args) }, _)) = parsed else { panic!("not relay") };
        args.resolve().unwrap()
    }

    #[test]
    fn the_bounds_of_a_relay_are_those_of_its_core() {
        let (found, core) = (resolved(&[]).relay, relay::Config::of("127.0.0.1:1"));
        assert_eq!(found, core);
        let lowered = resolved(&["--clients-max=2", "--calls-max=3", "--calls-per-client-max=4"]);
        let core = relay::Config { clients_max: 2, calls_max: 3, calls_per_client_max: 4, ..core };
        assert_eq!(lowered.relay, core);
    }

    /// A server takes so many calls from one relay. Two calls of each client have room of their own.
    #[test]
    fn a_server_takes_all_calls_of_a_relay() {
        let relay = relay::Config::of("127.0.0.1:1");
        let all = relay.calls_max + 3 * relay.clients_max;
        let server = ServerConfig::default().calls_per_connection_max;
        assert!(all <= usize::try_from(server).unwrap(), "{all} calls of a relay");
    }

    /// In numbers: a task may be silent for 100 s, and its connection has 60 s more.
    #[test]
    fn a_client_that_does_not_read_its_answers_loses_its_connection() {
        let unread_max = resolved(&[]).server.unread_max;
        assert_eq!(unread_max.map(|most| most.as_secs()), Some(160));
    }
}
