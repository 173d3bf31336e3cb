//! The inputs that fuzzing has found worth keeping (`fuzz/corpus`, `docs/fuzzing.md`).

#![allow(dead_code, reason = "each program of tests uses a part")]

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

/// Runs a check over every input of a target's corpus. Returns how many inputs there are.
///
/// # Panics
/// When the check panics, with the input's path; when there is no input.
pub(crate) fn each(target: &str, mut check: impl FnMut(&[u8])) -> usize {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/corpus").join(target);
    let files = fs::read_dir(&corpus).unwrap_or_else(|e| panic!("{}: {e}", corpus.display()));
    let mut inputs = 0;
    for file in files {
        let path = file.unwrap().path();
        let bytes = fs::read(&path).unwrap();
        let checked = catch_unwind(AssertUnwindSafe(|| check(&bytes)));
        checked.unwrap_or_else(|_| panic!("{}: it does not hold", path.display()));
        inputs += 1;
    }
    assert!(inputs > 0, "{}: there is no input", corpus.display());
    inputs
}

/// The name with which a text begins, such as that of a variant as `Debug` writes it.
pub(crate) fn name_of(text: &str) -> String {
    let end = text.find(|letter: char| !letter.is_alphanumeric()).unwrap_or(text.len());
    text[..end].to_owned()
}
