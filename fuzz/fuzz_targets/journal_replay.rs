//! Bytes as pieces of a journal: frames, damage, segments.

#![no_main]
#![allow(dead_code, reason = "the modules are those of the tests, which use more of them")]

#[path = "../../runtime/tests/corpora/journal_pieces.rs"]
mod journal_pieces;
#[path = "../../runtime/tests/corpora/journal_replay.rs"]
mod journal_replay;
#[path = "../../runtime/tests/disks/model.rs"]
mod model_disk;
#[path = "../../runtime/tests/corpora/started.rs"]
mod started;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    journal_replay::check(bytes);
});
