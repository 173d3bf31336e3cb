//! What fuzzing has found worth keeping (`fuzz/corpus`, `docs/fuzzing.md`).

use super::{asked, corpora, reading, tf_config};

/// Inputs that each corpus has at least.
const INPUTS: usize = 9;

/// Runs a check over every input of a target's corpus. Returns the number of inputs, and the number of those
/// for which the check returns true.
fn each(target: &str, check: impl Fn(&[u8]) -> bool) -> (usize, usize) {
    let mut found = 0;
    let inputs = corpora::each(target, |bytes| found += usize::from(check(bytes)));
    (inputs, found)
}

#[test]
fn host_lists_of_the_corpus_are_read_as_naively() {
    let (inputs, lists) = each("cluster_host_lists", |bytes| {
        reading::task_counts(bytes);
        reading::host_list(bytes)
    });
    assert!(inputs >= INPUTS && (1..inputs).contains(&lists), "{lists} of {inputs} are lists");
}

#[test]
fn documents_of_the_corpus_are_read_or_refused() {
    let (inputs, read) = each("cluster_documents", |bytes| {
        let text = String::from_utf8_lossy(bytes);
        tf_config::tf_config(&text);
        reading::json(&text)
    });
    assert!(inputs >= INPUTS && (1..inputs).contains(&read), "{read} of {inputs} are read");
}

#[test]
fn answers_of_the_corpus_are_read_or_refused() {
    let (inputs, resolved) = each("cluster_answers", asked::answer);
    assert!(inputs >= INPUTS && (1..inputs).contains(&resolved), "{resolved} of {inputs} resolve");
    let (_, watched) = each("cluster_answers", |bytes| asked::watch(bytes) > 0);
    assert!(watched >= 2, "lines of a watch are in {watched} of {inputs}");
}
