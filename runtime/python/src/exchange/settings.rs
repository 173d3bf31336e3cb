//! What a process of an exchange is started with, from Python's keywords.

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};
use rondo::exchange::Settings;
use rondo::tensor::cuda::{Cuda, CudaSettings};
use rondo_core::exchange::membership::Sizes;
use rondo_core::exchange::{Config, InstanceRank, Policy, Role};
use rondo_core::status::Status;
use rondo_core::time::Duration;

use crate::error::{invalid, raised, seconds};

/// The keywords of a process, beside the bounds.
const KEYWORDS: &str = "workers, servers, group, rank, host, port, insecure, spin, join_timeout, \
                        scheduler_patience, lookup_timeout, unix, shared_bytes, shared_bytes_max, cuda, \
                        staging_bytes";
/// The bounds.
const BOUNDS: &str = "policy, policy_timeout, bootstrap_timeout, heartbeat_interval, heartbeat_timeout, \
                      reconnect_grace, tensors_max, request_bytes_max, handlers_max, traces_max, \
                      worker_requests_max, worker_bytes_max, key_credits, slots_max, batch_fails_on_loss";

/// What these settings come to. What is `None` is as if it were not given.
///
/// # Errors
/// When a setting is not known, or its value is none that it can have.
pub(super) fn settings(
    py: Python<'_>,
    role: &str,
    scheduler: &str,
    keywords: Option<&Bound<'_, PyDict>>,
) -> PyResult<Settings> {
    let role = match role {
        "worker" => Role::Worker,
        "server" => Role::Server,
        _ => return Err(invalid(py, format!("role is {role:?}: it is worker or server"))),
    };
    let sizes = Sizes { workers: 1, servers: 1, group: 1 };
    let mut settings = Settings::new(role, sizes, scheduler);
    let bounds = PyDict::new(py);
    let (mut uses_gpus, mut staging) = (false, CudaSettings::default());
    for (keyword, value) in keywords.into_iter().flatten().filter(|(_, value)| !value.is_none()) {
        let name = keyword.cast::<PyString>()?.to_str()?.to_owned();
        let span = || seconds(py, &name, value.extract()?);
        match name.as_str() {
            "workers" => settings.sizes.workers = value.extract()?,
            "servers" => settings.sizes.servers = value.extract()?,
            "group" => settings.sizes.group = value.extract()?,
            "rank" => settings.rank = Some(InstanceRank::new(value.extract()?)),
            "host" => settings.host = value.extract()?,
            "port" => settings.port = value.extract()?,
            "insecure" => settings.insecure = value.extract()?,
            "spin" => settings.spin = span()?,
            "join_timeout" => settings.join_timeout = Some(span()?),
            "scheduler_patience" => settings.scheduler_patience = Some(span()?),
            "lookup_timeout" => settings.lookup_timeout = span()?,
            "unix" => settings.ways.unix = value.extract()?,
            "shared_bytes" => settings.ways.shared_bytes = value.extract()?,
            "shared_bytes_max" => settings.shared_bytes_max = value.extract()?,
            "cuda" => uses_gpus = value.extract()?,
            "staging_bytes" => staging.staging_bytes_max = value.extract()?,
            _ => bounds.set_item(keyword, value)?,
        }
    }
    if uses_gpus {
        let loaded = Cuda::load(staging).map_err(|error| raised(py, &Status::from(error)))?;
        settings.cuda = Some(loaded);
    }
    settings.config = config(py, Some(&bounds))?;
    Ok(settings)
}

/// The sizes, if they are given: both, or none.
pub(super) fn sizes(
    py: Python<'_>,
    workers: Option<u32>,
    servers: Option<u32>,
    group: u32,
) -> PyResult<Option<Sizes>> {
    match (workers, servers) {
        (Some(workers), Some(servers)) => Ok(Some(Sizes { workers, servers, group })),
        (None, None) => Ok(None),
        _ => Err(invalid(py, "workers and servers are given both, or the first process says them")),
    }
}

/// The bounds that are given, and the usual ones.
pub(super) fn config(py: Python<'_>, bounds: Option<&Bound<'_, PyDict>>) -> PyResult<Config> {
    let mut config = Config::default();
    let mut policy_timeout = Duration::from_secs(60);
    for (keyword, value) in bounds.into_iter().flatten().filter(|(_, value)| !value.is_none()) {
        let name = keyword.cast::<PyString>()?.to_str()?.to_owned();
        let span = || -> PyResult<Duration> {
            let span = seconds(py, &name, value.extract()?)?;
            Ok(Duration::from_nanos(u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)))
        };
        match name.as_str() {
            "policy" => config.policy = policy(py, &value.extract::<String>()?)?,
            "policy_timeout" => policy_timeout = span()?,
            "bootstrap_timeout" => config.bootstrap_timeout = Some(span()?),
            "heartbeat_interval" => config.heartbeat_interval = span()?,
            "heartbeat_timeout" => config.heartbeat_timeout = span()?,
            "reconnect_grace" => config.reconnect_grace = span()?,
            "tensors_max" => config.tensors_max = value.extract()?,
            "request_bytes_max" => config.request_bytes_max = value.extract()?,
            "handlers_max" => config.handlers_max = value.extract()?,
            "traces_max" => config.traces_max = value.extract()?,
            "worker_requests_max" => config.worker_requests_max = value.extract()?,
            "worker_bytes_max" => config.worker_bytes_max = value.extract()?,
            "key_credits" => config.key_credits = value.extract()?,
            "slots_max" => config.slots_max = value.extract()?,
            "batch_fails_on_loss" => config.batch_fails_on_loss = value.extract()?,
            _ => {
                let text = format!("there is no setting {name:?}: there are {KEYWORDS}, {BOUNDS}");
                return Err(invalid(py, text));
            }
        }
    }
    if let Policy::WaitForReturn { timeout } = &mut config.policy {
        *timeout = policy_timeout;
    }
    Ok(config)
}

fn policy(py: Python<'_>, name: &str) -> PyResult<Policy> {
    match name {
        "fail" => Ok(Policy::Fail),
        "partial" => Ok(Policy::Partial),
        "wait_for_return" => Ok(Policy::WaitForReturn { timeout: Duration::ZERO }),
        _ => {
            Err(invalid(py, format!("policy is {name:?}: it is fail, partial or wait_for_return")))
        }
    }
}
