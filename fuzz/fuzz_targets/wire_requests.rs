//! Bytes as requests to every method, and as messages of administration.

#![no_main]

#[path = "../../proto/tests/corpora/wire_fields.rs"]
mod wire_fields;
#[path = "../../proto/tests/corpora/wire_requests.rs"]
mod wire_requests;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    wire_requests::check(bytes);
});
