//! The settings of the coordination service among those of `rondo serve`.

use std::str::FromStr;

use clap::{ArgAction, Args};
use rondo_core::coordination::{DEFAULT_NAMESPACE, NamespaceConfig, Progress};
use rondo_core::limits::{
    COORDINATION_TASKS_MAX, NAME_BYTES_MAX, STORE_BYTES_MAX, VALUE_BYTES_MAX,
};
use rondo_core::time::Duration;

use super::units::{Span, size};
use crate::config::NamespacePort;

/// Settings of the coordination service. All namespaces share them but for their numbers of tasks.
#[derive(Args, Clone, Debug, PartialEq, Eq)]
#[command(next_help_heading = "Coordination")]
pub(super) struct CoordinationArgs {
    /// Number of tasks of the default namespace's job [default: learnt from those that register]
    #[arg(long, env = "RONDO_TASKS", value_name = "COUNT",
          value_parser = clap::value_parser!(u32).range(1..=COORDINATION_TASKS_MAX as i64))]
    pub(super) tasks: Option<u32>,

    /// Namespaces beside the default one, comma-separated, each with a port of its own for one
    /// job's unmodified clients: NAME=PORT:TASKS, or NAME=PORT to learn the number of tasks
    #[arg(long, env = "RONDO_NAMESPACE", value_name = "LIST", default_value = "")]
    pub(super) namespace: Namespaces,

    /// How long a task may be silent before it counts as dead, such as 100 (seconds), 500ms, 2m, 1h
    #[arg(long, env = "RONDO_HEARTBEAT_TIMEOUT", value_name = "SPAN", default_value = "100s")]
    pub(super) heartbeat_timeout: Span,

    /// How long the first task that registers waits for the last
    #[arg(long, env = "RONDO_REGISTER_TIMEOUT", value_name = "SPAN", default_value = "1h")]
    pub(super) register_timeout: Span,

    /// How long the first task that leaves waits for the last; 0 lets each leave alone
    #[arg(long, env = "RONDO_SHUTDOWN_TIMEOUT", value_name = "SPAN", default_value = "5m")]
    pub(super) shutdown_timeout: Span,

    /// Whether a task that died may come back, and the others live on without it
    #[arg(long, env = "RONDO_RECOVERABLE", value_name = "BOOL", action = ArgAction::Set,
          num_args = 0..=1, default_value_t = false, default_missing_value = "true")]
    pub(super) recoverable: bool,

    /// Directory of keys in which tasks put how far they are, task 3 its step under PREFIX/3: tasks
    /// that stay behind are named by rondo why, rondo status and the log, and nothing else [default:
    /// none]
    #[arg(long, env = "RONDO_PROGRESS_KEY", value_name = "PREFIX", value_parser = progress_key)]
    pub(super) progress_key: Option<String>,

    /// How long a task's progress key may stay the same while others' change
    #[arg(long, env = "RONDO_PROGRESS_TIMEOUT", value_name = "SPAN", default_value = "5m")]
    pub(super) progress_timeout: Span,

    /// The jobs' name in tensorflow.CoordinationService
    #[arg(long, env = "RONDO_JOB_NAME", value_name = "NAME", default_value = "jax_worker")]
    pub(super) job_name: String,

    /// Keys of one namespace
    #[arg(long, env = "RONDO_KEYS_MAX", value_name = "COUNT", default_value_t = 1 << 20,
          value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) keys_max: u32,

    /// Calls of one namespace that may wait at once. A job of many tasks may have four for each
    #[arg(long, env = "RONDO_WAITS_MAX", value_name = "COUNT", default_value_t = 1 << 16,
          value_parser = clap::value_parser!(u32).range(4..))]
    pub(super) waits_max: u32,

    /// Longest value of a key [default: 256MiB, but never more than --message-size-max]
    #[arg(long, env = "RONDO_VALUE_SIZE_MAX", value_name = "SIZE", value_parser = size(1..))]
    pub(super) value_size_max: Option<u64>,

    /// Keys and values of one namespace together [default: 4GiB, or an equal part of a quarter of
    /// --memory-max, if it is less]
    #[arg(long, env = "RONDO_NAMESPACE_SIZE_MAX", value_name = "SIZE", value_parser = size(1..))]
    pub(super) namespace_size_max: Option<u64>,
}

impl CoordinationArgs {
    /// The settings of all namespaces, the default one first, and the ports of the others.
    ///
    /// # Errors
    /// A text that names the flags at odds.
    pub(super) fn resolve(
        &self,
        message_bytes_max: u64,
        memory_bytes_max: Option<u64>,
    ) -> Result<(Vec<NamespaceConfig>, Vec<NamespacePort>), String> {
        if self.heartbeat_timeout.0 == Duration::ZERO {
            return Err("--heartbeat-timeout is 0: every task would be dead at once".into());
        }
        if self.progress_timeout.0 == Duration::ZERO {
            return Err("--progress-timeout is 0: every task would be stuck at once".into());
        }
        let value_bytes_max = self.value_bytes_max(message_bytes_max)?;
        let store_bytes_max = self.store_bytes_max(memory_bytes_max);
        let named = |name: &str, tasks| NamespaceConfig {
            value_bytes_max,
            store_bytes_max,
            ..self.namespace(name, tasks)
        };
        let mut namespaces = vec![named(DEFAULT_NAMESPACE, self.tasks)];
        let mut ports = Vec::new();
        for Wanted { name, port, tasks } in &self.namespace.0 {
            if namespaces.iter().any(|known| *known.name == **name) {
                return Err(format!("--namespace: there is a namespace {name:?} already"));
            }
            namespaces.push(named(name, *tasks));
            ports.push(NamespacePort { name: name.as_str().into(), port: *port });
        }
        Ok((namespaces, ports))
    }

