//! Memory that goes back to the system when much of it is freed at once.
//!
//! glibc keeps small pieces that were freed apart from each other, so that they do not grow into pages; keeps
//! up to tens of megabytes at the end of each pool; and has a pool for each thread. A state that was freed
//! would stay resident, as much again as the server's own.

#[cfg(all(target_os = "linux", target_env = "gnu", not(madsim)))]
mod glibc {
    use std::sync::Mutex;

    /// Freed memory at the end of a pool that stays resident, in bytes: otherwise, and meanwhile. glibc comes
    /// to as much by itself once the server has freed a segment of the journal.
    const KEPT_AT_END_BYTES: i32 = 16 << 20;
    const KEPT_AT_END_BYTES_MEANWHILE: i32 = 64 << 10;
    /// Longer pieces have pages of their own, in bytes; likewise.
    const KEPT_BYTES_MAX: i32 = 8 << 20;
    /// Freed pieces up to this length stand apart, in bytes: glibc's own default.
    const SMALL_BYTES_MAX: i32 = 128;

    /// The settings are the process's.
    static SETTINGS: Mutex<()> = Mutex::new(());

    pub(super) fn free<T>(much: T) {
        let _settings = SETTINGS.lock();
        set(libc::M_MXFAST, 0);
        set(libc::M_TRIM_THRESHOLD, KEPT_AT_END_BYTES_MEANWHILE);
        // Joins the small pieces that stand apart already.
        trim();
        drop(much);
        trim();
        set(libc::M_MXFAST, SMALL_BYTES_MAX);
        set(libc::M_MMAP_THRESHOLD, KEPT_BYTES_MAX);
        set(libc::M_TRIM_THRESHOLD, KEPT_AT_END_BYTES);
    }

    fn set(parameter: i32, value: i32) {
        // SAFETY: it sets a number in the allocator, under the allocator's own lock.
        if unsafe { libc::mallopt(parameter, value) } == 0 {
            tracing::debug!(parameter, value, "the allocator does not take this setting");
        }
    }

    fn trim() {
        // SAFETY: it takes the allocator's own locks, and touches nothing but free memory.
        unsafe { libc::malloc_trim(0) };
    }
}

/// Frees what takes much memory in many pieces, and gives the memory back to the system. Takes as long as
/// there are pieces.
pub(super) fn free<T>(much: T) {
    #[cfg(all(target_os = "linux", target_env = "gnu", not(madsim)))]
    glibc::free(much);
    #[cfg(not(all(target_os = "linux", target_env = "gnu", not(madsim))))]
    drop(much);
}
