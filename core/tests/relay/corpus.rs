//! The histories that fuzzing has found worth keeping (`fuzz/corpus/relay_model`,
//! `docs/fuzzing.md`).

use std::collections::BTreeSet;

use crate::corpora::{each, name_of};
use crate::dice::live_by;
use crate::happening::Happening;

/// Kinds of happenings there are, each kind of call one of its own.
const KINDS: usize = 17;

#[test]
fn a_relay_keeps_its_word_in_every_history_of_the_corpus() {
    let mut kinds = BTreeSet::new();
    each("relay_model", |bytes| {
        kinds.extend(live_by(bytes).iter().map(kind));
    });
    assert!(kinds.len() >= KINDS, "the corpus has these happenings only: {kinds:?}");
}

/// The kind of a happening, by its name; that of the call where a client makes one.
fn kind(happening: &Happening) -> String {
    match happening {
        Happening::Ask(_, kind) => name_of(&format!("{kind:?}")),
        other => name_of(&format!("{other:?}")),
    }
}
