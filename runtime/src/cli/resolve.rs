//! From flags to a checked [`Config`].

use std::path::PathBuf;

use rondo_core::time::Duration;
use rondo_core::{coordination, dispatcher};

use super::layers::{Settings, Source};
use super::serve_args::ServeArgs;
use super::units::{Span, SpanOrNever};
use crate::config::{Bounds, Config, Listen, Storage};
use crate::memory::{Ceiling, SnapshotPlan};

/// The environment's word on where state belongs.
#[derive(Clone, Debug, Default)]
pub(super) struct Home {
    /// `XDG_STATE_HOME`.
    pub(super) state: Option<PathBuf>,
    /// `HOME`.
    pub(super) home: Option<PathBuf>,
}

impl Home {
    /// Reads the environment.
    pub(super) fn from_environment() -> Self {
        let path = |name| std::env::var_os(name).map(PathBuf::from);
        Self { state: path("XDG_STATE_HOME"), home: path("HOME") }
    }

    /// Where data lies when nobody says where. Relative paths do not count, as the XDG base
    /// directory specification wants.
    fn data(&self) -> Option<PathBuf> {
        let absolute = |path: &Option<PathBuf>| path.clone().filter(|path| path.is_absolute());
        let state = absolute(&self.state);
        let state = state.or_else(|| Some(absolute(&self.home)?.join(".local/state")));
        Some(state?.join("rondo"))
    }
}

/// Resolves and checks settings.
///
/// # Errors
/// A text that names the flags at odds.
pub(super) fn resolve(
    args: &ServeArgs,
    settings: &Settings,
    home: &Home,
) -> Result<Config, String> {
    if args.message_size_max > args.inflight_size_max {
        return Err(format!(
            "--message-size-max ({}) exceeds --inflight-size-max ({}): such a message could \
             never pass",
            args.message_size_max, args.inflight_size_max
        ));
    }
    let (namespaces, namespace_ports) =
        args.coordination.resolve(args.message_size_max, args.memory_max.bytes())?;
    Ok(Config {
        listen: listen(args, settings),
        insecure: args.insecure,
        storage: storage(args, home)?,
        dispatcher: dispatcher_config(args),
        coordination: coordination::Config { namespaces },
        namespace_ports,
        rendezvous: args.rendezvous.resolve(args.memory_max.bytes()),
        protocol_version: args.protocol_version,
        bounds: Bounds {
            message_bytes_max: args.message_size_max,
            memory_bytes_max: args.memory_max.bytes(),
            inflight_bytes_max: args.inflight_size_max,
            connections_max: usize::try_from(args.connections_max).unwrap_or(usize::MAX),
            calls_per_connection_max: args.calls_per_connection_max,
            shared_memory_bytes_max: args.shared_memory_size_max,
            queue_calls_max: usize::try_from(args.queue_calls_max).unwrap_or(usize::MAX),
            batch_calls_max: usize::try_from(args.batch_calls_max).unwrap_or(usize::MAX),
            shutdown_grace: args.shutdown_grace.std(),
        },
    })
}

/// A warning that keys may take more than the memory for state, if the settings allow that.
pub(super) fn keys_above_memory(config: &Config) -> Option<String> {
    let memory = config.bounds.memory_bytes_max?;
    let (snapshots, files) = match config.storage {
        Storage::Memory => (SnapshotPlan::Never, ""),
        Storage::Directory { .. } => {
            (SnapshotPlan::Planned, " (values above 64 KiB lie in files and take none)")
        }
    };
    let state = Ceiling::new(memory).state_bytes_max(snapshots);
    let sizes = config.coordination.namespaces.iter().map(|namespace| namespace.store_bytes_max);
    let keys = sizes.fold(0, u64::saturating_add);
    (keys > state).then(|| {
        format!(
            "all keys together may have {keys} bytes (--namespace-size-max of each namespace), and the \
             server's state about {state} of memory, as --memory-max is {memory}{files}: when that \
             is full, new keys are refused in every namespace"
        )
    })
}

/// A port replaces the address's, unless the address was said more urgently (a flag before the
/// environment before the file).
fn listen(args: &ServeArgs, settings: &Settings) -> Listen {
    let urgency = |key| settings.get(key).map_or(Source::Default, |setting| setting.source);
    let mut listen = args.listen.clone();
    if let Some(port) = args.port
        && urgency("port") >= urgency("listen")
    {
        listen.port = port;
    }
    listen
}

fn storage(args: &ServeArgs, home: &Home) -> Result<Storage, String> {
    if !args.fault_tolerant {
        return Ok(Storage::Memory);
    }
    let path = match args.data.as_deref() {
        Some("") => {
            return Err("--fault-tolerant needs a data directory: give one with --data, or say \
                        --fault-tolerant=false to keep state in memory only"
                .into());
        }
        Some(path) => std::path::absolute(path).map_err(|error| format!("--data {path}: {error}")),
        None => home.data().ok_or_else(|| {
            "no data directory: neither XDG_STATE_HOME nor HOME is set; give one with --data".into()
        }),
    };
    Ok(Storage::Directory {
        path: path?,
        store: args.store.map(Into::into),
        free_space_reserve_bytes: args.free_space_reserve,
        segment_bytes_max: args.segment_size_max,
    })
}

fn dispatcher_config(args: &ServeArgs) -> dispatcher::Config {
    let default = dispatcher::Config::default();
    let span = |span: Span, default| span.unless_zero().unwrap_or(default);
    dispatcher::Config {
        fault_tolerant: args.fault_tolerant,
        worker_addresses: args.worker_addresses.0.clone(),
        deployment_mode: args.deployment_mode.0,
        job_gc_check_interval: span(args.job_gc_check_interval, default.job_gc_check_interval),
        job_gc_timeout: unless_never(args.job_gc_timeout, default.job_gc_timeout),
        named_job_retention: args.named_job_retention.unless_zero(),
        dataset_retention: args.dataset_retention.unless_zero(),
        abandoned_iteration_retention: args.abandoned_iteration_retention.unless_zero(),
        lost_worker_retention: args.lost_worker_retention.unless_zero(),
        client_timeout: span(args.client_timeout, default.client_timeout),
        reader_timeout: span(args.reader_timeout, default.reader_timeout),
        client_first_heartbeat_timeout: span(
            args.client_first_heartbeat_timeout,
            default.client_first_heartbeat_timeout,
        ),
        worker_timeout: unless_never(args.worker_timeout, default.worker_timeout),
        reissue_lost_splits: args.reissue_lost_splits,
        gc_dynamic_sharding_jobs: args.gc_dynamic_sharding_jobs,
        removal_timeout: span(args.removal_timeout, default.removal_timeout),
        ids_above: args.ids_above,
        bounds: default.bounds,
    }
}

/// A span that `never` switches off and 0 leaves at its default.
fn unless_never(span: SpanOrNever, default: Option<Duration>) -> Option<Duration> {
    match span {
        SpanOrNever::Never => None,
        SpanOrNever::After(Duration::ZERO) => default,
        SpanOrNever::After(span) => Some(span),
    }
}
