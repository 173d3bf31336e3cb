//! Names of flags that have changed: the former ones are accepted for one release, as flags, in the
//! environment and in configuration files.
//!
//! `--help` and the documentation have the present names only. To end the release of grace, remove this file.

use std::ffi::{OsStr, OsString};

use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Command};

use super::layers::{Setting, Settings, Source};

/// What a bare number counts under the former name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unit {
    /// The same as under the present one.
    Same,
    Milliseconds,
    Seconds,
    Mebibytes,
}

/// A flag that had another name.
struct Former {
    /// The subcommands, each as words with a blank between.
    commands: &'static [&'static str],
    former: &'static str,
    present: &'static str,
    unit: Unit,
}

const SERVE: &[&str] = &["serve"];
const WORKER: &[&str] = &["worker"];
const READ: &[&str] = &["read"];
const CLUSTER: &[&str] = &["cluster"];
const FROM_CLUSTER: &[&str] = &["serve", "relay", "worker", "read"];
/// Those that named the server their dispatcher.
const READING: &[&str] =
    &["worker", "read", "dataset register", "dataset show", "dataset delete", "dataset list"];
/// Those that ask a server something.
const ASKING: &[&str] = &[
    "status",
    "why",
    "namespace list",
    "namespace reset",
    "position save",
    "position restore",
    "position list",
    "position delete",
    "job list",
    "job delete",
    "worker list",
    "worker remove",
];
/// Those whose `--output` was a form.
const SHOWING: &[&str] = &[
    "status",
    "cluster",
    "position list",
    "bench dispatcher",
    "bench coordination",
    "bench read",
    "bench rendezvous",
    "bench exchange",
];

const fn former(
    commands: &'static [&'static str],
    former: &'static str,
    present: &'static str,
    unit: Unit,
) -> Former {
    Former { commands, former, present, unit }
}

const ALL: [Former; 45] = {
    use Unit::{Mebibytes, Milliseconds, Same, Seconds};
    [
        former(SERVE, "message-bytes-max", "message-size-max", Same),
        former(SERVE, "inflight-bytes-max", "inflight-size-max", Same),
        former(SERVE, "shared-memory-bytes-max", "shared-memory-size-max", Same),
        former(SERVE, "segment-bytes-max", "segment-size-max", Same),
        former(SERVE, "value-bytes-max", "value-size-max", Same),
        former(SERVE, "namespace-bytes-max", "namespace-size-max", Same),
        former(SERVE, "rendezvous-step-bytes-max", "rendezvous-step-size-max", Same),
        former(SERVE, "rendezvous-bytes-max", "rendezvous-size-max", Same),
        former(SERVE, "free-space-reserve-mb", "free-space-reserve", Mebibytes),
        former(SERVE, "shutdown-grace-ms", "shutdown-grace", Milliseconds),
        former(SERVE, "job-gc-check-interval-ms", "job-gc-check-interval", Milliseconds),
        former(SERVE, "job-gc-timeout-ms", "job-gc-timeout", Milliseconds),
        former(SERVE, "named-job-retention-ms", "named-job-retention", Milliseconds),
        former(SERVE, "dataset-retention-ms", "dataset-retention", Milliseconds),
        former(
            SERVE,
            "abandoned-iteration-retention-ms",
            "abandoned-iteration-retention",
            Milliseconds,
        ),
        former(SERVE, "lost-worker-retention-ms", "lost-worker-retention", Milliseconds),
        former(SERVE, "client-timeout-ms", "client-timeout", Milliseconds),
        former(SERVE, "reader-timeout-ms", "reader-timeout", Milliseconds),
        former(
            SERVE,
            "client-first-heartbeat-timeout-ms",
            "client-first-heartbeat-timeout",
            Milliseconds,
        ),
        former(SERVE, "worker-timeout-ms", "worker-timeout", Milliseconds),
        former(SERVE, "removal-timeout-ms", "removal-timeout", Milliseconds),
        former(SERVE, "rendezvous-step-expiry-ms", "rendezvous-step-expiry", Milliseconds),
        former(SERVE, "rendezvous-peer-patience-ms", "rendezvous-peer-patience", Milliseconds),
        former(FROM_CLUSTER, "cluster-timeout-ms", "cluster-timeout", Milliseconds),
        former(&["relay"], "held-bytes-max", "held-size-max", Same),
        former(READING, "dispatcher", "server", Same),
        former(WORKER, "dispatcher-timeout-ms", "server-timeout", Milliseconds),
        former(WORKER, "heartbeat-interval-ms", "heartbeat-interval", Milliseconds),
        former(WORKER, "drain-timeout-ms", "drain-timeout", Milliseconds),
        former(WORKER, "shutdown-quiet-period-ms", "shutdown-quiet-period", Milliseconds),
        former(WORKER, "buffer-bytes", "buffer-size", Same),
        former(WORKER, "cache-bytes", "cache-size", Same),
        former(WORKER, "shared-memory-bytes-max", "shared-memory-size-max", Same),
        former(READ, "output", "format", Same),
        former(READ, "file", "output", Same),
        former(READ, "buffer-bytes", "buffer-size", Same),
        former(SHOWING, "output", "format", Same),
        former(ASKING, "timeout-ms", "timeout", Milliseconds),
        former(CLUSTER, "timeout-ms", "timeout", Milliseconds),
        former(CLUSTER, "interval-ms", "interval", Milliseconds),
        former(CLUSTER, "request-timeout-ms", "request-timeout", Milliseconds),
        former(&["demo"], "seconds", "duration", Seconds),
        former(&["bench dispatcher"], "round-ms", "round-duration", Milliseconds),
        former(&["bench coordination"], "round-ms", "round-duration", Milliseconds),
        former(&["bench coordination"], "period-ms", "period", Milliseconds),
    ]
};

