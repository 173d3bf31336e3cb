//! Texts that may be `TF_CONFIG` or other JSON: read as by another reader, or refused in words.

#![no_main]
#![allow(dead_code, reason = "the modules are those of the tests, which use more of them")]

#[path = "../../core/tests/cluster/reading.rs"]
mod reading;
#[path = "../../core/tests/cluster/tf_config.rs"]
mod tf_config;
#[path = "../../core/tests/cluster/world.rs"]
mod world;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let text = String::from_utf8_lossy(bytes);
    reading::json(&text);
    tf_config::tf_config(&text);
});
