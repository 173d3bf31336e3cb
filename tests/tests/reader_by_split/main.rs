//! Rust readers read a dataset of Rondo's own by split: every record once and in order, whatever
//! happens to workers, readers and the server, and from a position exactly on.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a failed unwrap is a failed test"
)]

mod output;

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use arrow::array::AsArray;
use arrow::datatypes::Int64Type;
use rondo::reader::{Builder, Content, Delivery, Reader};
use rondo_core::status::Code;
use rondo_data::{Dataset, Pipeline, Stores, plan};
use rondo_tests::binary;
use rondo_tests::process::Process;
use rondo_tests::records::RecordsWorker;
use rondo_tests::server::{Options, Server, run};
use tempfile::TempDir;
use tokio::task::block_in_place;

const RECORDS: i64 = 1000;
/// A read that takes longer hangs.
const PATIENCE: Duration = Duration::from_secs(60);

/// A server with a dataset.
struct Bed {
    server: Server,
    dataset: Dataset,
    folder: TempDir,
}

/// Plans the pipeline, and registers it by the command.
async fn bed(pipeline: Pipeline, options: &Options) -> Bed {
    let pipeline = Pipeline { split_records: Some(64), ..pipeline };
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("pipeline.json");
    std::fs::write(&file, pipeline.to_json().unwrap()).unwrap();
    let server = block_in_place(|| Server::start(options));
    let dispatcher = format!("--server={}", server.address());
    let file = file.to_str().unwrap();
    let ended = block_in_place(|| run(&["dataset", "register", file, "--id=numbers", &dispatcher]));
    assert!(ended.status.success(), "{}", ended.log);
    let dataset = plan(&pipeline, &Stores::from_env()).await.unwrap();
    Bed { server, dataset, folder }
}

fn numbers() -> Pipeline {
    Pipeline::range(0, RECORDS)
}

impl Bed {
    async fn worker(&self, pause_ms: u64) -> RecordsWorker {
        let pause = Duration::from_millis(pause_ms);
        RecordsWorker::start(&self.server.address(), &self.dataset, 10, pause).await
    }

