//! Random histories of requests, syncs, refusals, failures and crashes: the real dispatcher answers
//! as the model does, keeps all invariants, replays to what it was, and loses nothing that it
//! acknowledged.
//!
//! `PROPTEST_CASES` raises the number of histories.

use proptest::prelude::*;
use proptest::test_runner::{RngAlgorithm, TestRng, TestRunner};

use crate::both::Reached;
use crate::history::history;
use crate::live::{Settings, live};

/// Enough to reach everything that [`check_reached`] asks for, in a few seconds.
const HISTORIES_MIN: u32 = 1024;

#[test]
fn the_dispatcher_and_the_model_live_the_same_histories() {
    let default = ProptestConfig::default();
    let config_of_run = ProptestConfig {
        cases: default.cases.max(HISTORIES_MIN),
        failure_persistence: None,
        ..default
    };
    // Which states are reached must not be a matter of luck on every push; a longer run draws
    // other histories each time.
    let draws_anew = std::env::var_os("PROPTEST_CASES").is_some();
    let mut runner = match draws_anew {
        false => TestRunner::new_with_rng(
            config_of_run,
            TestRng::deterministic_rng(RngAlgorithm::ChaCha),
        ),
        true => TestRunner::new(config_of_run),
    };
    let reached = std::cell::RefCell::new(Reached::new());
    let settings = any::<[bool; 4]>().prop_map(
        |[listed, gc_dynamic_sharding_jobs, reissue_lost_splits, raises_ids]| Settings {
            listed,
            gc_dynamic_sharding_jobs,
            reissue_lost_splits,
            raises_ids,
        },
    );
    let outcome = runner.run(&(settings, history()), |(settings, history)| {
        let marks = live(settings, &history).reached;
        let mut reached = reached.borrow_mut();
        marks.into_iter().for_each(|(mark, times)| *reached.entry(mark).or_default() += times);
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
        "asked to block",
        "begun split held",
        "begun split waits",
        "blob forgotten",
        "cancelled",
        "client expired",
        "collected",
        "crash with a loss",
        "dataset deleted",
        "dataset freed",
        "dataset replaced",
        "registered dataset found",
        "end of splits",
        "failed precondition",
        "finished",
        "invalid",
        "iteration abandoned",
        "iteration freed",
        "job came back",
        "job deleted",
        "job freed",
        "job retired",
        "joined",
        "not found",
        "not removed",
        "position deleted",
        "position restored",
        "position saved",
        "promoted",
        "read to the end",
        "reader made",
        "recalled",
        "removed",
        "resumed",
        "room again",
        "seen finished",
        "split",
        "split for a task that waits to join",
        "split again",
        "split taken back",
        "splits in doubt",
        "splits lost",
        "task told off",
        "unavailable",
        "unsplittable",
        "worker back",
        "worker freed",
        "worker lost",
        "worker removed",
    ] {
        assert!(reached.contains_key(mark), "no history reached {mark:?}: {reached:?}");
    }
}
