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
mod wire_peers;
mod wire_requests;

use std::collections::BTreeSet;
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

#[test]
fn every_message_of_a_peer_in_the_corpus_is_taken_alike_or_refused_in_words() {
    let (inputs, taken) = replay("wire_peers", wire_peers::check);
    assert!(inputs >= 60 && taken >= 40, "{taken} of {inputs} are taken");
}

/// The sources below a folder.
fn sources(folder: &Path) -> String {
    let mut all = String::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            all += &sources(&path);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            all += &fs::read_to_string(&path).unwrap();
        }
    }
    all
}

/// Each public function that decodes is called by a check of fuzzing.
#[test]
fn no_decoder_is_left_out() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let declared = sources(&root.join("src"));
    let checks = ["tests/corpora", "../runtime/tests/corpora"].map(|it| sources(&root.join(it)));
    let checks = checks.concat();
    let name = |text: &str| {
        let end = text.find(|letter: char| !letter.is_alphanumeric() && letter != '_');
        format!("decode_{}", &text[..end.unwrap_or(text.len())])
    };
    let decoders: BTreeSet<String> = declared.split("pub fn decode_").skip(1).map(name).collect();
    assert!(decoders.len() >= 40, "{decoders:?}");
    let called: BTreeSet<String> = checks.split("decode_").skip(1).map(name).collect();
    let missing: Vec<&String> = decoders.difference(&called).collect();
    assert!(missing.is_empty(), "no check of fuzzing calls {missing:?}");
}

/// Bytes that look like a message: fields of low numbers, some with messages in them.
fn fields() -> impl Strategy<Value = Vec<u8>> {
    let number = (1_u8..9, any::<u8>()).prop_map(|(tag, value)| vec![tag << 3, value & 0x7f]);
    let blob = (1_u8..9, proptest::collection::vec(any::<u8>(), 0..20));
    let text = (1_u8..9, "[a-z:1]{0,9}").prop_map(|(tag, text)| length_delimited(tag, text.into()));
    let leaf = prop_oneof![number, blob.prop_map(|(tag, it)| length_delimited(tag, it)), text];
    let message = proptest::collection::vec(leaf, 0..4).prop_map(|fields| fields.concat());
    message.prop_recursive(3, 16, 3, |inner| {
        let nested = (1_u8..9, inner).prop_map(|(tag, it)| length_delimited(tag, it));
        proptest::collection::vec(nested, 0..3).prop_map(|fields| fields.concat())
    })
}

/// A field of up to 127 bytes; what is longer is cut off.
fn length_delimited(tag: u8, mut bytes: Vec<u8>) -> Vec<u8> {
    bytes.truncate(127);
    let mut field = vec![tag << 3 | 2, bytes.len() as u8];
    field.append(&mut bytes);
    field
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

    /// Messages of peers likewise.
    #[test]
    fn messages_of_peers_are_taken_alike_or_refused_in_words(
        who in any::<u8>(),
        bytes in prop_oneof![fields(), proptest::collection::vec(any::<u8>(), 0..64)],
    ) {
        wire_peers::check(&[&[who][..], &bytes].concat());
    }
}
