//! Bytes as a manifest, and as a snapshot's file and parts.

#![no_main]
#![allow(dead_code, reason = "the modules are those of the tests, which use more of them")]

#[path = "../../runtime/tests/disks/model.rs"]
mod model_disk;
#[path = "../../runtime/tests/corpora/snapshot_decode.rs"]
mod snapshot_decode;
#[path = "../../runtime/tests/corpora/started.rs"]
mod started;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    snapshot_decode::check(bytes);
});
