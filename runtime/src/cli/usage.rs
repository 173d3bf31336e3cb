//! Why a command line is not carried out, in words that name where each value came from.

use std::ffi::OsString;
use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, Command};

use super::exit::{Exit, Failure};

/// Why a command line is not carried out.
#[derive(Debug)]
pub(super) enum Refusal {
    /// Clap says why; `--help` and `--version` come this way too.
    Clap(clap::Error),
    /// A value is at fault.
    Failure(Failure),
}

impl From<clap::Error> for Refusal {
    fn from(error: clap::Error) -> Self {
        Self::Clap(error)
    }
}

/// Clap's refusal of these arguments. Of a value that clap cannot read, it names the flag or the variable.
pub(super) fn refusal(error: clap::Error, command: &Command, arguments: &[OsString]) -> Refusal {
    match wrong_value(&error, command, arguments) {
        Some(text) => Refusal::Failure(Failure::new(Exit::Usage, text)),
        None => Refusal::Clap(error),
    }
}

/// Prints clap's message.
pub(super) fn print(error: &clap::Error) -> ExitCode {
    // A terminal that is gone cannot be told so.
    let _ = error.print();
    if error.use_stderr() { Exit::Usage.into() } else { Exit::Ok.into() }
}

/// The first line of clap's message, without the words of Rust's library.
pub(super) fn first_line(error: &clap::Error) -> String {
    let text = error.to_string();
    let reason = text.lines().next().unwrap_or_default();
    plain_reason(reason.trim_start_matches("error: "))
}

fn wrong_value(error: &clap::Error, command: &Command, arguments: &[OsString]) -> Option<String> {
    if !matches!(error.kind(), ErrorKind::ValueValidation | ErrorKind::InvalidValue) {
        return None;
    }
    let context = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.as_str()),
        _ => None,
    };
    let (named, value) = (context(ContextKind::InvalidArg)?, context(ContextKind::InvalidValue)?);
    let flag = named.split([' ', '=']).next()?;
    let variable = variable_of(command, arguments, flag, value);
    let place =
        variable.map_or_else(|| flag.to_owned(), |name| format!("the environment's {name}"));
    let reason = std::error::Error::source(error).map_or_else(
        || "it is none of the possible values".to_owned(),
        |reason| plain_reason(&reason.to_string()),
    );
    let choices = match error.get(ContextKind::ValidValue) {
        Some(ContextValue::Strings(all)) => format!(": {}", all.join(", ")),
        _ => String::new(),
    };
    Some(format!("{place} is {value:?}: {reason}{choices}"))
}

/// The environment variable that holds the value, if the flag was not given.
fn variable_of(
    command: &Command,
    arguments: &[OsString],
    flag: &str,
    value: &str,
) -> Option<String> {
    let long = flag.strip_prefix("--")?;
    let is_given = |argument: &OsString| {
        let argument = argument.to_string_lossy();
        argument == flag || argument.strip_prefix(flag).is_some_and(|rest| rest.starts_with('='))
    };
    if arguments.iter().any(is_given) {
        return None;
    }
    let words = arguments.iter().skip(1).map(|argument| argument.to_string_lossy());
    let mut at = command;
    for word in words {
        at = at.find_subcommand(&*word).unwrap_or(at);
    }
    let is_named = |argument: &&Arg| argument.get_long() == Some(long);
    let name = at.get_arguments().find(is_named)?.get_env()?.to_string_lossy().into_owned();
    // Of a list, one item is named.
    let held = std::env::var(&name).ok()?;
    held.contains(value).then_some(name)
}

/// What Rust's library says of numbers, in words for people.
fn plain_reason(reason: &str) -> String {
    let words = [
        ("invalid digit found in string", "a whole number is wanted"),
        ("cannot parse integer from empty string", "a whole number is wanted"),
        ("number too large to fit in target type", "the number is too large"),
        ("number too small to fit in target type", "the number is too small"),
        ("invalid float literal", "a number is wanted"),
        ("provided string was not `true` or `false`", "true or false is wanted"),
    ];
    let replaced = |text: String, (from, to): &(&str, &str)| text.replace(from, to);
    words.iter().fold(reason.to_owned(), replaced)
}
