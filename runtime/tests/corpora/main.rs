//! What fuzzing checks of bytes from the disk, over the inputs it found worth keeping
//! (`fuzz/corpus`, `docs/fuzzing.md`).

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
#![allow(dead_code, reason = "the model disk can do more than is needed here")]

mod journal_pieces;
mod journal_replay;
#[path = "../disks/model.rs"]
mod model_disk;
mod snapshot_decode;
mod started;

use std::fs;
use std::path::Path;

/// Runs a check over every input of its corpus, and names the one that fails. Says how many there
/// are and in how many the check got anywhere.
fn replay(target: &str, check: fn(&[u8]) -> bool) -> (usize, usize) {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/corpus").join(target);
    let files = fs::read_dir(&corpus).unwrap_or_else(|e| panic!("{}: {e}", corpus.display()));
    let (mut inputs, mut accepted) = (0, 0);
    for file in files {
        let path = file.unwrap().path();
        let bytes = fs::read(&path).unwrap();
        let checked = std::panic::catch_unwind(|| check(&bytes));
        let checked = checked.unwrap_or_else(|_| panic!("{} fails", path.display()));
        inputs += 1;
        accepted += usize::from(checked);
    }
    (inputs, accepted)
}

#[test]
fn every_journal_of_the_corpus_is_replayed_whole_or_refused() {
    let (inputs, replayed) = replay("journal_replay", journal_replay::check);
    assert!(inputs >= 20 && replayed >= 10, "{replayed} of {inputs} are replayed");
}

#[test]
fn every_snapshot_of_the_corpus_is_restored_whole_or_refused() {
    let (inputs, restored) = replay("snapshot_decode", snapshot_decode::check);
    assert!(inputs >= 20 && restored >= 10, "{restored} of {inputs} are restored");
}

#[test]
fn journals_are_written_as_they_are_read() {
    use journal_pieces::{Journal, Piece};
    let pieces = vec![
        Piece::Frame { skip: 0, more: 0, behind: 1, payload: b"payload".to_vec() },
        Piece::Zeros(3),
        Piece::Raw(vec![1, 2, 3]),
        Piece::Flip { at: 300, bit: 7 },
        Piece::Cut(9),
        Piece::Segment { skip: -1 },
        Piece::Frame { skip: -128, more: 127, behind: 255, payload: vec![0; 70_000] },
    ];
    let journal = Journal { acknowledged: 7, pieces };
    assert_eq!(Journal::by(&journal.bytes()), journal);
}
