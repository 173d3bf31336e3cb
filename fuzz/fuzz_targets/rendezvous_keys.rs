//! Texts that may be keys of a rendezvous: read, or refused in words, and written again as they were.

#![no_main]
#![allow(dead_code, reason = "the modules are those of the tests, which use more of them")]

#[path = "../../core/tests/rendezvous/reading.rs"]
mod reading;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    reading::read(bytes);
});
