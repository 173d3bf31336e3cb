//! The histories that fuzzing has found worth keeping (`fuzz/corpus`, `docs/fuzzing.md`).

use std::collections::BTreeSet;

use crate::corpora::{each, name_of};
use crate::dice::live_by;

/// Kinds of happenings there are.
const KINDS: usize = 18;

#[test]
fn requests_of_every_history_of_the_corpus_are_answered_by_what_they_pushed_or_fail() {
    let mut kinds = BTreeSet::new();
    each("exchange_model", |bytes| {
        kinds.extend(live_by(bytes).iter().map(|happening| name_of(&format!("{happening:?}"))));
    });
    assert!(kinds.len() >= KINDS, "the corpus has these happenings only: {kinds:?}");
}
