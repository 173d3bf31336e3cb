//! `rondo serve`.

use std::io::Write;

use super::exit::{self, Exit, Failure};
use super::layers::Settings;
use super::resolve::{Home, keys_above_memory, resolve};
use super::serve_args::ServeArgs;
use super::{from_cluster, log, print_config, state_home, threads};
use crate::allocator;
use crate::config::{Config, Storage};
use crate::serve::{Machine, ServeError, StartError, run, start_node};

/// Runs a server until it is asked to stop.
pub(super) fn serve(args: &ServeArgs, settings: &Settings) -> Result<(), Failure> {
    if args.print_config {
        return print(&config_of(args, settings)?, settings);
    }
    log::start(&args.log)?;
    let config = config_of(args, settings)?;
    // A directory that is named must have its place: a wrong name would make a new, empty one.
    if let (None, Storage::Directory { path, .. }) = (&args.data, &config.storage) {
        state_home::create_above(path)?;
    }
    if let Some(told) = from_cluster::told(settings) {
        tracing::info!("{told}");
    }
    if let Some(warning) = keys_above_memory(&config) {
        tracing::warn!("{warning}");
    }
    allocator::keep_for_requests();
    let runtime = threads::pool(args.threads)?;
    let start = |config, transport, ceiling| async move {
        start_node(&config, Machine::this(), transport, ceiling).await
    };
    runtime.block_on(run(config, start)).map_err(|error| Failure::new(exit_of(&error), error))
}

fn config_of(args: &ServeArgs, settings: &Settings) -> Result<Config, Failure> {
    let config = resolve(args, settings, &Home::from_environment());
    config.map_err(|text| Failure::new(Exit::Usage, text))
}

/// Prints the settings and where each comes from.
fn print(config: &Config, settings: &Settings) -> Result<(), Failure> {
    let mut shown = settings.clone();
    if let (Some(data), Storage::Directory { path, .. }) = (shown.get_mut("data"), &config.storage)
    {
        data.value.get_or_insert_with(|| path.to_string_lossy().into_owned());
    }
    let text = print_config::render(&shown);
    let printed = std::io::stdout().write_all(text.as_bytes());
    printed.map_err(|error| Failure::new(Exit::Other, error))
}

/// How a server's failure shows in the exit status.
pub(super) fn exit_of(error: &ServeError) -> Exit {
    match error {
        ServeError::Listen(_) => Exit::Listen,
        ServeError::Resolve { .. } | ServeError::Exposed(_) | ServeError::Rendezvous(_) => {
            Exit::Usage
        }
        ServeError::Start(StartError::Directory(error)) => exit::of_directory(error),
        ServeError::Start(StartError::LaterRelease(_)) => Exit::DataDirectory,
        ServeError::Start(StartError::JournalDamaged(_)) => Exit::JournalDamaged,
        ServeError::Halted(_) | ServeError::Shutdown(_) => Exit::Halted,
        ServeError::Start(StartError::Other(_)) | ServeError::Signals(_) => Exit::Other,
    }
}
