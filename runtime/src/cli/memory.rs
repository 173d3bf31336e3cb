//! Memory of processes through which records pass.

/// Pieces of freed memory up to this length are used again, in bytes; longer ones go back to the
/// system. glibc allows no more.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const KEPT_BYTES_MAX: i32 = 32 << 20;
/// Freed memory at the end of a pool that does not go back to the system, in bytes.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const KEPT_AT_END_BYTES: i32 = 128 << 20;
/// Pools of memory, each of which keeps some: by default there may be eight for every processor.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const POOLS_MAX: i32 = 4;

/// Keeps freed memory for the batches that come next. A batch takes megabytes, and glibc's allocator
/// would give them back to the system each time and have it find fresh pages for the next one
/// (`docs/performance.md` says what that costs).
pub(super) fn keep_for_batches() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    for (parameter, value) in [
        (libc::M_MMAP_THRESHOLD, KEPT_BYTES_MAX),
        (libc::M_TRIM_THRESHOLD, KEPT_AT_END_BYTES),
        (libc::M_ARENA_MAX, POOLS_MAX),
    ] {
        // SAFETY: it sets a number in the allocator, under the allocator's own lock.
        if unsafe { libc::mallopt(parameter, value) } == 0 {
            tracing::debug!(parameter, value, "the allocator does not take this setting");
        }
    }
}