    fn reader(&self, job: &str) -> Builder {
        Reader::builder(&self.server.address()).dataset("numbers").job(job)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn end(self) {
        block_in_place(|| drop(self));
    }
}

async fn next(reader: &mut Reader) -> Option<Delivery> {
    let next = tokio::time::timeout(PATIENCE, reader.next()).await;
    let Ok(next) = next else {
        panic!("it hangs: {:?}", reader.progress().await);
    };
    next.map(|delivery| delivery.unwrap_or_else(|status| panic!("{status}")))
}

fn values(delivery: &Delivery) -> Vec<i64> {
    let Content::Records(records) = &delivery.content else {
        panic!("{delivery:?}");
    };
    records.column(0).as_primitive::<Int64Type>().values().to_vec()
}

/// Reads at least so many records, or to the end.
async fn read(reader: &mut Reader, at_least: usize) -> Vec<i64> {
    let mut read = Vec::new();
    while read.len() < at_least
        && let Some(delivery) = next(reader).await
    {
        let counted: u64 = delivery.identity.iter().map(|origin| origin.count).sum();
        assert_eq!(counted, delivery.records());
        read.extend(values(&delivery));
    }
    read
}

fn all() -> Vec<i64> {
    (0..RECORDS).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn in_order_from_any_number_of_workers_and_in_batches() {
    let bed = bed(numbers().batch(7, false), &Options::store("segment")).await;
    let (_first, _second) = (bed.worker(0).await, bed.worker(0).await);
    let mut reader = bed.reader("batches").open().await.unwrap();
    assert!(reader.is_by_split());
    let mut sizes = Vec::new();
    let mut read = Vec::new();
    while let Some(delivery) = next(&mut reader).await {
        sizes.push(delivery.records());
        read.extend(values(&delivery));
    }
    assert_eq!(read, all());
    let (full, last) = (RECORDS.unsigned_abs() / 7, RECORDS.unsigned_abs() % 7);
    assert_eq!(sizes.len() as u64, full + 1);
    assert!(sizes.iter().rev().skip(1).all(|size| *size == 7) && sizes.ends_with(&[last]));
    reader.checkpoint("all").await.unwrap();
    // By now it has left the job, and still knows.
    tokio::time::sleep(Duration::from_millis(300)).await;
    let counts = reader.progress().await.report.counts;
    assert_eq!(counts.records, RECORDS.unsigned_abs(), "{counts:?}");
    reader.close().await.unwrap();
    // Finished is finished: nobody reads this repetition again.
    let mut late = bed.reader("batches").open().await.unwrap();
    assert_eq!(read_rest(&mut late).await, Vec::<i64>::new());
    bed.end();
}

async fn read_rest(reader: &mut Reader) -> Vec<i64> {
    read(reader, usize::MAX).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn workers_and_the_server_may_die() {
    let mut bed = bed(numbers(), &Options::store("sled")).await;
    let (first, second) = (bed.worker(3).await, bed.worker(3).await);
    let mut reader = bed.reader("deaths").open().await.unwrap();
    let mut seen = read(&mut reader, 200).await;
    first.kill().await;
    seen.extend(read(&mut reader, 200).await);
    block_in_place(|| {
        bed.server.kill();
        bed.server.start_again();
    });
    let third = bed.worker(0).await;
    seen.extend(read(&mut reader, 200).await);
    second.kill().await;
    seen.extend(read_rest(&mut reader).await);
    assert_eq!(seen, all());
    assert!(third.served() > 0, "who came later is read from too");
    bed.end();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn readers_share_and_a_group_does_not_depend_on_timing() {
    let bed = bed(numbers(), &Options::store("segment")).await;
    let _worker = bed.worker(0).await;
    let opened = || async { bed.reader("shared").open().await.unwrap() };
    let (mut one, mut other) = (opened().await, opened().await);
    let (mut read, more) = tokio::join!(read_rest(&mut one), read_rest(&mut other));
    assert!(read.is_sorted() && more.is_sorted());
    read.extend(more);
    read.sort_unstable();
    assert_eq!(read, all());
    // Of two, each gets every other split, in order.
    let member = |index| bed.reader("group").group(index, 2).open();
    let (one, other) = tokio::join!(member(0), member(1));
    let (mut one, mut other) = (one.unwrap(), other.unwrap());
    let of = |index| all().into_iter().filter(move |it| it / 64 % 2 == index).collect::<Vec<_>>();
    let (read, more) = tokio::join!(read_rest(&mut one), read_rest(&mut other));
    assert_eq!((read, more), (of(0), of(1)));
    bed.end();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn close_says_whether_the_dispatcher_knows_what_was_consumed() {
    let mut bed = bed(numbers(), &Options::store("segment")).await;
    let _worker = bed.worker(0).await;
    let opened = |job| bed.reader(job).open();
    let (mut heard, mut unheard) =
        (opened("heard").await.unwrap(), opened("unheard").await.unwrap());
    read(&mut heard, 100).await;
    heard.close().await.unwrap();
    read(&mut unheard, 100).await;
    // Asking for the next one consumes what came before.
    next(&mut unheard).await.unwrap();
    block_in_place(|| bed.server.kill());
    let status = unheard.close().await.unwrap_err();
    assert_eq!(status.code, Code::Unavailable);
    assert!(status.message.contains("was not told what was consumed last"), "{status}");
    block_in_place(|| bed.server.start_again());
    let mut all_of_it = bed.reader("heard").open().await.unwrap();
    read_rest(&mut all_of_it).await;
    block_in_place(|| bed.server.kill());
    all_of_it.close().await.expect("all was read and acknowledged before");
    block_in_place(|| bed.server.start_again());
    bed.end();
}

/// `RONDO_RUNS=10000` for more runs.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_delivery_is_read_again_unless_the_next_one_was_asked_for() {
    let bed = bed(numbers(), &Options::store("segment")).await;
    let _worker = bed.worker(0).await;
    let runs = std::env::var("RONDO_RUNS").map_or(100, |runs| runs.parse().unwrap());
    for run in 0..runs {
        let mut reader = bed.reader("failing").open().await.unwrap();
        next(&mut reader).await.unwrap();
        match run % 2 {
            0 => reader.close().await.unwrap(),
            _ => drop(reader),
        }
    }
    let mut reader = bed.reader("failing").open().await.unwrap();
    let mut read = read_rest(&mut reader).await;
    read.sort_unstable();
    assert_eq!(read, all());
    bed.end();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_position_is_exact() {
    let bed = bed(numbers().shuffle(7, 64), &Options::store("segment")).await;
    let _worker = bed.worker(0).await;
    let mut reader = bed.reader("train").open().await.unwrap();
    let before = read(&mut reader, 333).await;
    reader.checkpoint("step").await.unwrap();
    let after = read(&mut reader, 400).await;
    reader.close().await.unwrap();
    // With more workers, and as another job.
    let _more = bed.worker(0).await;
    for job in ["train", "train-again"] {
        let mut reader = bed.reader(job).resume("step").open().await.unwrap();
        let rest = read_rest(&mut reader).await;
        assert_eq!(rest[..after.len()], after[..], "{job} goes on where it was, in the same order");
        let mut whole = [before.clone(), rest].concat();
        whole.sort_unstable();
        assert_eq!(whole, all(), "{job}");
    }
    bed.end();
}

fn command(bed: &Bed, job: &str, more: &[&str], file: &Path) -> Command {
    let mut command = Command::new(binary::rondo());
    command.arg("read").arg(format!("--server={}", bed.server.address()));
    command.arg(format!("--job={job}")).arg("--format=jsonl").arg("-o").arg(file).args(more);
    command
}

fn lines(file: &Path) -> Vec<i64> {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    let value = |line: &str| {
        let row: serde_json::Value = serde_json::from_str(line).unwrap();
        row.as_object().unwrap().values().next().unwrap().as_i64().unwrap()
    };
    whole.lines().map(value).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_command_loses_nothing_and_writes_little_twice() {
    let options = Options::store("segment").flag("--reader-timeout=1000ms");
    let bed = bed(numbers(), &options).await;
    // So slow that the command is killed well before its end, on a busy machine too.
    let _worker = bed.worker(100).await;
    let (first, second) = (bed.file("first"), bed.file("second"));
    let mut started = command(&bed, "files", &["--dataset=numbers"], &first);
    let mut killed = block_in_place(|| Process::start("rondo read", &mut started));
    let began = Instant::now();
    while lines(&first).len() < 600 {
        assert!(began.elapsed() < PATIENCE, "{}", killed.log());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    block_in_place(|| killed.kill());
    // The job knows its dataset.
    let mut started = command(&bed, "files", &["--save-position=end"], &second);
    let ended = block_in_place(|| Process::start("rondo read", &mut started).wait(PATIENCE));
    assert!(ended.status.success(), "{}", ended.log);
    let (before, after) = (lines(&first), lines(&second));
    let mut whole = [before.clone(), after].concat();
    whole.sort_unstable();
    let twice = whole.len() as i64 - RECORDS;
    whole.dedup();
    assert_eq!(whole, all());
    // No more than was written in the time between two acknowledgements.
    let once = before.len() as i64 - twice;
    assert!(twice >= 0 && once > 0, "{twice} of {} records twice", before.len());
    assert!(ended.log.contains("records/s"), "{}", ended.log);
    bed.end();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_command_is_quick_and_says_what_is_wrong() {
    let bed = bed(numbers(), &Options::store("segment")).await;
    let _worker = bed.worker(0).await;
    let dispatcher = format!("--server={}", bed.server.address());
    let read = |arguments: &[&str]| {
        let all = [&["read", &dispatcher][..], arguments].concat();
        block_in_place(|| run(&all))
    };
    let began = Instant::now();
    let ended = read(&["--job=quick", "--dataset=numbers", "--max-records=5"]);
    let took = began.elapsed();
    assert!(ended.status.success() && ended.log.contains("read 5 records"), "{}", ended.log);
    assert!(took < Duration::from_secs(3), "{took:?}");
    let ended = read(&["--job=nowhere"]);
    assert_eq!(ended.status.code(), Some(2), "{}", ended.log);
    assert!(ended.log.contains("there is no job \"nowhere\""), "{}", ended.log);
    let ended = read(&["--job=unknown", "--dataset=letters"]);
    assert_eq!(ended.status.code(), Some(1), "{}", ended.log);
    assert!(ended.log.contains("letters"), "{}", ended.log);
    let ended = run_elsewhere();
    assert_eq!(ended.status.code(), Some(7), "{}", ended.log);
    bed.end();
}

/// What was read is acknowledged when there is no more, and not only at the next interval of 200 ms.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_short_read_ends_before_the_interval_of_acknowledgements_does() {
    let bed = bed(numbers(), &Options::store("segment")).await;
    let _worker = bed.worker(0).await;
    let server = format!("--server={}", bed.server.address());
    let seconds = |job: usize| {
        let job = format!("--job=short-{job}");
        let ended = block_in_place(|| run(&["read", &server, &job, "--dataset=numbers"]));
        let text = ended.log.split_once(" in ").and_then(|(_, rest)| rest.split_once(" s:"));
        text.and_then(|(text, _)| text.parse::<f64>().ok()).expect(&ended.log)
    };
    // A busy machine may hold up some of them.
    let quickest = (0..10).map(seconds).fold(f64::INFINITY, f64::min);
    assert!(quickest < 0.2, "{quickest} s");
    bed.end();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_command_ends_in_order_when_nobody_takes_its_output() {
    // More lines than fit into a pipe.
    const LINES: i64 = 20_000;
    let bed = bed(Pipeline::range(0, LINES), &Options::store("segment")).await;
    let _worker = bed.worker(0).await;
    let arguments = ["--job=piped", "--dataset=numbers", "--format=jsonl"];
    let mut command = Command::new(binary::rondo());
    command.arg("read").arg(format!("--server={}", bed.server.address())).args(arguments);
    let (status, log) = block_in_place(|| {
        let mut head = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        // The pipe is closed behind the first line.
        BufReader::new(head.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "{\"value\":0}\n");
        let ended = head.wait_with_output().unwrap();
        (ended.status, String::from_utf8(ended.stderr).unwrap())
    });
    assert!(status.success() && log.contains("records/s"), "{log}");
    // What went into the pipe and no further is there for who comes next, but for what was
    // acknowledged in the meantime.
    let mut reader = bed.reader("piped").open().await.unwrap();
    let rest = read_rest(&mut reader).await;
    let taken = LINES - i64::try_from(rest.len()).unwrap();
    assert!(taken < 8192, "{taken} lines do not fit into a pipe");
    assert_eq!(rest, (taken..LINES).collect::<Vec<_>>());
    bed.end();
}

/// Nobody listens there.
fn run_elsewhere() -> rondo_tests::process::Ended {
    block_in_place(|| run(&["read", "--server=127.0.0.1:1", "--job=a", "--dataset=b"]))
}
