//! Answers of APIs to resolvers, and lines of their watches: read, or refused in words, in a bounded
//! number of questions.

#![no_main]
#![allow(dead_code, reason = "the modules are those of the tests, which use more of them")]

#[path = "../../core/tests/cluster/asked.rs"]
mod asked;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    asked::answer(bytes);
    asked::watch(bytes);
});
