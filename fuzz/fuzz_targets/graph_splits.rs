//! Bytes, and graphs drawn by bytes, as a dataset's definition.

#![no_main]

#[path = "../../proto/tests/corpora/graph_cleaning.rs"]
mod graph_cleaning;
#[path = "../../proto/tests/corpora/graph_drawing.rs"]
mod graph_drawing;
#[path = "../../proto/tests/corpora/graph_planning.rs"]
mod graph_planning;
#[path = "../../proto/tests/corpora/graph_splits.rs"]
mod graph_splits;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    graph_splits::check(bytes);
});
