//! Histories of an agent, its application and its server: each call is answered once, errors are told once,
//! everything ends in its time.

#![no_main]
#![allow(dead_code, reason = "the modules are those of the tests, which use more of them")]

#[path = "../../core/tests/agent/dice.rs"]
mod dice;
#[path = "../../core/tests/inputs/drawing.rs"]
mod drawing;
#[path = "../../core/tests/agent/happening.rs"]
mod happening;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    dice::live_by(bytes);
});
