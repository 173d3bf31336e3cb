//! The histories that fuzzing has found worth keeping (`fuzz/corpus/relay_model`,
//! `docs/fuzzing.md`).

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use crate::dice::live_by;
use crate::happening::Happening;

/// Kinds of happenings there are.
const KINDS: usize = 12;

#[test]
fn a_relay_keeps_its_word_in_every_history_of_the_corpus() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/corpus/relay_model");
    let files = fs::read_dir(&corpus).unwrap_or_else(|e| panic!("{}: {e}", corpus.display()));
    let mut kinds = BTreeSet::new();
    for file in files {
        let path = file.unwrap().path();
        let bytes = fs::read(&path).unwrap();
        let lived = std::panic::catch_unwind(|| live_by(&bytes));
        let history = lived.unwrap_or_else(|_| panic!("{}: it does not", path.display()));
        kinds.extend(history.iter().map(kind));
    }
    assert!(kinds.len() >= KINDS, "the corpus has these happenings only: {kinds:?}");
}

/// The kind of a happening, by its name.
fn kind(happening: &Happening) -> String {
    let text = format!("{happening:?}");
    text.split_once('(').map_or_else(|| text.clone(), |(kind, _)| kind.to_owned())
}
