//! Keys made of pieces, right ones and wrong ones, and texts at random.

use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::{RngAlgorithm, TestRng, TestRunner};

use crate::reading::read;

const PIECES: [&str; 32] = [
    "/job:w",
    "/job:",
    "/job:*",
    "/replica:0",
    "/replica:*",
    "/task:1",
    "/task:10",
    "/task:",
    "/task:2147483647",
    "/task:2147483648",
    "/device:CPU:0",
    "/device:GPU:*",
    "/device:*:1",
    "/device:XLA_CPU",
    "/cpu:0",
    "/GPU:3",
    "/Gpu:3",
    "/",
    "",
    "x",
    "_a",
    ":",
    "-1",
    "*",
    "ä",
    " ",
    "00",
    "7fffffffffffffff",
    "/device",
    "/tpu:1",
    "/gpu:*",
    "1",
];
const INCARNATIONS: [&str; 8] = [
    "0000000000001ed2",
    "00c0ffee12345678",
    "FFFFFFFFFFFFFFFF",
    "1",
    "",
    "+1",
    "10000000000000000",
    "g",
];

const COMPONENTS: [&str; 5] = ["/job:w", "/replica:0", "/task:1", "/device:CPU:0", "/gpu:1"];

fn device() -> impl Strategy<Value = String> {
    let right = prop::collection::vec(select(&COMPONENTS[..]), 0..5).prop_map(|all| all.concat());
    let any_pieces = prop::collection::vec(select(&PIECES[..]), 0..4).prop_map(|all| all.concat());
    prop_oneof![3 => right, 1 => any_pieces]
}

fn text() -> impl Strategy<Value = String> {
    let last = select(&["0:0", "7:-3", "0:01", "x", "", "0:0;"][..]);
    let edge = select(&["edge_x", "e e", "", "ä"][..]);
    let parts = (device(), select(&INCARNATIONS[..]), device(), edge, last);
    let right =
        parts.prop_map(|(from, run, to, edge, last)| format!("{from};{run};{to};{edge};{last}"));
    prop_oneof![8 => right, 1 => ".{0,60}", 1 => "[/;:a-z0-9*]{0,80}"]
}

#[test]
fn keys_are_read_as_a_naive_reader_does() {
    let config = ProptestConfig { cases: 20_000, failure_persistence: None, ..Default::default() };
    let mut runner = match std::env::var_os("PROPTEST_CASES") {
        None => TestRunner::new_with_rng(config, TestRng::deterministic_rng(RngAlgorithm::ChaCha)),
        Some(_) => TestRunner::new(ProptestConfig::default()),
    };
    let keys = std::cell::Cell::new(0);
    let outcome = runner.run(&text(), |text| {
        keys.set(keys.get() + u32::from(read(text.as_bytes())));
        Ok(())
    });
    if let Err(failure) = outcome {
        panic!("{failure}\n{runner}");
    }
    assert!(keys.get() > 20, "only {} of them are keys", keys.get());
}

/// Bounds are reached, and not passed.
#[test]
fn a_key_of_the_greatest_length() {
    let begin = "/cpu:0;0000000000000001;/cpu:0;";
    let edge = |bytes: usize| "e".repeat(bytes - begin.len() - ";0:0".len());
    assert!(read(format!("{begin}{};0:0", edge(8192)).as_bytes()));
    assert!(!read(format!("{begin}{};0:0", edge(8193)).as_bytes()));
}
