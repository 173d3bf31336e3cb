//! Any history of a worker, at random and of the corpus (`fuzz/corpus/worker_model`, `docs/fuzzing.md`): each
//! element leaves once, nobody hears of an end that the dispatcher does not know, and nobody waits for ever.

use std::collections::BTreeSet;

use proptest::prelude::*;

use crate::corpora::{each, name_of};
use crate::dice::live_by;

/// Kinds of happenings there are.
const KINDS: usize = 14;

proptest! {
    #![proptest_config(ProptestConfig {
        cases: ProptestConfig::default().cases.max(1_000),
        ..ProptestConfig::default()
    })]

    #[test]
    fn a_worker_keeps_its_word_in_every_history(
        // It registers and has each task; else little happens.
        rest in proptest::collection::vec(any::<u8>(), 0..300),
    ) {
        let begin = [32, 0, 32, 0, 16, 0, 1, 16, 1, 1, 16, 2, 1, 16, 3, 1, 16, 4, 1];
        live_by(&[&begin[..], &rest].concat());
    }
}

#[test]
fn a_worker_keeps_its_word_in_every_history_of_the_corpus() {
    let mut kinds = BTreeSet::new();
    each("worker_model", |bytes| {
        kinds.extend(live_by(bytes).iter().map(|happening| name_of(&format!("{happening:?}"))));
    });
    assert!(kinds.len() >= KINDS, "the corpus has these happenings only: {kinds:?}");
}
