//! Histories of clients, losses, crashes and answers in any order, against a model of the server:
//! what must not happen twice happens once, everybody is answered at most once and with the
//! server's own answer, and nobody is told that the server has heard it when it might not have.
//!
//! `PROPTEST_CASES` raises the number of histories.

use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::{RngAlgorithm, TestRng, TestRunner};
use rondo_core::relay::Kind;

use crate::happening::{Happening, WAITS_MS, live};
use crate::story::{BARRIER, ONCE, task, who};

const HISTORIES_MIN: u32 = 1500;

fn kind() -> impl Strategy<Value = Kind> {
    let run = || (0..2_i32, 1..3_u64).prop_map(|(index, incarnation)| who(index, incarnation));
    prop_oneof![
        3 => run().prop_map(Kind::Register),
        5 => run().prop_map(Kind::Heartbeat),
        1 => (0..2_i32).prop_map(|index| Kind::Shutdown(task(index))),
        4 => Just(ONCE),
        2 => Just(BARRIER),
        3 => Just(Kind::Again),
        1 => Just(Kind::Alive),
    ]
}

fn happening() -> impl Strategy<Value = Happening> {
    prop_oneof![
        20 => (0..4_u64, kind()).prop_map(|(client, kind)| Happening::Ask(client, kind)),
        2 => any::<usize>().prop_map(Happening::Cancel),
        1 => (0..4_u64).prop_map(Happening::Close),
        20 => any::<usize>().prop_map(Happening::Deliver),
        20 => (any::<usize>(), prop::bool::weighted(0.2))
            .prop_map(|(nth, again)| Happening::Answer(nth, again)),
        3 => Just(Happening::Break),
        2 => prop::bool::weighted(0.1).prop_map(Happening::Crash),
        3 => Just(Happening::Restart),
        10 => Just(Happening::Find),
        3 => any::<usize>().prop_map(Happening::Release),
        1 => any::<usize>().prop_map(Happening::Expire),
        6 => select(&WAITS_MS[..]).prop_map(Happening::Wait),
    ]
}

/// What must not happen twice happens once, and nobody hears what the server did not say.
#[test]
fn whatever_happens_the_relay_keeps_its_word() {
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
    let outcome = runner.run(&prop::collection::vec(happening(), 1..150), |history| {
        live(&history);
        Ok(())
    });
    if let Err(failure) = outcome {
        panic!("{failure}\n{runner}");
    }
}
