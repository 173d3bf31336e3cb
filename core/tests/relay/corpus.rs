//! The histories that fuzzing has found worth keeping (`fuzz/corpus/relay_model`,
//! `docs/fuzzing.md`).

use std::collections::BTreeSet;

use crate::corpora::{each, name_of};
use crate::dice::live_by;

/// Kinds of happenings there are.
const KINDS: usize = 12;

#[test]
fn a_relay_keeps_its_word_in_every_history_of_the_corpus() {
    let mut kinds = BTreeSet::new();
    each("relay_model", |bytes| {
        kinds.extend(live_by(bytes).iter().map(|happening| name_of(&format!("{happening:?}"))));
    });
    assert!(kinds.len() >= KINDS, "the corpus has these happenings only: {kinds:?}");
}
