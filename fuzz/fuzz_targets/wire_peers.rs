//! Bytes as what peers answer and send: taken alike each time, or refused in words.

#![no_main]

#[path = "../../proto/tests/corpora/wire_peers.rs"]
mod wire_peers;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    wire_peers::check(bytes);
});
