//! The histories that fuzzing has found worth keeping (`fuzz/corpus/dispatcher_model`).

use std::fs;
use std::path::Path;

use crate::live::live_by;

#[test]
fn every_history_of_the_corpus_is_lived_alike() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/corpus/dispatcher_model");
    let files = fs::read_dir(&corpus).unwrap_or_else(|e| panic!("{}: {e}", corpus.display()));
    let mut reached = 0;
    for file in files {
        let path = file.unwrap().path();
        let lived = std::panic::catch_unwind(|| live_by(&fs::read(&path).unwrap()));
        let lived = lived.unwrap_or_else(|_| panic!("{} is not lived alike", path.display()));
        reached += usize::from(lived.contains_key("joined"));
    }
    assert!(reached > 10, "clients joined in {reached} histories only");
}
