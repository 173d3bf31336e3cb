//! The rules of the house hold for this checkout.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a failed unwrap is a failed test"
)]

use std::path::Path;

#[test]
fn the_house_is_tidy() {
    let root =
        Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the crate lies in the checkout");
    let findings = rondo_tests::tidy::check(root);
    for note in &findings.notes {
        println!("note: {note}");
    }
    let list: Vec<String> = findings.violations.iter().map(ToString::to_string).collect();
    assert!(list.is_empty(), "{} broken rules:\n{}", list.len(), list.join("\n"));
}
