//! The simulator in a build that counts the blocks of instructions that run, so that its oracle `cost` sees
//! a step that does too much. docs/simulation.md says how to build and run it.
//!
//! The compiler calls `__sanitizer_cov_trace_pc_guard` in each block where it is told to
//! (`-sanitizer-coverage-trace-pc-guard`). A function of Rust's would be told so itself, and call itself for
//! ever; so it is written as instructions.

#![warn(missing_docs)]
#![allow(clippy::print_stderr, reason = "it talks to people")]

use std::process::ExitCode;

#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code, reason = "the names are the compiler's, and the counter is one of our own")]
mod meter {
    use std::sync::atomic::{AtomicU64, Ordering};

    #[unsafe(no_mangle)]
    static RONDO_BLOCKS: AtomicU64 = AtomicU64::new(0);

    std::arch::global_asm!(
        ".globl __sanitizer_cov_trace_pc_guard",
        "__sanitizer_cov_trace_pc_guard:",
        "incq RONDO_BLOCKS(%rip)",
        "ret",
        ".globl __sanitizer_cov_trace_pc_guard_init",
        "__sanitizer_cov_trace_pc_guard_init:",
        "ret",
        options(att_syntax)
    );

    /// Blocks that have run so far. The counter is exact while one thread runs.
    pub(super) fn blocks() -> u64 {
        RONDO_BLOCKS.load(Ordering::Relaxed)
    }
}

#[cfg(target_arch = "x86_64")]
fn main() -> ExitCode {
    let before = meter::blocks();
    rondo_sim::cost::measure_with(meter::blocks);
    if meter::blocks() == before {
        eprintln!("nothing is counted: build with the flags that docs/simulation.md names");
        return ExitCode::from(2);
    }
    rondo_sim::cli::main()
}

#[cfg(not(target_arch = "x86_64"))]
fn main() -> ExitCode {
    eprintln!("work is counted on x86_64 only");
    ExitCode::from(2)
}
