//! `rondo read -o FILE`: the file holds each acknowledged record once, whenever the command is killed.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use arrow::array::AsArray;
use arrow::datatypes::Int64Type;
use arrow::ipc::reader::StreamReader;
use rondo_data::Pipeline;
use rondo_tests::binary;
use rondo_tests::process::{Ended, Process};
use rondo_tests::server::{Options, run, run_command};
use tokio::task::block_in_place;

use super::{Bed, PATIENCE, bed, lines};

/// More than are read between all kills.
const MANY: i64 = 2_000_000;
/// How often the command is killed in each form; there are three forms.
const KILLS: usize = 20;
/// Sets another number: `.ci/release` kills 201 times in all.
const KILLS_VARIABLE: &str = "RONDO_OUTPUT_KILLS";

fn read(bed: &Bed, arguments: &[&str], file: &Path) -> Command {
    let mut command = Command::new(binary::rondo());
    command.arg("read").arg(format!("--server={}", bed.server.address()));
    command.arg("-o").arg(file).args(arguments);
    command
}

fn ended(command: &mut Command) -> Ended {
    block_in_place(|| run_command(command))
}

/// Random numbers that are the same in each run.
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}

/// The length of a file in bytes, 0 while there is none.
fn size_of(file: &Path) -> u64 {
    file.metadata().map_or(0, |file| file.len())
}

