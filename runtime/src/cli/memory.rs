//! Memory of processes through which records pass.

/// Pieces of freed memory up to this length are used again, in bytes; longer ones go back to the
/// system. glibc allows no more.
const KEPT_BYTES_MAX: i32 = 32 << 20;
/// Freed memory at the end of what the allocator has that does not go back to the system, in bytes.
const KEPT_AT_END_BYTES: i32 = 64 << 20;

/// Keeps freed memory for the batches that come next. A batch takes megabytes, and glibc's allocator
/// would give them back to the system each time and have it find fresh pages for the next one: that
/// took as long as all copying of the records together (`docs/performance.md`).
pub(super) fn keep_for_batches() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    {
        let kept =
            [(libc::M_MMAP_THRESHOLD, KEPT_BYTES_MAX), (libc::M_TRIM_THRESHOLD, KEPT_AT_END_BYTES)];
        for (parameter, bytes) in kept {
            // SAFETY: it sets a number in the allocator, under the allocator's own lock.
            if unsafe { libc::mallopt(parameter, bytes) } == 0 {
                tracing::debug!(parameter, bytes, "the allocator does not take this setting");
            }
        }
    }
}