    /// The longest value that is kept: what was asked for, else the default as far as it can arrive.
    fn value_bytes_max(&self, message_bytes_max: u64) -> Result<u64, String> {
        match self.value_size_max {
            Some(asked) if asked > message_bytes_max => Err(format!(
                "--value-size-max ({asked}) exceeds --message-size-max ({message_bytes_max}): \
                 such a value could never arrive"
            )),
            Some(asked) => Ok(asked),
            None => Ok(VALUE_BYTES_MAX.min(message_bytes_max)),
        }
    }

    /// How many bytes each namespace may keep. Unless the user says it, the namespaces share a quarter of the
    /// memory, so one job's keys never bring all others to the ceiling.
    fn store_bytes_max(&self, memory_bytes_max: Option<u64>) -> u64 {
        let namespaces =
            u64::try_from(self.namespace.0.len()).unwrap_or(u64::MAX).saturating_add(1);
        let share = memory_bytes_max.map_or(u64::MAX, |bytes| bytes / 4 / namespaces);
        self.namespace_size_max.unwrap_or_else(|| STORE_BYTES_MAX.min(share))
    }

    fn namespace(&self, name: &str, tasks: Option<u32>) -> NamespaceConfig {
        NamespaceConfig {
            job: self.job_name.as_str().into(),
            tasks,
            heartbeat_timeout: self.heartbeat_timeout.0,
            register_timeout: self.register_timeout.0,
            shutdown_timeout: self.shutdown_timeout.0,
            recoverable: self.recoverable,
            progress: self
                .progress_key
                .as_deref()
                .map(|key| Progress { key: key.into(), timeout: self.progress_timeout.0 }),
            waits_max: usize::try_from(self.waits_max).unwrap_or(usize::MAX),
            keys_max: usize::try_from(self.keys_max).unwrap_or(usize::MAX),
            ..NamespaceConfig::named(name)
        }
    }
}

/// A directory of keys in normal form.
fn progress_key(text: &str) -> Result<String, String> {
    let parts: Vec<&str> = text.split('/').filter(|part| !part.is_empty()).collect();
    match parts.is_empty() {
        true => Err("it must name a directory of keys, such as progress".into()),
        false => Ok(parts.join("/")),
    }
}

/// A comma-separated list of namespaces; may be empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Namespaces(Vec<Wanted>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Wanted {
    name: String,
    port: u16,
    tasks: Option<u32>,
}

impl FromStr for Namespaces {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.trim().is_empty() {
            return Ok(Self::default());
        }
        text.split(',').map(|entry| entry.trim().parse()).collect::<Result<_, _>>().map(Self)
    }
}

impl FromStr for Wanted {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let bad = || format!("{text:?} is not of the form NAME=PORT:TASKS or NAME=PORT");
        let (name, place) = text.split_once('=').ok_or_else(bad)?;
        let (port, tasks) = match place.split_once(':') {
            Some((port, tasks)) => (port, Some(tasks)),
            None => (place, None),
        };
        let named = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        if name.is_empty() || name.len() > NAME_BYTES_MAX || !name.chars().all(named) {
            return Err(format!(
                "{name:?} is no name of a namespace: letters, digits, '-', '_' and '.' are allowed"
            ));
        }
        let tasks = tasks.map(|tasks| tasks.parse().map_err(|_| bad())).transpose()?;
        let most = u32::try_from(COORDINATION_TASKS_MAX).unwrap_or(u32::MAX);
        if tasks.is_some_and(|tasks| tasks == 0 || tasks > most) {
            return Err(format!("{text:?}: a job has 1 to {most} tasks"));
        }
        Ok(Self { name: name.to_owned(), port: port.parse().map_err(|_| bad())?, tasks })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn namespaces_are_read_with_and_without_sizes() {
        let Namespaces(read) = "a=7001:4, b-1=0".parse().unwrap();
        let wanted = |name: &str, port, tasks| Wanted { name: name.into(), port, tasks };
        assert_eq!(read, [wanted("a", 7001, Some(4)), wanted("b-1", 0, None)]);
        assert_eq!("".parse(), Ok(Namespaces::default()));
        for text in ["a", "a=", "=1", "a=x", "a=1:", "a=1:0", "a=1:65537", "a b=1", "a=1,,b=2"] {
            assert!(text.parse::<Namespaces>().is_err(), "{text}");
        }
    }
}
