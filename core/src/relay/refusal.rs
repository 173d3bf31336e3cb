//! Texts of the relay's own refusals.

use alloc::format;

use super::config::{Config, Host};
use super::types::Refused;
use super::upstream::Outage;
use crate::status::{Code, Status};
use crate::time::Time;

/// The server has been away for too long.
pub(super) fn away(config: &Config, outage: &Outage, now: Time) -> Refused {
    let away_ms = now.since(outage.since).as_millis();
    let (who, setting) = match config.host {
        Host::Relay => ("Rondo's relay cannot reach its server", " (--upstream-patience)"),
        Host::Client => ("nobody answers at the server", ""),
    };
    let text = format!(
        "{who} {}: away for {away_ms} ms, longer than the {} ms allowed{setting}; last error: {}",
        config.upstream,
        config.patience.as_millis(),
        outage.reason
    );
    Status::new(Code::Unavailable, text).into()
}

/// The relay ends.
pub(super) fn stopping() -> Refused {
    Status::new(Code::Unavailable, "Rondo's relay is shutting down").into()
}

/// A bound is reached.
pub(super) fn full(what: &str, setting: &str, bound: u64, found: u64) -> Refused {
    let text = format!(
        "Rondo's relay keeps at most {bound} {what} ({setting}), this would be {found}: wait for \
         others to end"
    );
    Status::new(Code::ResourceExhausted, text).into()
}

/// A client would have more than is free for others.
pub(super) fn share(what: &str, setting: &str, bound: u64, free: u64, found: u64) -> Refused {
    let text = format!(
        "Rondo's relay keeps at most {bound} {what} ({setting}), and {free} of these are free: a client may \
         have as many as are free, and this one would have {found}; wait for its calls to end"
    );
    Status::new(Code::ResourceExhausted, text).into()
}
