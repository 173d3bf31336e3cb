//! The histories and keys that fuzzing has found worth keeping (`fuzz/corpus`, `docs/fuzzing.md`).

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use crate::dice::live_by;
use crate::happening::Happening;
use crate::reading::read;

/// Kinds of happenings there are.
const KINDS: usize = 14;

fn each(target: &str, mut check: impl FnMut(&[u8])) {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/corpus").join(target);
    let files = fs::read_dir(&corpus).unwrap_or_else(|e| panic!("{}: {e}", corpus.display()));
    for file in files {
        let path = file.unwrap().path();
        let bytes = fs::read(&path).unwrap();
        let checked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| check(&bytes)));
        checked.unwrap_or_else(|_| panic!("{}: it does not hold", path.display()));
    }
}

#[test]
fn everybody_is_told_what_the_model_says_in_every_history_of_the_corpus() {
    let mut kinds = BTreeSet::new();
    each("rendezvous_model", |bytes| kinds.extend(live_by(bytes).iter().map(kind)));
    assert!(kinds.len() >= KINDS, "the corpus has these happenings only: {kinds:?}");
}

#[test]
fn keys_of_the_corpus_are_read_as_a_naive_reader_does() {
    let mut read_and_refused = BTreeSet::new();
    each("rendezvous_keys", |bytes| {
        read_and_refused.insert(read(bytes));
    });
    assert_eq!(read_and_refused.len(), 2, "there are keys, and texts that are none");
}

/// The kind of a happening, by its name.
fn kind(happening: &Happening) -> String {
    let text = format!("{happening:?}");
    let end = text.find(|letter: char| !letter.is_alphanumeric()).unwrap_or(text.len());
    text[..end].to_owned()
}
