//! Flag before environment before file before cluster before default.
//!
//! The file's entries are turned into flags and read by the same parser, so every source is checked
//! by the same rules, and a setting has one name.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;

use clap::parser::ValueSource;
use clap::{ArgMatches, Command};
use serde_json::Value;

use super::exit::{Exit, Failure};
use super::former;

/// Where a setting comes from, the most urgent last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Source {
    /// Nobody said anything.
    Default,
    /// The cluster, as this source tells of it.
    Cluster(&'static str),
    /// The configuration file.
    File,
    /// The environment.
    Environment,
    /// The command line.
    Flag,
}

/// The word for it in `--print-config`.
impl fmt::Display for Source {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => out.write_str("default"),
            Self::Cluster(source) => write!(out, "cluster ({source})"),
            Self::File => out.write_str("file"),
            Self::Environment => out.write_str("environment"),
            Self::Flag => out.write_str("flag"),
        }
    }
}

/// A setting as it was given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Setting {
    /// Where it comes from.
    pub(super) source: Source,
    /// Its text; absent when it has no default either.
    pub(super) value: Option<String>,
}

/// All settings by their keys.
pub(super) type Settings = BTreeMap<String, Setting>;

/// Keys that make no sense in a file.
const NOT_IN_FILE: [&str; 2] = ["config", "print_config"];

/// The settings a subcommand takes from a file, by the names of its flags.
pub(super) fn keys(command: &Command) -> Vec<String> {
    let ids = command.get_arguments().filter(|arg| arg.get_long().is_some());
    let ids = ids.map(|arg| arg.get_id().to_string());
    ids.filter(|id| !NOT_IN_FILE.contains(&id.as_str()) && id != "help").collect()
}

/// The settings in `matched`, a subcommand's arguments.
pub(super) fn settings(command: &Command, matched: &ArgMatches) -> Settings {
    let setting = |key: String| {
        let value = matched.get_raw(&key).and_then(|mut values| values.next());
        let value = value.map(|value| value.to_string_lossy().into_owned());
        let source = match matched.value_source(&key) {
            Some(ValueSource::CommandLine) => Source::Flag,
            Some(ValueSource::EnvVariable) => Source::Environment,
            _ => Source::Default,
        };
        (key, Setting { source, value })
    };
    keys(command).into_iter().map(setting).collect()
}

/// Adds the entries of the file at `path` to settings that nobody gave more urgently, and returns
/// them as arguments. `command` is the subcommand whose settings they are.
///
/// # Errors
/// When the file cannot be read or holds something that is no setting.
pub(super) fn add_file(
    settings: &mut Settings,
    path: &str,
    command: &str,
) -> Result<Vec<OsString>, Failure> {
    let keys: Vec<String> = settings.keys().cloned().collect();
    let mut added = Vec::new();
    for (key, value) in read(path, &keys, command)? {
        let Some(setting) = settings.get_mut(&key) else {
            continue;
        };
        if setting.source == Source::Default {
            added.push(format!("--{}={value}", key.replace('_', "-")).into());
            *setting = Setting { source: Source::File, value: Some(value) };
        }
    }
    Ok(added)
}

fn read(path: &str, keys: &[String], command: &str) -> Result<Vec<(String, String)>, Failure> {
    let text = std::fs::read_to_string(path)
        .map_err(|error| usage(format!("cannot read the configuration file {path}: {error}")))?;
    parse(&text, keys, path, command)
        .map_err(|reason| usage(format!("configuration file {path}: {reason}")))
}

fn usage(text: String) -> Failure {
    Failure::new(Exit::Usage, text)
}

/// Reads the entries of the YAML document that a file holds.
fn parse(
    text: &str,
    keys: &[String],
    path: &str,
    command: &str,
) -> Result<Vec<(String, String)>, String> {
    if text.lines().all(|line| line.trim().is_empty() || line.trim_start().starts_with('#')) {
        return Ok(Vec::new());
    }
    let entries: BTreeMap<String, Value> = rondo_data::from_yaml(text, path)?;
    let mut read = BTreeMap::new();
    for (given, value) in entries {
        let value = flag_value(&value).map_err(|reason| format!("{given}: {reason}"))?;
        let (key, value) = former::entry(command, given.clone(), value);
        if !keys.contains(&key) {
            return Err(unknown(&given, keys));
        }
        if read.insert(key.clone(), value).is_some() {
            return Err(format!("{given} is a former name of {key}, which is given too: give one"));
        }
    }
    Ok(read.into_iter().collect())
}

fn unknown(key: &str, keys: &[String]) -> String {
    let nearest = keys.iter().min_by_key(|known| strsim::damerau_levenshtein(known, key));
    let nearest = nearest.map(String::as_str).unwrap_or_default();
    format!("unknown key {key:?}; the nearest one is {nearest:?}")
}

/// A YAML value as it would stand on the command line.
fn flag_value(value: &Value) -> Result<String, String> {
    match value {
        Value::String(text) => Ok(text.clone()),
        Value::Bool(_) | Value::Number(_) => Ok(value.to_string()),
        Value::Array(items) => {
            let items: Result<Vec<_>, _> = items.iter().map(flag_value).collect();
            Ok(items?.join(","))
        }
        Value::Null => Err("has no value; give one, or remove the line".into()),
        Value::Object(_) => Err("is a mapping; a single value or a list is wanted".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known() -> Vec<String> {
        ["listen", "client_timeout", "worker_addresses", "data"].map(String::from).into()
    }

    #[test]
    fn every_kind_of_value_becomes_a_flag() {
        let text = "# a comment\nlisten: 127.0.0.1:7\nclient_timeout: 20\n\
                    worker_addresses: [a:1, 'b']\ndata: ''\n";
        let entries = parse(text, &known(), "rondo.yaml", "serve").unwrap();
        let expected = [
            ("client_timeout", "20"),
            ("data", ""),
            ("listen", "127.0.0.1:7"),
            ("worker_addresses", "a:1,b"),
        ];
        assert_eq!(entries, expected.map(|(key, value)| (key.to_owned(), value.to_owned())));
    }

    #[test]
    fn an_empty_file_says_nothing() {
        assert_eq!(parse("", &known(), "rondo.yaml", "serve"), Ok(vec![]));
        assert_eq!(parse("# only\n\n  # comments\n", &known(), "rondo.yaml", "serve"), Ok(vec![]));
    }

    #[test]
    fn an_unknown_key_is_named_with_its_nearest() {
        let error = parse("client-timeout-ms: 1", &known(), "rondo.yaml", "serve").unwrap_err();
        assert!(error.contains("client-timeout-ms"), "{error}");
        assert!(error.contains("\"client_timeout\""), "{error}");
    }

    #[test]
    fn a_former_key_is_read_unless_the_present_one_is_there_too() {
        let read = |text: &str| parse(text, &known(), "rondo.yaml", "serve");
        let expected = vec![("client_timeout".to_owned(), "20ms".to_owned())];
        assert_eq!(read("client_timeout_ms: 20"), Ok(expected));
        let error = read("client_timeout_ms: 20\nclient_timeout: 1s").unwrap_err();
        assert!(error.contains("client_timeout_ms is a former name of client_timeout"), "{error}");
    }

    #[test]
    fn what_is_no_setting_is_refused() {
        for text in ["data:", "data: {a: 1}", "- a", "just text", "data: 'x", "data: a\ndata: b"] {
            assert!(parse(text, &known(), "rondo.yaml", "serve").is_err(), "{text}");
        }
    }
}
