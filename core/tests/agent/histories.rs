//! Any history of an agent, at random and of the corpus (`fuzz/corpus/agent_model`, `docs/fuzzing.md`): each
//! call is answered once, errors are told once, and everything ends in its time.

use std::collections::BTreeSet;

use proptest::prelude::*;

use crate::corpora::{each, name_of};
use crate::dice::live_by;
use crate::happening::Happening;

/// Kinds of happenings there are, each ask a kind of its own.
const KINDS: usize = 16;

proptest! {
    #![proptest_config(ProptestConfig {
        cases: ProptestConfig::default().cases.max(2_000),
        ..ProptestConfig::default()
    })]

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
    let mut kinds = BTreeSet::new();
    each("agent_model", |bytes| kinds.extend(live_by(bytes).iter().map(kind)));
    assert!(kinds.len() >= KINDS, "the corpus has these happenings only: {kinds:?}");
}

/// The kind of a happening, by its name; an ask's own.
fn kind(happening: &Happening) -> String {
    name_of(&format!("{happening:?}").replace("Ask(", ""))
}
