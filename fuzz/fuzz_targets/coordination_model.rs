//! Histories of requests, time, a relay that asks again, late disks and crashes: the coordination
//! service answers as the model does.

#![no_main]
#![allow(dead_code, reason = "the modules are those of the tests, which use more of them")]

#[path = "../../core/tests/coordination/both.rs"]
mod both;
#[path = "../../core/tests/coordination/dice.rs"]
mod dice;
#[path = "../../core/tests/inputs/drawing.rs"]
mod drawing;
#[path = "../../core/tests/coordination/driver.rs"]
mod driver;
#[path = "../../core/tests/coordination/model/mod.rs"]
mod model;
#[path = "../../core/tests/coordination/world.rs"]
mod world;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    both::live_by(bytes, &mut both::Reached::new());
});
