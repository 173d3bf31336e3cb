//! Histories of a relay, its clients, its server and the way between: what must not happen twice
//! happens once, and everybody is answered.

#![no_main]
#![allow(dead_code, reason = "the modules are those of the tests, which use more of them")]

#[path = "../../core/tests/relay/dice.rs"]
mod dice;
#[path = "../../core/tests/inputs/drawing.rs"]
mod drawing;
#[path = "../../core/tests/relay/happening.rs"]
mod happening;
#[path = "../../core/tests/relay/server.rs"]
mod server;
#[path = "../../core/tests/relay/story.rs"]
mod story;
#[path = "../../core/tests/relay/world.rs"]
mod world;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    dice::live_by(bytes);
});
