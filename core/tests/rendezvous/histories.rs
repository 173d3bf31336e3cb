//! Histories of senders, receivers, other workers and time, in any order, against a model: everybody is
//! told what the model says, once; invariants hold after every step; when all steps are cleaned up
//! nothing is left.
//!
//! `PROPTEST_CASES` raises the number of histories.

use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::{RngAlgorithm, TestRng, TestRunner};

use crate::happening::{Happening, WAITS_MS, live};

const HISTORIES_MIN: u32 = 3000;

fn asking() -> impl Strategy<Value = Happening> {
    let place = || (0..4_u8, 0..8_u8);
    let timeout = || 0..8_u8;
    prop_oneof![
        8 => (place(), 0..6_u8, any::<bool>(), prop::bool::weighted(0.1)).prop_map(
            |((step, key), bytes, waits, is_dead)| Happening::Send { step, key, bytes, waits, is_dead }
        ),
        4 => (place(), timeout())
            .prop_map(|((step, key), timeout)| Happening::Recv { step, key, timeout }),
        2 => (place(), timeout())
            .prop_map(|((step, key), timeout)| Happening::RecvLocal { step, key, timeout }),
        4 => (place(), timeout(), 0..6_u8, prop::bool::weighted(0.8)).prop_map(
            |((step, key), timeout, request, keeps)| Happening::Request {
                step, key, timeout, request, keeps,
            }
        ),
    ]
}

fn happening() -> impl Strategy<Value = Happening> {
    prop_oneof![
        40 => asking(),
        2 => (0..4_u8).prop_map(Happening::Find),
        5 => (0..4_u8, prop::bool::weighted(0.15))
            .prop_map(|(step, other)| Happening::Initialize(step, other)),
        3 => (0..6_u8).prop_map(Happening::Finished),
        5 => any::<usize>().prop_map(Happening::Cancel),
        2 => any::<usize>().prop_map(Happening::Fetched),
        5 => (any::<usize>(), any::<u8>()).prop_map(|(nth, why)| Happening::NotFetched(nth, why)),
        1 => (0..4_u8, 0..3_u8).prop_map(|(step, code)| Happening::Abort(step, code)),
        3 => (0..4_u8).prop_map(Happening::Cleanup),
        1 => prop::bool::weighted(0.2).prop_map(|all| match all {
            true => Happening::CleanupAll,
            false => Happening::Wait(1),
        }),
        6 => select(&WAITS_MS[..]).prop_map(Happening::Wait),
    ]
}

#[test]
fn whatever_happens_everybody_is_told_what_the_model_says() {
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
    let histories = (any::<bool>(), prop::collection::vec(happening(), 1..120));
    let outcome = runner.run(&histories, |(is_home, history)| {
        live(is_home, &history);
        Ok(())
    });
    if let Err(failure) = outcome {
        panic!("{failure}\n{runner}");
    }
}