/// Forms that `rondo read --output` took. Another value is a file, as under the present name.
const READ_FORMS: [&str; 4] = ["count", "jsonl", "csv", "arrow"];

impl Former {
    fn of(path: &str) -> impl Iterator<Item = &'static Self> {
        ALL.iter().filter(move |former| former.commands.contains(&path))
    }

    /// The value under the present name.
    fn value(&self, given: &str) -> String {
        let unit = match self.unit {
            Unit::Same => "",
            Unit::Milliseconds => "ms",
            Unit::Seconds => "s",
            Unit::Mebibytes => "MiB",
        };
        if given.parse::<i64>().is_ok() { format!("{given}{unit}") } else { given.to_owned() }
    }

    /// The variable of the environment that it was, beside the present one's.
    fn variable(&self, present: &Arg) -> Option<String> {
        let constant = |flag: &str| flag.replace('-', "_").to_uppercase();
        let variable = present.get_env()?.to_str()?;
        let start = variable.strip_suffix(&constant(self.present))?;
        Some(format!("{start}{}", constant(self.former)))
    }
}

/// The arguments with present names in place of former ones.
pub(super) fn arguments(command: &Command, given: Vec<OsString>) -> Vec<OsString> {
    let (path, words) = subcommand(command, &given);
    let mut given = given.into_iter();
    let mut present: Vec<OsString> = given.by_ref().take(words).collect();
    while let Some(argument) = given.next() {
        if argument == "--" {
            present.push(argument);
            break;
        }
        match flag(&path, &argument) {
            Some((former, Some(value))) => present.push(joined(former, &value)),
            Some((former, None)) => {
                let value = given.next();
                let text = value.as_ref().and_then(|value| value.to_str());
                match text.filter(|text| is_meant(&path, former, text)) {
                    Some(text) => present.push(joined(former, text)),
                    None => present.extend(std::iter::once(argument).chain(value)),
                }
            }
            None => present.push(argument),
        }
    }
    present.extend(given);
    present
}

/// The subcommand that is named at the beginning, and how many of the arguments that and the program are.
fn subcommand(command: &Command, given: &[OsString]) -> (String, usize) {
    let (mut at, mut path) = (command, Vec::new());
    for word in given.iter().skip(1).map_while(|word| word.to_str()) {
        let Some(found) = at.find_subcommand(word) else { break };
        at = found;
        path.push(found.get_name());
    }
    (path.join(" "), path.len().saturating_add(1).min(given.len()))
}

