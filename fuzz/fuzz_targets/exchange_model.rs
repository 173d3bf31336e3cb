//! Histories of workers and servers of an exchange: what is told and written is right, and everybody is
//! told in the end.

#![no_main]
#![allow(dead_code, reason = "the modules are those of the tests, which use more of them")]

#[path = "../../core/tests/exchange/dice.rs"]
mod dice;
#[path = "../../core/tests/inputs/drawing.rs"]
mod drawing;
#[path = "../../core/tests/exchange/happening.rs"]
mod happening;
#[path = "../../core/tests/exchange/net/mod.rs"]
mod net;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    dice::live_by(bytes);
});
