//! Tells the system's allocator how much freed memory the process keeps.
//!
//! glibc gives memory back to the system by rules that fit neither a server nor a worker. Large pieces go
//! back at once, and the next message of a megabyte needs fresh pages. Small pieces that were freed apart
//! from each other stay, so that a state that was freed would stay resident.
//!
//! Nothing is set for a user who tunes the allocator by variables, nor on other systems.

#[cfg(all(target_os = "linux", target_env = "gnu", not(madsim)))]
mod glibc {
    use std::sync::Mutex;

    /// Variables with which a user tunes the allocator.
    pub(super) const OF_THE_USER: [&str; 5] = [
        "GLIBC_TUNABLES",
        "MALLOC_ARENA_MAX",
        "MALLOC_TRIM_THRESHOLD_",
        "MALLOC_MMAP_THRESHOLD_",
        "MALLOC_TOP_PAD_",
    ];
    /// Freed pieces up to this length stand apart, in bytes: glibc's own default.
    const SMALL_BYTES_MAX: i32 = 128;
    /// Free bytes that may stay at the end of a pool while a state is freed.
    const AT_END_MEANWHILE_BYTES: i32 = 64 << 10;

    /// The settings are the process's.
    static SETTINGS: Mutex<()> = Mutex::new(());

    /// How much stays with the process.
    pub(super) struct Kept {
        /// Freed pieces up to this length are used again, in bytes. glibc allows no more than 32 MiB.
        pub(super) piece_bytes_max: i32,
        /// Free bytes at the end of a pool.
        pub(super) at_end_bytes: i32,
        /// How many pools there are; glibc's default is eight for each processor.
        pub(super) pools_max: Option<i32>,
    }

    pub(super) fn keep(kept: &Kept) {
        if is_tuned() {
            return;
        }
        let _settings = SETTINGS.lock();
        set_kept(kept);
    }

    pub(super) fn free<T>(much: T, kept: &Kept) {
        if is_tuned() {
            drop(much);
            return trim();
        }
        let _settings = SETTINGS.lock();
        set(libc::M_MXFAST, 0);
        set(libc::M_TRIM_THRESHOLD, AT_END_MEANWHILE_BYTES);
        // Joins the small pieces that stand apart already.
        trim();
        drop(much);
        trim();
        set(libc::M_MXFAST, SMALL_BYTES_MAX);
        set_kept(kept);
    }

    fn is_tuned() -> bool {
        OF_THE_USER.iter().any(|name| std::env::var_os(name).is_some())
    }

    fn set_kept(kept: &Kept) {
        set(libc::M_MMAP_THRESHOLD, kept.piece_bytes_max);
        set(libc::M_TRIM_THRESHOLD, kept.at_end_bytes);
        if let Some(pools) = kept.pools_max {
            set(libc::M_ARENA_MAX, pools);
        }
    }

    fn set(parameter: i32, value: i32) {
        // SAFETY: it sets one number in the allocator, under the lock of its main pool. Other pools read such
        // numbers anew each time, before or after.
        if unsafe { libc::mallopt(parameter, value) } == 0 {
            tracing::debug!(parameter, value, "the allocator does not take this setting");
        }
    }

    pub(super) fn trim() {
        // SAFETY: it takes the allocator's own locks, and touches nothing but free memory.
        unsafe { libc::malloc_trim(0) };
    }

    /// A server. glibc comes to as much by itself once the server has freed a segment of the journal.
    pub(super) const SERVER: Kept =
        Kept { piece_bytes_max: 8 << 20, at_end_bytes: 16 << 20, pools_max: None };
    /// A process through which records pass. A batch takes megabytes.
    pub(super) const RECORDS: Kept =
        Kept { piece_bytes_max: 32 << 20, at_end_bytes: 128 << 20, pools_max: Some(4) };
}

/// Keeps freed memory of requests for those that come next: a server calls this when it starts.
#[cfg(not(madsim))]
pub(crate) fn keep_for_requests() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    glibc::keep(&glibc::SERVER);
}

/// Keeps freed memory of batches for those that come next (`docs/performance.md` says what it costs not to).
#[cfg(not(madsim))]
pub(crate) fn keep_for_batches() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    glibc::keep(&glibc::RECORDS);
}

/// Gives back to the system what is free in the allocator.
#[cfg(not(madsim))]
pub(crate) fn give_back() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    glibc::trim();
}

/// Frees what takes much memory in many pieces, and gives the memory back to the system. Takes as long as
/// there are pieces.
pub(crate) fn free<T>(much: T) {
    #[cfg(all(target_os = "linux", target_env = "gnu", not(madsim)))]
    glibc::free(much, &glibc::SERVER);
    #[cfg(not(all(target_os = "linux", target_env = "gnu", not(madsim))))]
    drop(much);
}

#[cfg(all(test, target_os = "linux", target_env = "gnu", not(madsim)))]
#[allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]
mod tests {
    use std::process::Command;

    /// Bytes that are resident.
    fn resident() -> usize {
        let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
        let pages: usize = pages.split_whitespace().nth(1).unwrap().parse().unwrap();
        // Other pages than of 4 KiB are larger, and what is measured then is less.
        pages * 4096
    }

    const MIB: usize = 1 << 20;

    /// Nothing is set for a user who sets a variable of the allocator.
    #[test]
    fn what_a_user_set_stays() {
        if !alone("what_a_user_set_stays", &[("MALLOC_ARENA_MAX", "4")]) {
            return;
        }
        super::keep_for_requests();
        assert!(!is_kept(), "glibc gives so large a piece back when it is freed first");
    }

    /// Set in the process of a test that runs alone.
    const ALONE: &str = "RONDO_ALLOCATOR_ALONE";

    /// Whether this is a process of the test's own, with these variables of the allocator and no others;
    /// if not, runs the test in such a process. The settings and what is measured are the process's.
    fn alone(name: &str, variables: &[(&str, &str)]) -> bool {
        if std::env::var_os(ALONE).is_some() {
            return true;
        }
        let test = format!("allocator::tests::{name}");
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args([test.as_str(), "--exact", "--test-threads=1"]);
        for of_the_user in super::glibc::OF_THE_USER {
            command.env_remove(of_the_user);
        }
        command.env(ALONE, "1").envs(variables.iter().copied());
        let output = command.output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && said.contains("1 passed"), "{said}");
        false
    }

    /// Whether what is freed at the end of a pool stays for the next request.
    fn is_kept() -> bool {
        let piece = vec![1_u8; 4 * MIB];
        let before = resident();
        drop(std::hint::black_box(piece));
        resident() + MIB > before
    }

    #[test]
    fn freed_memory_of_requests_is_kept_also_after_a_state_was_freed() {
        if !alone("freed_memory_of_requests_is_kept_also_after_a_state_was_freed", &[]) {
            return;
        }
        super::keep_for_requests();
        assert!(is_kept());
        super::free(vec![1_u8; 100]);
        assert!(is_kept());
    }

    #[test]
    fn a_state_in_many_pieces_goes_back_to_the_system() {
        if !alone("a_state_in_many_pieces_goes_back_to_the_system", &[]) {
            return;
        }
        super::keep_for_requests();
        let before = resident();
        let (mut state, mut stays) = (Vec::new(), Vec::new());
        for number in 0..400_000 {
            state.push(Box::new([1_u8; 100]));
            if number % 1000 == 0 {
                stays.push(Box::new([1_u8; 100]));
            }
        }
        assert!(resident() - before > 40 * MIB);
        super::free(state);
        assert!(resident() - before < 8 * MIB, "{} MiB", (resident() - before) / MIB);
        drop(stays);
    }
}
