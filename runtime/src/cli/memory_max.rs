//! The setting `--memory-max`.

use super::units::size;
use crate::memory::machine;

/// The least memory that a server or a relay can work with, in bytes.
const MEMORY_MIN: u64 = 64 << 20;

/// A bound of the process's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct MemoryMax(Option<u64>);

impl MemoryMax {
    /// The bound, in bytes, if there is one.
    pub(super) const fn bytes(self) -> Option<u64> {
        self.0
    }

    pub(super) fn read(text: &str) -> Result<Self, String> {
        Ok(Self(match text {
            "none" => None,
            // Where the system does not tell how much there is, there is no bound.
            "auto" => machine::bytes().map(|all| MEMORY_MIN.max(all / 4)),
            _ => {
                let bytes = size(MEMORY_MIN..)(text);
                Some(bytes.map_err(|why| format!("{why}; or auto, or none"))?)
            }
        }))
    }
}
