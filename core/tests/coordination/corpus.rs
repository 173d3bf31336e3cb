//! The histories that fuzzing has found worth keeping (`fuzz/corpus/coordination_model`,
//! `docs/fuzzing.md`).

use std::collections::BTreeSet;

use crate::both::{Reached, live_by};
use crate::corpora::{each, name_of};

/// Kinds of records that one namespace of a fixed size can have: all but `LearnSize`.
const KINDS: usize = 16;

#[test]
fn every_history_of_the_corpus_is_lived_alike() {
    let mut kinds = BTreeSet::new();
    each("coordination_model", |bytes| {
        kinds.extend(live_by(bytes, &mut Reached::new()).iter().map(kind));
    });
    assert!(kinds.len() >= KINDS, "the corpus leads to these records only: {kinds:?}");
}

/// The kind of a record, by its name.
fn kind(record: &impl std::fmt::Debug) -> String {
    let text = format!("{record:?}");
    name_of(text.split_once('(').unwrap().1)
}
