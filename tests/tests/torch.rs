//! `runtime/torch` against a real libtorch: its own tests and its lints. It is outside the workspace, whose
//! builds need no libtorch.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a failed unwrap is a failed test"
)]

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
    let (passed, said) = cargo(libtorch, &["clippy", "--all-targets", "--", "-D", "warnings"]);
    assert!(passed, "clippy of runtime/torch:\n{said}");
}
