//! Variables of the environment that nearly have the name of a setting, and are none.

use std::io::Write;

use clap::{Command, CommandFactory};

use super::plain::plain;
use super::{Cli, former};

/// Begins the names of all settings.
const PREFIX: &str = "RONDO_";
/// Variables that are no flag's: what `rondo cluster --export env` writes, and what libraries read.
const OTHERS: [&str; 16] = [
    "RONDO_CLUSTER_SOURCE",
    "RONDO_CLUSTER_SPEC",
    "RONDO_TASK_TYPE",
    "RONDO_TASK_ID",
    "RONDO_MASTER",
    "RONDO_COORDINATOR",
    "RONDO_SIZE",
    "RONDO_RANK",
    "RONDO_LOCAL_RANK",
    "RONDO_LOCAL_SIZE",
    "RONDO_NODES",
    "RONDO_NODE_RANK",
    "RONDO_GPUS",
    "RONDO_SPIN_US",
    "RONDO_EXCHANGE_UNIX",
    "RONDO_EXCHANGE_SHARED_BYTES",
];
/// Letters by which a mistyped name differs from the right one at most.
const MISTAKES_MAX: usize = 1;

/// Says on stderr which variables look mistyped.
pub(super) fn warn() {
    for line in mistyped() {
        // A closed stderr is no reason to fail.
        let _ = writeln!(std::io::stderr(), "warning: {line}");
    }
}

/// A sentence for each variable of this process's environment that looks mistyped.
pub fn mistyped() -> Vec<String> {
    let text = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
        let name = name.into_string().ok().filter(|name| name.starts_with(PREFIX))?;
        Some((name, value.to_string_lossy().into_owned()))
    };
    let given: Vec<(String, String)> = std::env::vars_os().filter_map(text).collect();
    if given.is_empty() {
        return Vec::new();
    }
    let mut command = Cli::command();
    command.build();
    let mut known: Vec<String> = OTHERS.map(String::from).into();
    known.extend(former::variables(&command));
    add_settings(&command, &mut known);
    given.iter().filter_map(|(name, value)| told(name, value, &known)).collect()
}

fn add_settings(command: &Command, known: &mut Vec<String>) {
    let variables = command.get_arguments().filter_map(|argument| argument.get_env()?.to_str());
    known.extend(variables.map(String::from));
    command.get_subcommands().for_each(|command| add_settings(command, known));
}

fn told(name: &str, value: &str, known: &[String]) -> Option<String> {
    if !name.starts_with(PREFIX) || known.iter().any(|known| known == name) {
        return None;
    }
    let nearest = known.iter().min_by_key(|known| strsim::damerau_levenshtein(known, name))?;
    if strsim::damerau_levenshtein(nearest, name) > MISTAKES_MAX {
        return None;
    }
    let text = format!("the environment's {name} ({value:?}) is no setting; is {nearest} meant?");
    Some(plain(&text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mistyped_variable_is_told_with_its_value_and_the_right_name() {
        let known = ["RONDO_TASKS", "RONDO_LISTEN"].map(String::from);
        assert_eq!(
            told("RONDO_TASK", "4", &known).unwrap(),
            "the environment's RONDO_TASK (\"4\") is no setting; is RONDO_TASKS meant?"
        );
        assert!(told("RONDO_LSITEN", "h:1", &known).unwrap().contains("RONDO_LISTEN"));
    }

    #[test]
    fn settings_and_variables_of_others_are_not_told() {
        let known = ["RONDO_TASKS", "RONDO_LISTEN"].map(String::from);
        for name in
            ["RONDO_TASKS", "RONDO_SERVICE_HOST", "RONDO_PORT_5050_TCP", "TASKS", "ONDO_TASKS"]
        {
            assert_eq!(told(name, "4", &known), None, "{name}");
        }
    }
}
