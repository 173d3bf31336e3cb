//! Any history of an agent, at random and of the corpus (`fuzz/corpus/agent_model`, `docs/fuzzing.md`): each
//! call is answered once, errors are told once, and everything ends in its time.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use proptest::prelude::*;

use crate::dice::live_by;
use crate::happening::Happening;

/// Kinds of happenings there are, each ask a kind of its own.
const KINDS: usize = 16;

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]

    #[test]
    fn an_agent_keeps_its_word_in_every_history(
        // It knows who it is and registers; else little happens.
        rest in proptest::collection::vec(any::<u8>(), 0..200),
    ) {
        live_by(&[&[0, 1, 2, 0, 11, 0][..], &rest].concat());
    }
}

#[test]
fn an_agent_keeps_its_word_in_every_history_of_the_corpus() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/corpus/agent_model");
    let files = fs::read_dir(&corpus).unwrap_or_else(|e| panic!("{}: {e}", corpus.display()));
    let mut kinds = BTreeSet::new();
    for file in files {
        let path = file.unwrap().path();
        let bytes = fs::read(&path).unwrap();
        let lived = std::panic::catch_unwind(|| live_by(&bytes));
        let lived = lived.unwrap_or_else(|_| panic!("{}: it does not", path.display()));
        kinds.extend(lived.iter().map(kind));
    }
    assert!(kinds.len() >= KINDS, "the corpus has these happenings only: {kinds:?}");
}

/// The kind of a happening, by its name; an ask's own.
fn kind(happening: &Happening) -> String {
    let text = format!("{happening:?}").replace("Ask(", "");
    let end = text.find(|letter: char| !letter.is_alphanumeric()).unwrap_or(text.len());
    text[..end].to_owned()
}
