//! The histories that fuzzing has found worth keeping (`fuzz/corpus/dispatcher_model`,
//! `docs/fuzzing.md`).

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use crate::live::live_by;

/// Kinds of records there are.
const KINDS: usize = 33;

#[test]
fn every_history_of_the_corpus_is_lived_alike() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/corpus/dispatcher_model");
    let files = fs::read_dir(&corpus).unwrap_or_else(|e| panic!("{}: {e}", corpus.display()));
    let mut kinds = BTreeSet::new();
    for file in files {
        let path = file.unwrap().path();
        let lived = std::panic::catch_unwind(|| live_by(&fs::read(&path).unwrap()));
        let lived = lived.unwrap_or_else(|_| panic!("{} is not lived alike", path.display()));
        kinds.extend(lived.journal.iter().map(kind));
    }
    assert!(kinds.len() >= KINDS, "the corpus leads to these records only: {kinds:?}");
}

/// The kind of a record, by its name.
fn kind(record: &impl std::fmt::Debug) -> String {
    let text = format!("{record:?}");
    let (_, kind) = text.split_once('(').unwrap();
    kind.split_once(' ').unwrap().0.to_owned()
}
