//! Histories of a worker's rendezvous beside a model of it: everybody is told what the model says, once.

#![no_main]
#![allow(dead_code, reason = "the modules are those of the tests, which use more of them")]

#[path = "../../core/tests/rendezvous/both.rs"]
mod both;
#[path = "../../core/tests/rendezvous/dice.rs"]
mod dice;
#[path = "../../core/tests/inputs/drawing.rs"]
mod drawing;
#[path = "../../core/tests/rendezvous/happening.rs"]
mod happening;
#[path = "../../core/tests/rendezvous/model/mod.rs"]
mod model;
#[path = "../../core/tests/rendezvous/story.rs"]
mod story;
#[path = "../../core/tests/rendezvous/world.rs"]
mod world;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    dice::live_by(bytes);
});
