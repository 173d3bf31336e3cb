//! What fuzzing has found worth keeping (`fuzz/corpus`, `docs/fuzzing.md`).

use std::fs;
use std::path::Path;

use super::{asked, reading, tf_config};

fn each(target: &str, check: impl Fn(&[u8])) {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/corpus").join(target);
    let files = fs::read_dir(&corpus).unwrap_or_else(|e| panic!("{}: {e}", corpus.display()));
    for file in files {
        let path = file.unwrap().path();
        let bytes = fs::read(&path).unwrap();
        let checked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| check(&bytes)));
        checked.unwrap_or_else(|_| panic!("{}: it does not hold", path.display()));
    }
}

#[test]
fn host_lists_of_the_corpus_are_read_as_naively() {
    each("cluster_host_lists", |bytes| {
        reading::host_list(bytes);
        reading::task_counts(bytes);
    });
}

#[test]
fn documents_of_the_corpus_are_read_or_refused() {
    each("cluster_documents", |bytes| {
        let text = String::from_utf8_lossy(bytes);
        reading::json(&text);
        tf_config::tf_config(&text);
    });
}

#[test]
fn answers_of_the_corpus_are_read_or_refused() {
    each("cluster_answers", asked::answer);
}
