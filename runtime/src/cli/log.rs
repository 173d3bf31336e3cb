//! The log: on stderr, for people or as JSON.

use std::io::{IsTerminal, stderr};

use tracing_subscriber::EnvFilter;

use super::exit::{Exit, Failure};
use super::serve_args::{LogArgs, LogForm};
use super::variables;

/// Starts logging.
///
/// # Errors
/// When the filter makes no sense.
pub(super) fn start(args: &LogArgs) -> Result<(), Failure> {
    let directives = args.log_filter.as_deref().unwrap_or(&args.log_level);
    let filter = EnvFilter::try_new(directives).map_err(|error| {
        Failure::new(Exit::Usage, format!("--log-filter {directives:?}: {error}"))
    })?;
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(stderr);
    let started = match args.log {
        LogForm::Human => log.with_ansi(stderr().is_terminal()).try_init(),
        LogForm::Json => log.json().try_init(),
    };
    started.map_err(|error| Failure::new(Exit::Other, format!("cannot start logging: {error}")))?;
    variables::mistyped().iter().for_each(|line| tracing::warn!("{line}"));
    Ok(())
}
