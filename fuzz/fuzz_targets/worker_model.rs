//! Histories of a worker, its dispatcher, its data and those who read: each element leaves once, nobody hears
//! of an end that the dispatcher does not know, and nobody waits for ever.

#![no_main]
#![allow(dead_code, reason = "the modules are those of the tests, which use more of them")]

#[path = "../../core/tests/worker/course.rs"]
mod course;
#[path = "../../core/tests/worker/dice.rs"]
mod dice;
#[path = "../../core/tests/inputs/drawing.rs"]
mod drawing;
#[path = "../../core/tests/worker/happening.rs"]
mod happening;
#[path = "../../core/tests/worker/life.rs"]
mod life;
#[path = "../../core/tests/worker/promises.rs"]
mod promises;
#[path = "../../core/tests/worker/world.rs"]
mod world;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    dice::live_by(bytes);
});
