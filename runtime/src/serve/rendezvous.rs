//! The rendezvous that a server hosts.

use super::ServeError;
use crate::clock::Clock;
use crate::entropy::Entropy;
use crate::memory::Ceiling;
use crate::rendezvous::{RendezvousManager, RendezvousService, Settings, Ways};

/// Begins with devices that have incarnations no run before had.
///
/// # Errors
/// When the operating system gives no randomness, or the settings are wrong.
pub(super) fn start(
    settings: &Settings,
    ceiling: &Ceiling,
) -> Result<RendezvousService, ServeError> {
    let mut settings = settings.clone();
    let mut entropy = Entropy::from_system().map_err(|error| {
        ServeError::Halted(format!("the operating system gives no randomness: {error}"))
    })?;
    for incarnation in settings.machine.devices.values_mut() {
        *incarnation = entropy.next();
    }
    settings.machine.entropy = entropy.next();
    let ways = Ways::default();
    let started = RendezvousManager::start_below(ceiling.clone(), settings, Clock::start(), ways);
    let manager = started.map_err(|status| ServeError::Rendezvous(status.message))?;
    for device in manager.devices() {
        let incarnation = format!("{:016x}", device.incarnation);
        tracing::info!(name = device.name, incarnation, "a device of the rendezvous");
    }
    Ok(RendezvousService::new(manager))
}
