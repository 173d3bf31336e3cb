//! What fuzzing checks of bytes from outside, over the inputs it found worth keeping
//! (`fuzz/corpus`, `docs/fuzzing.md`).

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod coordination_answers;
mod coordination_requests;
mod exchange_drawing;
mod exchange_frames;
mod graph_cleaning;
mod graph_drawing;
mod graph_planning;
mod graph_splits;
mod wire_fields;
mod wire_requests;

use std::fs;
use std::path::Path;

use proptest::prelude::*;

/// Runs a check over every input of its corpus, and names the one that fails. Says how many there
/// are and in how many the check got anywhere.
fn replay(target: &str, check: fn(&[u8]) -> bool) -> (usize, usize) {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/corpus").join(target);
    let files = fs::read_dir(&corpus).unwrap_or_else(|e| panic!("{}: {e}", corpus.display()));
    let (mut inputs, mut accepted) = (0, 0);
    for file in files {
        let path = file.unwrap().path();
        let bytes = fs::read(&path).unwrap();
        let checked = std::panic::catch_unwind(|| check(&bytes));
        let checked = checked.unwrap_or_else(|_| panic!("{} fails", path.display()));
        inputs += 1;
        accepted += usize::from(checked);
    }
    (inputs, accepted)
}

#[test]
fn every_graph_of_the_corpus_is_cleaned_and_planned_right() {
    let (inputs, splittable) = replay("graph_splits", graph_splits::check);
    assert!(inputs >= 20 && splittable >= 5, "{splittable} of {inputs} can be split");
}

#[test]
fn every_request_of_the_corpus_is_taken_whole_or_refused_in_words() {
    let (inputs, taken) = replay("wire_requests", wire_requests::check);
    assert!(inputs >= 20 && taken >= 10, "{taken} of {inputs} are taken");
}

#[test]
fn every_request_of_the_corpus_to_a_namespace_is_answered_in_its_dialect() {
    let (inputs, answered) = replay("coordination_requests", coordination_requests::check);
    assert!(inputs >= 20 && answered >= 10, "{answered} of {inputs} are answered");
}

#[test]
fn every_frame_of_the_corpus_is_read_as_it_was_written_or_refused_in_words() {
    let (inputs, taken) = replay("exchange_frames", exchange_frames::check);
    assert!(inputs >= 20 && taken >= 10, "{taken} of {inputs} are taken");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    /// The same for frames at random.
    #[test]
    fn frames_are_read_as_they_were_written_or_refused_in_words(
        bytes in proptest::collection::vec(any::<u8>(), 0..200),
    ) {
        exchange_frames::check(&bytes);
    }
}
