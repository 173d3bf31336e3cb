//! The binary `rondo`.

#[cfg(not(madsim))]
fn main() -> std::process::ExitCode {
    rondo::cli::main()
}

/// Under simulation the library runs in a simulator's process; there is no program.
#[cfg(madsim)]
fn main() {}