/// The former flag that an argument is, with the value if that is part of the argument.
fn flag(path: &str, argument: &OsStr) -> Option<(&'static Former, Option<String>)> {
    let text = argument.to_str()?;
    let (name, value) = match text.strip_prefix("--") {
        Some(long) => match long.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (long, None),
        },
        // The short name of a form. That of a file has stayed.
        None => {
            let value = text.strip_prefix("-o").filter(|_| SHOWING.contains(&path))?;
            let value = value.strip_prefix('=').unwrap_or(value);
            ("output", Some(value).filter(|value| !value.is_empty()))
        }
    };
    let former = Former::of(path).find(|former| former.former == name)?;
    match value {
        Some(value) if !is_meant(path, former, value) => None,
        value => Some((former, value.map(ToOwned::to_owned))),
    }
}

/// Whether a value is one of the former flag's, where the name is now that of another flag.
fn is_meant(path: &str, former: &Former, value: &str) -> bool {
    path != "read" || former.former != "output" || READ_FORMS.contains(&value)
}

fn joined(former: &Former, value: &str) -> OsString {
    format!("--{}={}", former.present, former.value(value)).into()
}

/// Arguments for what the environment says under former names and nobody says under the present one; they are
/// noted in the settings. With the names of the variables.
pub(super) fn from_environment(
    command: &Command,
    matched: &ArgMatches,
    settings: &mut Settings,
) -> (Vec<OsString>, Vec<String>) {
    let (mut at, mut found, mut path) = (command, matched, Vec::new());
    while let Some((name, given)) = found.subcommand() {
        let Some(next) = at.find_subcommand(name) else { break };
        (at, found) = (next, given);
        path.push(name);
    }
    let (mut added, mut variables) = (Vec::new(), Vec::new());
    for former in Former::of(&path.join(" ")) {
        let Some(present) = argument(at, former.present) else { continue };
        let is_said = !matches!(
            found.value_source(present.get_id().as_str()),
            None | Some(ValueSource::DefaultValue)
        );
        let Some(variable) = former.variable(present).filter(|_| !is_said) else { continue };
        let Ok(value) = std::env::var(&variable) else { continue };
        let value = former.value(&value);
        added.push(format!("--{}={value}", former.present).into());
        variables.push(variable);
        if let Some(setting) = settings.get_mut(present.get_id().as_str()) {
            *setting = Setting { source: Source::Environment, value: Some(value) };
        }
    }
    (added, variables)
}

/// The present key and value of an entry in the configuration file of a subcommand.
pub(super) fn entry(command: &str, key: String, value: String) -> (String, String) {
    let flag = key.replace('_', "-");
    let former = Former::of(command).find(|former| {
        !key.contains('-') && former.former == flag && is_meant(command, former, &value)
    });
    match former {
        Some(former) => (former.present.replace('-', "_"), former.value(&value)),
        None => (key, value),
    }
}

/// Former variables of the environment.
pub(super) fn variables(command: &Command) -> Vec<String> {
    let variable = |former: &Former| {
        former
            .commands
            .iter()
            .filter_map(|path| {
                let mut words = path.split(' ');
                let at = words.try_fold(command, |at, word| at.find_subcommand(word))?;
                former.variable(argument(at, former.present)?)
            })
            .collect::<Vec<_>>()
    };
    ALL.iter().flat_map(variable).collect()
}

