//! Data that is damaged, gone or another than it was: whoever reads it gets an error that says
//! where, in time and never a shorter epoch; others read on.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a failed unwrap is a failed test"
)]

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use rondo_tests::process::Ended;
use rondo_tests::server::{Options, Server, run};
use rondo_tests::tfrecord;
use rondo_tests::worker::Worker;
use tempfile::TempDir;

/// Nothing that is wrong with data takes longer to be told.
const PATIENCE: Duration = Duration::from_secs(20);

/// A server, two workers, and a folder of files.
struct Bed {
    server: Server,
    _workers: [Worker; 2],
    folder: TempDir,
}

impl Bed {
    fn start() -> Self {
        let server = Server::start(&Options::store("segment"));
        let workers = [1, 2].map(|_| Worker::start(&server.address(), &[]));
        Self { server, _workers: workers, folder: TempDir::new().unwrap() }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Runs a command against the server; it ends in time.
    fn run(&self, arguments: &[&str]) -> Ended {
        let began = Instant::now();
        let dispatcher = format!("--server={}", self.server.address());
        let ended = run(&[arguments, &[&dispatcher]].concat());
        assert!(began.elapsed() < PATIENCE, "{arguments:?} took {:?}", began.elapsed());
        ended
    }

    /// Registers a pipeline over these files of the folder.
    fn register(&self, id: &str, source: &str, files: &str, more: &[&str]) -> Ended {
        let pipeline = self.file(&format!("{id}.yaml"));
        let files = self.file(files);
        let text = format!("source: {{{source}: {{files: [{files:?}]}}}}\nsplit_records: 4\n");
        fs::write(&pipeline, text).unwrap();
        let id = format!("--id={id}");
        let arguments = ["dataset", "register", pipeline.to_str().unwrap(), &id];
        self.run(&[&arguments, more].concat())
    }

    fn registered(&self, id: &str, source: &str, files: &str, more: &[&str]) {
        let ended = self.register(id, source, files, more);
        assert!(ended.status.success(), "{}", ended.log);
    }

    /// Reads it by split and by element.
    fn read_both_ways(&self, dataset: &str) -> [Ended; 2] {
        ["split", "element"].map(|mode| {
            let (job, mode) = (format!("--job={dataset}-{mode}"), format!("--mode={mode}"));
            self.run(&["read", &job, &format!("--dataset={dataset}"), &mode])
        })
    }

    /// Nobody else notices.
    fn assert_others_unharmed(&self) {
        for ended in self.read_both_ways("good") {
            assert!(ended.status.success() && ended.log.contains("read 20 "), "{}", ended.log);
        }
    }
}

fn assert_fails(ended: &Ended, words: &[&str]) {
    assert_eq!(ended.status.code(), Some(1), "{}", ended.log);
    for word in words {
        assert!(ended.log.contains(word), "{word:?} is not in {}", ended.log);
    }
}

fn records() -> Vec<u8> {
    let records: Vec<String> = (0..20).map(|number| format!("record {number:2}")).collect();
    let records: Vec<&[u8]> = records.iter().map(String::as_bytes).collect();
    tfrecord::file(&records)
}

/// Bytes of a record of [`records`] in its file.
const FRAME: usize = 12 + 9 + 4;

#[test]
fn what_is_wrong_with_files_reaches_whoever_reads() {
    let bed = Bed::start();
    fs::write(bed.file("good.tfrecord"), records()).unwrap();
    bed.registered("good", "tfrecord", "good.tfrecord", &[]);

    // A bit of the eleventh record's content.
    let mut damaged = records();
    assert_eq!(damaged.len(), 20 * FRAME);
    damaged[10 * FRAME + 14] ^= 1;
    fs::write(bed.file("damaged.tfrecord"), &damaged).unwrap();
    bed.registered("damaged", "tfrecord", "damaged.tfrecord", &[]);
    for ended in bed.read_both_ways("damaged") {
        assert_fails(&ended, &["damaged.tfrecord is corrupt at byte 262", "checksum"]);
    }
    bed.registered("skipping", "tfrecord", "damaged.tfrecord", &["--skip-corrupt"]);
    let [by_split, by_element] = bed.read_both_ways("skipping");
    assert!(by_split.status.success(), "{}", by_split.log);
    assert!(by_split.log.contains("read 19 records"), "{}", by_split.log);
    assert!(by_split.log.contains("skipped 1,"), "{}", by_split.log);
    assert!(by_element.log.contains("read 19 elements"), "{}", by_element.log);

    // The file is gone, or another one, when it is read.
    for (name, after) in [("gone", None), ("changed", Some(&damaged[..19 * FRAME]))] {
        let file = bed.file(&format!("{name}.tfrecord"));
        fs::write(&file, records()).unwrap();
        bed.registered(name, "tfrecord", &format!("{name}.tfrecord"), &[]);
        match after {
            None => fs::remove_file(&file).unwrap(),
            Some(content) => fs::write(&file, content).unwrap(),
        }
        let says = if after.is_none() { "does not exist" } else { "has changed since" };
        for ended in bed.read_both_ways(name) {
            assert_fails(&ended, &[file.to_str().unwrap(), says]);
        }
    }
    bed.assert_others_unharmed();
}

#[test]
fn what_can_be_seen_when_a_dataset_is_registered_is_said_then() {
    let bed = Bed::start();
    fs::write(bed.file("good.tfrecord"), records()).unwrap();
    bed.registered("good", "tfrecord", "good.tfrecord", &[]);

    let ended = bed.register("nowhere", "text", "nowhere/*.txt", &[]);
    assert_fails(&ended, &["nowhere.yaml", "no file fits", "nowhere/*.txt"]);
    fs::write(bed.file("footer.parquet"), b"PAR1 no table PAR1").unwrap();
    let ended = bed.register("footer", "parquet", "footer.parquet", &[]);
    assert_fails(&ended, &["footer.parquet is corrupt at byte"]);
    fs::write(bed.file("cut.tfrecord"), &records()[..FRAME * 7 + 3]).unwrap();
    let ended = bed.register("cut", "tfrecord", "cut.tfrecord", &[]);
    assert_fails(&ended, &["cut.tfrecord is corrupt at byte 175", "ends within a record"]);
    fs::write(bed.file("mixed-1.csv"), "number,word\n1,one\n").unwrap();
    fs::write(bed.file("mixed-2.csv"), "number,weight\n2,2.5\n").unwrap();
    let ended = bed.register("mixed", "csv", "mixed-*.csv", &[]);
    assert_fails(&ended, &["mixed-2.csv has other columns than", "mixed-1.csv", "weight"]);

    let newer = bed.file("newer.yaml");
    fs::write(&newer, "version: 2\nsource: {range: {end: 7}}\n").unwrap();
    let ended = bed.run(&["dataset", "register", newer.to_str().unwrap()]);
    assert_eq!(ended.status.code(), Some(2), "{}", ended.log);
    assert!(ended.log.contains("version 2; this Rondo knows versions up to 1"), "{}", ended.log);
    // Nothing of these is there.
    let ended = bed.run(&["dataset", "list"]);
    assert!(ended.log.contains("good") && !ended.log.contains("mixed"), "{}", ended.log);
    bed.assert_others_unharmed();
}
