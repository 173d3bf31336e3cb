//! Every bound of this crate, by name. Those that depend on the machine can be set: [`Limits`].

/// Conditions within another.
pub const CONDITION_DEPTH_MAX: usize = 32;
/// Columns of a record.
pub const COLUMNS_MAX: usize = 4096;
/// Files of one dataset.
pub const FILES_MAX: u64 = 1 << 20;
/// Splits of one pass over a dataset.
pub const SPLITS_MAX: u64 = 1 << 20;
/// A dataset's definition: its pipeline and its manifest, in bytes.
pub const DEFINITION_BYTES_MAX: u64 = 256 << 20;
/// The values of one batch as a reader takes it, in bytes: an element that a consumer gets has less.
pub const BATCH_BYTES_MAX: u64 = 8 << 30;
/// Records that were passed over, of which the places are kept for one batch; more are counted only.
pub const SKIPPED_PLACES_MAX: usize = 1024;

/// Bounds that depend on the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// What one reader of a split holds at once, in bytes: what it fetched of its files, and the
    /// records among which a shuffle draws.
    pub memory_bytes: u64,
    /// One record as it stands in a file, decompressed, in bytes.
    pub record_bytes: u64,
    /// What is fetched of a file, and what a batch of records takes, in bytes, about.
    pub chunk_bytes: u64,
    /// Files that are looked at, at once, when a dataset is planned.
    pub files_at_once: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            memory_bytes: 512 << 20,
            record_bytes: 256 << 20,
            // What is fetched stays in the processor's caches until it is on its way.
            chunk_bytes: 2 << 20,
            files_at_once: 8,
        }
    }
}