fn argument<'a>(command: &'a Command, long: &str) -> Option<&'a Arg> {
    command.get_arguments().find(|argument| argument.get_long() == Some(long))
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::super::Cli;
    use super::*;

    fn command() -> Command {
        let mut command = Cli::command();
        command.build();
        command
    }

    /// What the words of a command line become.
    fn present(given: &str) -> String {
        let given = given.split(' ').map(OsString::from).collect();
        let present = arguments(&command(), given);
        present.join(OsStr::new(" ")).into_string().unwrap()
    }

    #[test]
    fn former_names_are_gone_and_present_ones_are_there() {
        let command = command();
        for former in &ALL {
            for path in former.commands {
                let mut words = path.split(' ');
                let at = words.try_fold(&command, |at, word| at.find_subcommand(word));
                let at = at.unwrap_or_else(|| panic!("no command {path}"));
                assert!(argument(at, former.present).is_some(), "{path} --{}", former.present);
                let is_other = *path == "read" && former.former == "output";
                let is_there = argument(at, former.former).is_some();
                assert_eq!(is_there, is_other, "{path} --{}", former.former);
            }
        }
    }

    #[test]
    fn no_flag_names_a_unit_and_a_server_has_one_name() {
        fn check(command: &Command) {
            for argument in command.get_arguments().filter(|argument| !argument.is_hide_set()) {
                let flag = argument.get_long().unwrap_or_default();
                let words: Vec<&str> = flag.split('-').collect();
                for word in ["ms", "mb", "bytes", "seconds", "dispatcher"] {
                    assert!(!words.contains(&word), "{} --{flag}", command.get_name());
                }
                if argument.get_short() == Some('o') || flag == "output" {
                    let value = argument.get_value_names().unwrap()[0].as_str();
                    assert_eq!(value, "FILE", "{} --{flag}", command.get_name());
                }
            }
            let shown = |command: &&Command| !command.is_hide_set();
            command.get_subcommands().filter(shown).for_each(check);
        }
        check(&command());
    }

    #[test]
    fn former_flags_become_present_ones() {
        for (given, expected) in [
            ("rondo serve --client-timeout-ms=20", "rondo serve --client-timeout=20ms"),
            ("rondo serve --job-gc-timeout-ms -1", "rondo serve --job-gc-timeout=-1ms"),
            ("rondo serve --free-space-reserve-mb 8", "rondo serve --free-space-reserve=8MiB"),
            ("rondo serve --segment-bytes-max=4096", "rondo serve --segment-size-max=4096"),
            ("rondo worker --dispatcher h:1 --tag a", "rondo worker --server=h:1 --tag a"),
            ("rondo worker list --timeout-ms 5", "rondo worker list --timeout=5ms"),
            ("rondo read --output jsonl --file f", "rondo read --format=jsonl --output=f"),
            ("rondo read --output=f.csv -o g", "rondo read --output=f.csv -o g"),
            ("rondo read --output f.csv", "rondo read --output f.csv"),
            ("rondo status -o json", "rondo status --format=json"),
            ("rondo status -ojson", "rondo status --format=json"),
            ("rondo status --output=wide", "rondo status --format=wide"),
            ("rondo cluster -o=json --all", "rondo cluster --format=json --all"),
            ("rondo trace -o f", "rondo trace -o f"),
            ("rondo demo --seconds 3", "rondo demo --duration=3s"),
        ] {
            assert_eq!(present(given), expected);
        }
    }

    #[test]
    fn what_is_no_former_flag_of_this_command_stays() {
        for given in [
            "rondo",
            "rondo serve --client-timeout 20s",
            "rondo serve --dispatcher h:1",
            "rondo status --client-timeout-ms=20",
            "rondo serve -- --client-timeout-ms=20",
            "rondo serve --client-timeout-ms",
            "rondo srve --client-timeout-ms=20",
        ] {
            assert_eq!(present(given), given);
        }
    }

    #[test]
    fn former_keys_and_variables_are_known() {
        let entry = |key: &str, value: &str| entry("serve", key.into(), value.into());
        let owned = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        assert_eq!(entry("client_timeout_ms", "20"), owned("client_timeout", "20ms"));
        assert_eq!(entry("client-timeout-ms", "20"), owned("client-timeout-ms", "20"));
        assert_eq!(entry("listen", "h:1"), owned("listen", "h:1"));
        let variables = variables(&command());
        for variable in [
            "RONDO_CLIENT_TIMEOUT_MS",
            "RONDO_DISPATCHER",
            "RONDO_WORKER_BUFFER_BYTES",
            "RONDO_WORKER_DISPATCHER_TIMEOUT_MS",
            "RONDO_ASK_TIMEOUT_MS",
            "RONDO_STATUS_TIMEOUT_MS",
            "RONDO_CLUSTER_TIMEOUT_MS",
        ] {
            assert!(variables.iter().any(|known| known == variable), "{variable}");
        }
    }
}
