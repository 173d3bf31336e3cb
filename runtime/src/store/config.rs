//! Every bound and size of the stores, by name.

use std::time::Duration;

/// Sizes and bounds of a data directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreConfig {
    /// The journal's owner begins a new segment when the open one has this size, in bytes. What is
    /// in no snapshot yet is replayed at a start: 0.1 to 0.2 s for 8 MiB of splits.
    pub segment_bytes_max: u64,
    /// Space set aside at once for a segment file, in bytes.
    pub preallocate_bytes: u64,
    /// Space on the file system that appending leaves free, in bytes: what is needed to write a
    /// snapshot, after which there is space again.
    pub free_space_reserve_bytes: u64,
    /// sled's cache for one journal segment, in bytes. A journal is read once, so a small one does.
    pub sled_cache_bytes: u64,
    /// Frames handed to sled's thread and not yet written, in bytes. Appending waits beyond that.
    pub sled_queue_bytes_max: usize,
    /// Largest blob, in bytes.
    pub blob_bytes_max: u64,
    /// Largest part of a snapshot, in bytes.
    pub snapshot_part_bytes_max: usize,
}

impl Default for StoreConfig {
    fn default() -> Self {
        Self {
            segment_bytes_max: 8 << 20,
            preallocate_bytes: 8 << 20,
            free_space_reserve_bytes: 256 << 20,
            sled_cache_bytes: 16 << 20,
            sled_queue_bytes_max: 32 << 20,
            // A protobuf message cannot be larger, and blobs come in protobuf messages.
            blob_bytes_max: (2 << 30) - 1,
            snapshot_part_bytes_max: 128 << 20,
        }
    }
}

/// Largest segment that is read, in bytes.
pub(super) const SEGMENT_READ_BYTES_MAX: u64 = 4 << 30;
/// Largest segment that takes frames, in bytes. Owners close theirs long before, unless they cannot.
pub(super) const SEGMENT_BYTES_MAX: u64 = 2 << 30;
/// Largest of the small files FORMAT and MANIFEST, in bytes.
pub(super) const SMALL_FILE_BYTES_MAX: usize = 64 << 10;
/// Free space is asked for anew after this many bytes, since others write to the disk too.
pub(super) const FREE_SPACE_ASK_BYTES: u64 = 16 << 20;
/// Free space is also asked for anew when the last answer is this old: others may fill the disk while the
/// server writes little.
pub(super) const FREE_SPACE_ASK_INTERVAL: Duration = Duration::from_millis(100);
