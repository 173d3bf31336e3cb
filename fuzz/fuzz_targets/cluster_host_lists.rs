//! Texts that may be host lists or counts of tasks: read as naively, or refused in words.

#![no_main]
#![allow(dead_code, reason = "the modules are those of the tests, which use more of them")]

#[path = "../../core/tests/cluster/reading.rs"]
mod reading;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    reading::host_list(bytes);
    reading::task_counts(bytes);
});
