//! A dataset is replaced while a job reads it: the job reads its version to the end, new jobs read the new
//! one, and no reader is given the records of another dataset than it asked for.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a failed unwrap is a failed test"
)]

use std::path::Path;

use rondo::reader::Reader;
use rondo_core::status::Code;
use rondo_data::Pipeline;
use rondo_tests::server::{Options, Server, run};
use rondo_tests::worker::Worker;
use tempfile::TempDir;

/// A server and a worker of it.
struct Bed {
    server: Server,
    worker: Worker,
    folder: TempDir,
}

impl Bed {
    fn start() -> Self {
        let server = Server::start(&Options::store("segment"));
        let worker = Worker::start(&server.address(), &[]);
        Self { server, worker, folder: TempDir::new().unwrap() }
    }

    fn rondo(&self, arguments: &[&str]) -> (bool, String) {
        let server = format!("--server={}", self.server.address());
        let ended = run(&[arguments, &[&server]].concat());
        (ended.status.success(), ended.log)
    }

    fn done(&self, arguments: &[&str]) -> String {
        let (done, log) = self.rondo(arguments);
        assert!(done, "{arguments:?}: {log}");
        log
    }

    fn refused(&self, arguments: &[&str], text: &str) {
        let (done, log) = self.rondo(arguments);
        assert!(!done && log.contains(text), "{arguments:?}: {log}");
    }

    /// Registers a range of numbers.
    fn register(&self, range: (i64, i64), more: &[&str]) -> String {
        let file = self.pipeline(range);
        self.done(&[&["dataset", "register", path(&file), "--id=numbers"], more].concat())
    }

    fn pipeline(&self, (from, to): (i64, i64)) -> std::path::PathBuf {
        let pipeline = Pipeline { split_records: Some(64), ..Pipeline::range(from, to) };
        let file = self.folder.path().join(format!("{from}-{to}.json"));
        std::fs::write(&file, pipeline.to_json().unwrap()).unwrap();
        file
    }

    /// What a job reads of the dataset, in order of value.
    fn read(&self, job: &str, more: &[&str]) -> Vec<i64> {
        let file = self.folder.path().join(format!("{job}.jsonl"));
        let job = format!("--job={job}");
        let read = ["read", &job, "--dataset=numbers", "-o", path(&file)];
        self.done(&[&read, more].concat());
        let lines = std::fs::read_to_string(&file).unwrap();
        let number = |line: &str| -> i64 {
            line.chars().filter(char::is_ascii_digit).collect::<String>().parse().unwrap()
        };
        let mut numbers: Vec<i64> = lines.lines().map(number).collect();
        numbers.sort_unstable();
        numbers
    }
}

fn path(file: &Path) -> &str {
    file.to_str().unwrap()
}

#[test]
fn a_job_reads_its_version_to_the_end_and_new_jobs_read_the_new_one() {
    let mut bed = Bed::start();
    bed.register((0, 1000), &[]);
    assert_eq!(bed.read("old", &["--max-records=10"]).len(), 10);
    let other = bed.pipeline((5000, 5050));
    let register = ["dataset", "register", path(&other), "--id=numbers"];
    bed.refused(&register, "as a new version (`--replace`)");
    let told = bed.register((5000, 5050), &["--replace"]);
    let version = told.split('"').nth(3).unwrap().to_owned();
    assert!(told.contains("dataset \"numbers\" registered as version"), "{told}");
    assert!(version.starts_with("numbers@") && version.len() == 24, "{version}");
    assert_eq!(bed.read("new", &[]), (5000..5050).collect::<Vec<_>>());
    // Worker and server know nothing but the journal of it.
    bed.server.kill();
    bed.worker.kill();
    bed.server.start_again();
    bed.worker.start_again();
    assert_eq!(bed.read("old", &[]), (0..1000).collect::<Vec<_>>());
    assert_eq!(bed.read("newer", &[]), (5000..5050).collect::<Vec<_>>());
    let list = bed.done(&["dataset", "list"]);
    let row = |id: &str| {
        let mut rows = list.lines().map(str::trim);
        rows.find(|row| row.split_whitespace().next() == Some(id)).expect(&list)
    };
    assert!(row("numbers").ends_with("former of numbers"), "{list}");
    assert!(row(&version).ends_with("current of numbers"), "{list}");
    let shown = bed.done(&["dataset", "show", "numbers"]);
    assert!(shown.contains(&format!("dataset {version:?}")) && shown.contains("5000"), "{shown}");
    // What it replaced is registered again.
    bed.register((0, 1000), &["--replace"]);
    assert_eq!(bed.read("newest", &[]), (0..1000).collect::<Vec<_>>());
    bed.refused(&["dataset", "delete", "numbers"], "is in use by job");
}