/// Waits until a file is longer than this.
async fn grown(file: &Path, size: u64) {
    let began = Instant::now();
    while size_of(file) <= size {
        assert!(began.elapsed() < PATIENCE, "{} does not grow", file.display());
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

fn kills() -> usize {
    std::env::var(KILLS_VARIABLE).map_or(KILLS, |kills| kills.parse().unwrap())
}

/// How much the command reads: more than it comes to between its deaths.
fn records() -> usize {
    kills() * 1500
}

/// Kills the command again and again, at any moment of its life, and then lets it come to its end.
async fn killed_and_started_again(file_name: &str, seed: u64) -> (Bed, PathBuf) {
    let bed = bed(Pipeline::range(0, MANY), &Options::store("segment")).await;
    let _slow = [bed.worker(20).await, bed.worker(20).await];
    let file = bed.file(file_name);
    let most = format!("--max-records={}", records());
    let arguments = ["--job=train", "--dataset=numbers", &most];
    let (mut dice, mut sizes) = (Dice(seed), Vec::new());
    let kills = kills();
    for kill in 0..kills {
        let mut command = read(&bed, &arguments, &file);
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        // Each second one lives until it has written something, however slow the machine is.
        if kill % 2 == 1 {
            grown(&file, sizes.last().copied().unwrap_or_default()).await;
        }
        let life = Duration::from_millis(dice.below(600));
        tokio::time::sleep(life).await;
        let has_ended = child.try_wait().unwrap();
        assert!(has_ended.is_none(), "run {kill} ended by itself: give it more to read");
        child.kill().unwrap();
        child.wait().unwrap();
        sizes.push(size_of(&file));
    }
    let grew = sizes.windows(2).filter(|pair| pair[0] != pair[1]).count();
    assert!(grew > kills / 4, "hardly any run wrote something: {sizes:?}");
    let _fast = bed.worker(0).await;
    let last = ended(&mut read(&bed, &arguments, &file));
    assert!(last.status.success(), "{}", last.log);
    assert!(last.log.contains("goes on behind the "), "{}", last.log);
    (bed, file)
}

#[track_caller]
fn assert_each_once(mut values: Vec<i64>) {
    assert_eq!(values.len(), records());
    values.sort_unstable();
    values.dedup();
    assert_eq!(values.len(), records(), "some records stand there twice");
}

/// What the file lacks, another command reads.
async fn assert_the_job_has_the_rest(bed: &Bed, held: &[i64]) {
    let _worker = bed.worker(0).await;
    let mut reader = bed.reader("train").open().await.unwrap();
    let mut whole = held.to_vec();
    let wanted = held.len() + 5_000;
    while whole.len() < wanted {
        let delivery = super::next(&mut reader).await.expect("there is more");
        whole.extend(super::values(&delivery));
    }
    let count = whole.len();
    whole.sort_unstable();
    whole.dedup();
    assert_eq!(whole.len(), count, "the job hands out a record that the file holds");
    reader.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn jsonl_holds_each_record_once_whenever_the_command_is_killed() {
    let (bed, file) = killed_and_started_again("numbers.jsonl", 7).await;
    let held = lines(&file);
    assert_each_once(held.clone());
    assert_the_job_has_the_rest(&bed, &held).await;
    bed.end();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn csv_holds_each_record_once_whenever_the_command_is_killed() {
    let (bed, file) = killed_and_started_again("numbers.csv", 8).await;
    let text = std::fs::read_to_string(&file).unwrap();
    let mut rows = text.lines();
    assert_eq!(rows.next(), Some("value"));
    let held: Vec<i64> = rows.map(|row| row.parse().unwrap()).collect();
    assert_each_once(held.clone());
    assert_the_job_has_the_rest(&bed, &held).await;
    bed.end();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn arrow_holds_each_record_once_whenever_the_command_is_killed() {
    let (bed, file) = killed_and_started_again("numbers.arrows", 9).await;
    let mut held = Vec::new();
    for batch in StreamReader::try_new(File::open(&file).unwrap(), None).unwrap() {
        let batch = batch.unwrap();
        held.extend(batch.column(0).as_primitive::<Int64Type>().values());
    }
    assert_each_once(held.clone());
    assert_the_job_has_the_rest(&bed, &held).await;
    bed.end();
}

/// A run that was killed, given up by the dispatcher and followed by another reader.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_goes_on_after_another_reader_has_read_what_the_killed_run_held() {
    let options = Options::store("segment").flag("--reader-timeout=500ms");
    let bed = bed(Pipeline::range(0, 3000), &options).await;
    let _worker = bed.worker(20).await;
    let file = bed.file("out.jsonl");
    let arguments = ["--job=train", "--dataset=numbers"];
    let mut command = read(&bed, &arguments, &file);
    let mut killed = block_in_place(|| Process::start("rondo read", &mut command));
    let began = Instant::now();
    while lines(&file).len() < 500 {
        assert!(began.elapsed() < PATIENCE, "{}", killed.log());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    block_in_place(|| killed.kill());
    // The other one gets what is left, once the killed one is given up.
    let mut reader = bed.reader("train").open().await.unwrap();
    let rest = super::read_rest(&mut reader).await;
    let last = ended(&mut command);
    assert!(last.status.success(), "{}", last.log);
    let mut whole = [lines(&file), rest].concat();
    whole.sort_unstable();
    assert_eq!(whole, (0..3000).collect::<Vec<_>>());
    bed.end();
}

/// Only the dispatcher knows how far the killed run came. Without its answer the file stays as it is.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_that_is_begun_stays_as_it_is_while_the_dispatcher_is_away() {
    let bed = bed(Pipeline::range(0, 1000), &Options::store("segment")).await;
    let _slow = bed.worker(50).await;
    let (file, note) = (bed.file("out.jsonl"), bed.file("out.jsonl.rondo"));
    let train = ["--job=train", "--dataset=numbers"];
    let mut command = read(&bed, &train, &file);
    let mut killed = block_in_place(|| Process::start("rondo read", &mut command));
    let began = Instant::now();
    let has_reader =
        || std::fs::read_to_string(&note).is_ok_and(|it| !it.contains("reader\":null"));
    while lines(&file).is_empty() || !has_reader() {
        assert!(began.elapsed() < PATIENCE, "{}", killed.log());
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    block_in_place(|| killed.kill());
    let before = (std::fs::read(&file).unwrap(), std::fs::read(&note).unwrap());
    let mut elsewhere = Command::new(binary::rondo());
    elsewhere.args(["read", "--server=127.0.0.1:9", "-o"]).arg(&file).args(train);
    let away = ended(&mut elsewhere);
    assert_eq!(away.status.code(), Some(7), "{}", away.log);
    let text = format!("{} stays as it is, because nobody knows which records", file.display());
    assert!(away.log.contains("127.0.0.1:9") && away.log.contains(&text), "{}", away.log);
    assert_eq!((std::fs::read(&file).unwrap(), std::fs::read(&note).unwrap()), before);
    // Once the dispatcher answers, the same command goes on.
    let _fast = bed.worker(0).await;
    let rest = ended(&mut command);
    assert!(rest.status.success() && rest.log.contains("goes on behind the "), "{}", rest.log);
    let mut held = lines(&file);
    held.sort_unstable();
    assert_eq!(held, (0..1000).collect::<Vec<i64>>());
    bed.end();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_that_is_complete_stays_as_it_is() {
    let bed = bed(Pipeline::range(0, 100), &Options::store("segment")).await;
    let _worker = bed.worker(0).await;
    let file = bed.file("out.csv");
    let arguments = ["--job=train", "--dataset=numbers"];
    let first = ended(&mut read(&bed, &arguments, &file));
    assert!(first.status.success(), "{}", first.log);
    let before = std::fs::read(&file).unwrap();
    let again = ended(&mut read(&bed, &arguments, &file));
    assert!(again.status.success(), "{}", again.log);
    assert!(again.log.contains("is complete: it holds the 100 records"), "{}", again.log);
    assert_eq!(std::fs::read(&file).unwrap(), before);
    // A server that is away says nothing against it.
    let mut elsewhere = Command::new(binary::rondo());
    elsewhere.args(["read", "--server=127.0.0.1:9", "-o"]).arg(&file).args(arguments);
    let away = ended(&mut elsewhere);
    assert!(away.status.success(), "{}", away.log);
    assert_eq!(std::fs::read(&file).unwrap(), before);
    bed.end();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_is_left_alone_that_is_not_for_these_records() {
    let bed = bed(Pipeline::range(0, 100), &Options::store("segment")).await;
    let _worker = bed.worker(0).await;
    let refused = |arguments: &[&str], file: &Path, text: &str| {
        let before = std::fs::read(file).ok();
        let ended = ended(&mut read(&bed, arguments, file));
        assert!(!ended.status.success() && ended.log.contains(text), "{}", ended.log);
        assert_eq!(std::fs::read(file).ok(), before, "{}", ended.log);
    };
    let train = ["--job=train", "--dataset=numbers"];
    let foreign = bed.file("foreign.jsonl");
    std::fs::write(&foreign, "{\"mine\":1}\n").unwrap();
    refused(&train, &foreign, "that says what it holds");
    let file = bed.file("out.jsonl");
    let part = [&train[..], &["--max-records=10"]].concat();
    assert!(ended(&mut read(&bed, &part, &file)).status.success());
    assert_eq!(lines(&file).len(), 10);
    refused(&["--job=other", "--dataset=numbers"], &file, "holds records of job \"train\"");
    let csv = [&train[..], &["--format=csv"]].concat();
    refused(&csv, &file, "holds records of output jsonl, not of output csv");
    refused(&["--job=train", "--dataset=letters"], &file, "Dataset id letters not found");
    // Something else cuts a record off.
    let cut = File::options().write(true).open(&file).unwrap();
    cut.set_len(5).unwrap();
    refused(&train, &file, "something else has cut it");
    let fresh = bed.file("fresh");
    refused(&train, &fresh, "stands for no form");
    refused(&[&train[..], &["--format=count"]].concat(), &fresh, "writes no records");
    bed.end();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_that_was_read_before_leaves_no_empty_file() {
    let bed = bed(Pipeline::range(0, 100), &Options::store("segment")).await;
    let _worker = bed.worker(0).await;
    let train = ["--job=train", "--dataset=numbers"];
    assert!(ended(&mut read(&bed, &train, &bed.file("first.jsonl"))).status.success());
    let second = bed.file("second.jsonl");
    let by_element = [&train[..], &["--mode=element"]].concat();
    for arguments in [&train[..], &by_element] {
        let ended = ended(&mut read(&bed, arguments, &second));
        assert!(!ended.status.success(), "{}", ended.log);
        let text = "pass 0 of job \"train\" has been read to its end before";
        assert!(ended.log.contains(text), "{}", ended.log);
        assert!(!second.exists() && !bed.file("second.jsonl.rondo").exists());
    }
    bed.end();
}

/// Without a file a job that was read before ends in order, and not in silence.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_reads_a_job_that_was_read_before_is_told_so() {
    let bed = bed(Pipeline::range(0, 100), &Options::store("segment")).await;
    let _worker = bed.worker(0).await;
    let server = format!("--server={}", bed.server.address());
    let count = || block_in_place(|| run(&["read", &server, "--job=train", "--dataset=numbers"]));
    let text = "pass 0 of job \"train\" has been read to its end before, or was given up. To read the \
                dataset again, name another job, or another pass with --repetition";
    let first = count();
    assert!(first.status.success() && first.log.contains("read 100 records"), "{}", first.log);
    assert!(!first.log.contains(text), "{}", first.log);
    let second = count();
    assert!(second.status.success() && second.log.contains("read 0 records"), "{}", second.log);
    assert!(second.log.contains(text), "{}", second.log);
    bed.end();
}

/// A pass that was read to its end can be read again from a position, and after a position was restored.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pass_that_is_over_is_read_again_from_a_position() {
    let bed = bed(Pipeline::range(0, 100), &Options::store("segment")).await;
    let _worker = bed.worker(0).await;
    let job = ["--job=train", "--dataset=numbers"];
    let succeeds = |more: &[&str], file: &str| {
        let ended = ended(&mut read(&bed, &[&job[..], more].concat(), &bed.file(file)));
        assert!(ended.status.success(), "{file}: {}", ended.log);
        lines(&bed.file(file)).len()
    };
    assert_eq!(succeeds(&["--max-records=40", "--save-position=forty"], "first.jsonl"), 40);
    assert_eq!(succeeds(&[], "rest.jsonl"), 60);
    assert_eq!(succeeds(&["--position=forty"], "again.jsonl"), 60);
    let server = format!("--server={}", bed.server.address());
    let restored = ["position", "restore", "forty", "--job=train", &server];
    let restored = block_in_place(|| run(&restored));
    assert!(restored.status.success(), "{}", restored.log);
    assert_eq!(succeeds(&[], "restored.jsonl"), 60);
    bed.end();
}

/// Ctrl-C is no end of the data.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_is_not_complete_when_the_command_is_interrupted() {
    let bed = bed(Pipeline::range(0, 1000), &Options::store("segment")).await;
    let _slow = bed.worker(50).await;
    let file = bed.file("out.jsonl");
    let train = ["--job=train", "--dataset=numbers"];
    let mut command = read(&bed, &train, &file);
    let mut process = Process::start("rondo read", &mut command);
    grown(&file, 0).await;
    process.signal("INT");
    let interrupted = block_in_place(|| process.wait(PATIENCE));
    assert_eq!(interrupted.status.code(), Some(130), "{}", interrupted.log);
    assert!(lines(&file).len() < 1000, "{}", interrupted.log);
    let _fast = bed.worker(0).await;
    let rest = ended(&mut read(&bed, &train, &file));
    assert!(rest.status.success() && rest.log.contains("goes on behind the "), "{}", rest.log);
    let mut held = lines(&file);
    held.sort_unstable();
    assert_eq!(held, (0..1000).collect::<Vec<i64>>());
    bed.end();
}

/// What is complete is so for one job and one dataset.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_complete_file_is_none_of_a_job_that_was_deleted() {
    let bed = bed(Pipeline::range(0, 100), &Options::store("segment")).await;
    let _worker = bed.worker(0).await;
    let file = bed.file("out.jsonl");
    let train = ["--job=train", "--dataset=numbers"];
    assert!(ended(&mut read(&bed, &train, &file)).status.success());
    let other = ended(&mut read(&bed, &["--job=train", "--dataset=letters"], &file));
    assert_eq!(other.status.code(), Some(2), "{}", other.log);
    let server = format!("--server={}", bed.server.address());
    let deleted = block_in_place(|| run(&["job", "delete", "train", &server]));
    assert!(deleted.status.success(), "{}", deleted.log);
    let again = ended(&mut read(&bed, &train, &file));
    assert_eq!(again.status.code(), Some(1), "{}", again.log);
    assert!(again.log.contains("does not know that job any more"), "{}", again.log);
    assert_eq!(lines(&file).len(), 100);
    bed.end();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_empty_dataset_makes_an_empty_file() {
    let bed = bed(Pipeline::range(0, 0), &Options::store("segment")).await;
    let _worker = bed.worker(0).await;
    let file = bed.file("out.jsonl");
    let ended = ended(&mut read(&bed, &["--job=train", "--dataset=numbers"], &file));
    assert!(ended.status.success(), "{}", ended.log);
    assert_eq!(std::fs::read(&file).unwrap().len(), 0);
    bed.end();
}
