//! How a relay marks what must not happen twice.

use crate::ids::RelayId;

/// A relay's mark on a request: with the same mark it happens once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// The relay.
    pub relay: RelayId,
    /// Counts its requests, from 1.
    pub sequence: u64,
    /// Results up to this number have reached it.
    pub acknowledged: u64,
}
