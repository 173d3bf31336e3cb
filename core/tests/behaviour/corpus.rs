//! The histories that fuzzing has found worth keeping (`fuzz/corpus/dispatcher_model`,
//! `docs/fuzzing.md`).

use std::collections::BTreeSet;

use crate::corpora::{each, name_of};
use crate::live::live_by;

/// Kinds of records there are.
const KINDS: usize = 35;

#[test]
fn every_history_of_the_corpus_is_lived_alike() {
    let mut kinds = BTreeSet::new();
    each("dispatcher_model", |bytes| kinds.extend(live_by(bytes).journal.iter().map(kind)));
    assert!(kinds.len() >= KINDS, "the corpus leads to these records only: {kinds:?}");
}

/// The kind of a record, by its name.
fn kind(record: &impl std::fmt::Debug) -> String {
    let text = format!("{record:?}");
    name_of(text.split_once('(').unwrap().1)
}
