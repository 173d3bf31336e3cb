//! `runtime/torch` against a real libtorch: its own tests, and at night its lints. It is outside the
//! workspace, whose builds need no libtorch.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a failed unwrap is a failed test"
)]

use std::env;

use rondo_tests::torch::{cargo, libtorch};

#[test]
fn tensors_of_libtorch_are_sent_and_received() {
    let Some(libtorch) = libtorch() else {
        return;
    };
    let (passed, said) = cargo(libtorch, &["test", "--", "--nocapture"]);
    println!("{said}");
    assert!(passed, "the tests of runtime/torch fail:\n{said}");
    assert!(said.contains("test values_mean_the_same_on_both_sides ... ok"), "not run:\n{said}");
}

/// Clippy builds all that the tests build once more, so it looks at night only (`.ci/night`).
#[test]
fn lints() {
    if env::var_os("RONDO_TORCH_LINTS").is_none() {
        println!("RONDO_TORCH_LINTS is not set: clippy does not look at runtime/torch");
        return;
    }
    let libtorch = libtorch().expect("libtorch is there");
    let (passed, said) = cargo(libtorch, &["clippy", "--all-targets", "--", "-D", "warnings"]);
    assert!(passed, "clippy of runtime/torch:\n{said}");
}
