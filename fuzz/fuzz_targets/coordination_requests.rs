//! Bytes as requests of all dialects to one coordination service, and its answers as bytes.

#![no_main]

#[path = "../../proto/tests/corpora/coordination_answers.rs"]
mod coordination_answers;
#[path = "../../proto/tests/corpora/coordination_requests.rs"]
mod coordination_requests;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    coordination_requests::check(bytes);
});
