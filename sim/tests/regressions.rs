//! Every run that ever broke a promise, shrunk, keeps all of them now.

use std::path::Path;

use rondo_sim::regression;
use rondo_sim::rng::Source;
use rondo_sim::world::{RunOptions, run};

#[test]
fn every_regression_file_keeps_all_promises() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("regressions");
    let mut files = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "txt") {
            continue;
        }
        let tape = regression::read(&std::fs::read_to_string(&path).unwrap());
        let tape = tape.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let options = RunOptions { strict: true, ..RunOptions::default() };
        let outcome = run(&Source::Tape(tape), options);
        assert!(outcome.broken.is_none(), "{}: {:?}", path.display(), outcome.broken);
        files += 1;
    }
    assert!(files > 0, "there is no regression file");
}
