//! Bytes as frames of an exchange, and messages drawn from bytes: read as they were written, or refused.

#![no_main]

#[path = "../../proto/tests/corpora/exchange_drawing.rs"]
mod exchange_drawing;
#[path = "../../proto/tests/corpora/exchange_frames.rs"]
mod exchange_frames;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    exchange_frames::check(bytes);
});
