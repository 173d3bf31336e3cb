//! The histories and keys that fuzzing has found worth keeping (`fuzz/corpus`, `docs/fuzzing.md`).

use std::collections::BTreeSet;

use crate::corpora::{each, name_of};
use crate::dice::live_by;
use crate::reading::read;

/// Kinds of happenings there are.
const KINDS: usize = 14;

#[test]
fn everybody_is_told_what_the_model_says_in_every_history_of_the_corpus() {
    let mut kinds = BTreeSet::new();
    each("rendezvous_model", |bytes| {
        kinds.extend(live_by(bytes).iter().map(|happening| name_of(&format!("{happening:?}"))));
    });
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
