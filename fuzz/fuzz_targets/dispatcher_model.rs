//! Histories of requests, syncs, failures and crashes: the dispatcher answers as the model does.

#![no_main]
#![allow(dead_code, reason = "the modules are those of the tests, which use more of them")]

#[path = "../../core/tests/behaviour/asking.rs"]
mod asking;
#[path = "../../core/tests/behaviour/both.rs"]
mod both;
#[path = "../../core/tests/behaviour/dice.rs"]
mod dice;
#[path = "../../core/tests/inputs/drawing.rs"]
mod drawing;
#[path = "../../core/tests/behaviour/driver.rs"]
mod driver;
#[path = "../../core/tests/behaviour/happening.rs"]
mod happening;
#[path = "../../core/tests/behaviour/live.rs"]
mod live;
#[path = "../../core/tests/behaviour/model/mod.rs"]
mod model;
#[path = "../../core/tests/behaviour/world.rs"]
mod world;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    live::live_by(bytes);
});
