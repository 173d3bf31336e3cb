//! Memory that goes back to the system when much of it is freed at once.
//!
//! glibc keeps small pieces that were freed apart from each other, so that they do not grow into pages; keeps
//! up to tens of megabytes at the end of each pool; and has a pool for each thread. A state that was freed
//! would stay resident. It takes as much memory as the server's own state.

#[cfg(all(target_os = "linux", target_env = "gnu", not(madsim)))]
mod glibc {
    use std::sync::Mutex;

    /// Variables with which a user tunes the allocator: it keeps those settings.
    const OF_THE_USER: [&str; 4] =
        ["GLIBC_TUNABLES", "MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_", "MALLOC_TOP_PAD_"];
    /// Free bytes that glibc may keep at the end of a pool: normally, and while [`free`] runs. glibc comes to
    /// as much by itself once the server has freed a segment of the journal.
    const KEPT_AT_END_BYTES: i32 = 16 << 20;
    const KEPT_AT_END_BYTES_MEANWHILE: i32 = 64 << 10;
    /// Pieces above this many bytes have pages of their own; glibc comes to as much by itself too.
    const KEPT_BYTES_MAX: i32 = 8 << 20;
    /// Freed pieces up to this length stand apart, in bytes: glibc's own default.
    const SMALL_BYTES_MAX: i32 = 128;

    /// The settings are the process's.
    static SETTINGS: Mutex<()> = Mutex::new(());

    pub(super) fn free<T>(much: T) {
        if OF_THE_USER.iter().any(|name| std::env::var_os(name).is_some()) {
            drop(much);
            return trim();
        }
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
        // SAFETY: it sets one number in the allocator, under the lock of its main pool. Other pools read such
        // numbers anew each time, before or after.
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
