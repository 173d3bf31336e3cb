//! Random histories of a job with crashes: the service and the model side by side, answer by
//! answer.
//!
//! `PROPTEST_CASES` raises the number of histories.

use std::cell::RefCell;

use proptest::prelude::*;
use proptest::test_runner::{RngAlgorithm, TestRng, TestRunner};

use crate::both::{Reached, live_by};

/// Enough to reach everything that is asked for, in a few seconds.
const HISTORIES_MIN: u32 = 800;

/// Every answer of every history is the model's, and what a crash may not take stays.
#[test]
fn the_service_and_the_model_live_the_same_histories() {
    let default = ProptestConfig::default();
    let config = ProptestConfig {
        cases: default.cases.max(HISTORIES_MIN),
        failure_persistence: None,
        ..default
    };
    let draws_anew = std::env::var_os("PROPTEST_CASES").is_some();
    let mut runner = match draws_anew {
        false => TestRunner::new_with_rng(config, TestRng::deterministic_rng(RngAlgorithm::ChaCha)),
        true => TestRunner::new(config),
    };
    let reached = RefCell::new(Reached::new());
    let outcome = runner.run(&prop::collection::vec(any::<u8>(), 0..300), |bytes| {
        live_by(&bytes, &mut reached.borrow_mut());
        Ok(())
    });
    if let Err(failure) = outcome {
        panic!("{failure}\n{runner}");
    }
    if !draws_anew {
        check_reached(&reached.into_inner());
    }
}

/// A test that never gets anywhere proves nothing.
fn check_reached(reached: &Reached) {
    for mark in [
        "aborted",
        "alive",
        "asked again",
        "barrier cancelled",
        "changes",
        "crash",
        "devices",
        "due",
        "internal",
        "keys",
        "left",
        "life begun",
        "passed",
        "registered",
        "reported",
        "reset",
        "states",
        "superseded",
        "tasks",
        "timed out",
        "told of silence",
    ] {
        let count = reached.get(mark).copied().unwrap_or_default();
        assert!(count >= 5, "{mark:?} {count} times: {reached:?}");
    }
}
