//! Histories of readers by split, workers and a dispatcher that break in any order, against a model
//! of the dispatcher: every record is acknowledged by exactly one reader, which was handed it exactly
//! once, in order; no reader keeps more than it may; and in the end everything is read.
//!
//! `PROPTEST_CASES` raises the number of histories.

use proptest::prelude::*;
use proptest::test_runner::{RngAlgorithm, TestRng, TestRunner};

use crate::world::{Happening, Plan, World};

const HISTORIES_MIN: u32 = 2000;

fn plan() -> impl Strategy<Value = Plan> {
    let size = (1..4_u32, 1..4_usize, 0..12_usize);
    let bounds = (1..5_u32, 1..4_usize, 1..6_usize);
    (size, bounds, any::<bool>(), any::<bool>()).prop_map(
        |((readers, workers, splits), (hold, streams, buffer), is_group, is_patient)| Plan {
            readers,
            workers,
            splits,
            hold,
            streams,
            buffer,
            is_group,
            is_patient,
        },
    )
}

fn happening() -> impl Strategy<Value = Happening> {
    let nth = || 0..4_usize;
    prop_oneof![
        3 => (nth(), 1..3_u64).prop_map(|(nth, more)| Happening::Want(nth, more)),
        8 => (nth(), 1..4_usize).prop_map(|(nth, count)| Happening::Consume(nth, count)),
        1 => nth().prop_map(Happening::Flush),
        12 => (nth(), any::<usize>(), prop::bool::weighted(0.1))
            .prop_map(|(nth, which, is_lost)| Happening::Ask(nth, which, is_lost)),
        12 => (nth(), any::<usize>()).prop_map(|(nth, which)| Happening::Answer(nth, which)),
        16 => (nth(), any::<usize>(), 0..5_u64, prop_oneof![4 => Just(0), 1 => 0..4_u64])
            .prop_map(|(nth, which, count, again)| Happening::Stream(nth, which, count, again)),
        2 => (nth(), any::<usize>()).prop_map(|(nth, which)| Happening::Break(nth, which)),
        1 => nth().prop_map(Happening::CrashWorker),
        2 => nth().prop_map(Happening::StartWorker),
        1 => nth().prop_map(Happening::Lose),
        1 => Just(Happening::CrashServer),
        3 => Just(Happening::StartServer),
        2 => nth().prop_map(Happening::CrashReader),
        1 => nth().prop_map(Happening::Expire),
        8 => prop_oneof![Just(1), Just(20), Just(210), Just(1100)].prop_map(Happening::Wait),
    ]
}

#[test]
fn whatever_happens_every_record_is_read_once() {
    let default = ProptestConfig::default();
    let config = ProptestConfig {
        cases: default.cases.max(HISTORIES_MIN),
        failure_persistence: None,
        max_shrink_iters: 2_000,
        ..default
    };
    let mut runner = match std::env::var_os("PROPTEST_CASES") {
        None => TestRunner::new_with_rng(config, TestRng::deterministic_rng(RngAlgorithm::ChaCha)),
        Some(_) => TestRunner::new(config),
    };
    let histories = (plan(), prop::collection::vec(happening(), 1..300));
    let outcome = runner.run(&histories, |(plan, history)| {
        let mut world = World::new(plan);
        history.into_iter().for_each(|happening| world.happen(happening));
        world.settle();
        Ok(())
    });
    if let Err(failure) = outcome {
        panic!("{failure}\n{runner}");
    }
}
