//! Histories of workers, servers, connections and who takes part, in any order: what is told and written
//! is right; invariants hold after every step; when all is calm everybody has been told and nothing is
//! left.
//!
//! `PROPTEST_CASES` raises the number of histories.

use proptest::prelude::*;
use proptest::test_runner::{RngAlgorithm, TestRng, TestRunner};

use crate::dice::live_by;

const HISTORIES_MIN: u32 = 2000;

#[test]
fn whatever_happens_each_request_is_answered_once_by_what_it_pushed_or_fails() {
    let default = ProptestConfig::default();
    let config = ProptestConfig {
        cases: default.cases.max(HISTORIES_MIN),
        failure_persistence: None,
        max_shrink_iters: 20_000,
        ..default
    };
    let mut runner = match std::env::var_os("PROPTEST_CASES") {
        None => TestRunner::new_with_rng(config, TestRng::deterministic_rng(RngAlgorithm::ChaCha)),
        Some(_) => TestRunner::new(config),
    };
    let outcome = runner.run(&prop::collection::vec(any::<u8>(), 2..400), |history| {
        live_by(&history);
        Ok(())
    });
    if let Err(failure) = outcome {
        panic!("{failure}\n{runner}");
    }
}