#[test]
fn a_reader_at_a_position_reads_the_version_of_the_position() {
    let bed = Bed::start();
    bed.register((0, 100), &[]);
    assert_eq!(bed.read("old", &["--max-records=10"]).len(), 10);
    bed.done(&["position", "save", "ten", "--job=old"]);
    bed.register((5000, 5050), &["--replace"]);
    let list = bed.done(&["position", "list"]);
    assert!(list.contains("numbers"), "{list}");
    // A reader that would be refused takes nothing back.
    bed.refused(
        &["read", "--job=old", "--dataset=numbers", "--position=ten", "--sharding=off"],
        "Existing processing mode: <DYNAMIC>; got <OFF>",
    );
    assert_eq!(bed.read("later", &["--position=ten"]), (10..100).collect::<Vec<_>>());
    assert_eq!(bed.read("old", &[]), (0..100).collect::<Vec<_>>());
    assert_eq!(bed.read("new", &[]), (5000..5050).collect::<Vec<_>>());
}

#[test]
fn the_name_of_a_job_stands_for_the_pipeline_that_it_read() {
    let bed = Bed::start();
    bed.register((0, 100), &[]);
    assert_eq!(bed.read("train", &["--max-records=10"]).len(), 10);
    let same = bed.pipeline((0, 100));
    bed.done(&["dataset", "register", path(&same), "--id=again"]);
    let rest = bed.folder.path().join("rest.jsonl");
    bed.done(&["read", "--job=train", "--dataset=again", "-o", path(&rest)]);
    assert_eq!(std::fs::read_to_string(&rest).unwrap().lines().count(), 90);
    let other = bed.pipeline((5, 9));
    let unnamed = bed.done(&["dataset", "register", path(&same)]);
    let id = unnamed.split('"').nth(1).unwrap();
    let id = format!("--id={id}");
    bed.refused(
        &["dataset", "register", path(&other), &id, "--replace"],
        "register this one under a name",
    );
    bed.done(&["dataset", "register", path(&same), &id, "--replace"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reader_is_told_that_its_job_reads_another_dataset() {
    let bed = tokio::task::block_in_place(|| {
        let bed = Bed::start();
        bed.register((0, 100), &[]);
        let other = bed.pipeline((7, 9));
        bed.done(&["dataset", "register", path(&other), "--id=other"]);
        assert_eq!(bed.read("train", &[]).len(), 100);
        bed
    });
    let address = bed.server.address();
    let reader = |dataset: &str| Reader::builder(&address).dataset(dataset).job("train");
    let refused = reader("other").open().await.err().unwrap().to_string();
    assert!(refused.contains("job \"train\" reads dataset numbers, not other"), "{refused}");
    let unknown = reader("none").open().await.err().unwrap();
    let rondo::reader::OpenError::Dispatcher { status, .. } = unknown else {
        panic!("{unknown}");
    };
    assert_eq!(status.code, Code::NotFound);
    assert!(reader("numbers").open().await.is_ok());
    tokio::task::block_in_place(|| drop(bed));
}
