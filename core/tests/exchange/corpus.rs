//! The histories that fuzzing has found worth keeping (`fuzz/corpus`, `docs/fuzzing.md`).

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use crate::dice::live_by;
use crate::happening::Happening;

/// Kinds of happenings there are.
const KINDS: usize = 18;

#[test]
fn requests_of_every_history_of_the_corpus_are_answered_by_what_they_pushed_or_fail() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/corpus/exchange_model");
    let files = fs::read_dir(&corpus).unwrap_or_else(|e| panic!("{}: {e}", corpus.display()));
    let mut kinds = BTreeSet::new();
    for file in files {
        let path = file.unwrap().path();
        let bytes = fs::read(&path).unwrap();
        let lived = std::panic::catch_unwind(|| live_by(&bytes));
        let lived = lived.unwrap_or_else(|_| panic!("{}: it does not hold", path.display()));
        kinds.extend(lived.iter().map(kind));
    }
    assert!(kinds.len() >= KINDS, "the corpus has these happenings only: {kinds:?}");
}

/// The kind of a happening, by its name.
fn kind(happening: &Happening) -> String {
    let text = format!("{happening:?}");
    let end = text.find(|letter: char| !letter.is_alphanumeric()).unwrap_or(text.len());
    text[..end].to_owned()
}
