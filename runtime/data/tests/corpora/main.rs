//! What fuzzing checks of files from outside, over the inputs it found worth keeping
//! (`fuzz/corpus`, `docs/fuzzing.md`).

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod data_files;
mod good_files;

use std::fs;
use std::path::Path;

use proptest::prelude::*;

#[test]
fn every_file_of_the_corpus_is_read_alike_in_every_way_or_refused() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/data_files");
    let (mut inputs, mut readable) = (0, 0);
    for file in fs::read_dir(corpus).unwrap() {
        let path = file.unwrap().path();
        let bytes = fs::read(&path).unwrap();
        let checked = std::panic::catch_unwind(|| data_files::check(&bytes));
        let checked = checked.unwrap_or_else(|_| panic!("{} fails", path.display()));
        inputs += 1;
        readable += usize::from(checked);
    }
    assert!(inputs >= 20 && readable >= 10, "{readable} of {inputs} have records");
}

#[test]
fn a_good_file_of_every_format_is_read() {
    for format in 0..good_files::FORMATS.len() {
        assert!(data_files::check(&[format as u8 * 2 + 1, 3]), "format {format}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    #[test]
    fn good_files_with_bytes_changed(
        head in any::<[u8; 2]>(),
        changes in prop::collection::vec(any::<[u8; 4]>(), 0..6),
    ) {
        data_files::check(&[&[head[0] | 1, head[1]][..], changes.as_flattened()].concat());
    }
}
