//! Damaged journals and full disks: what was acknowledged is never silently gone.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a failed unwrap is a failed test"
)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use rondo_proto::tf::data::data_service_metadata::Compression;
use rondo_proto::tf::data::processing_mode_def::ShardingPolicy;
use rondo_tests::dispatcher::Dispatcher;
use rondo_tests::graph;
use rondo_tests::process::Process;
use rondo_tests::server::{Options, Server, command, run};
use tonic::Code;

const STORES: [&str; 2] = ["segment", "sled"];
/// How long a server may take to be ready, or to take updates again.
const PATIENCE: Duration = Duration::from_secs(30);
/// Stands in one record, and nowhere else.
const NEEDLE: &str = "needle-in-one-record";

/// Every file below a folder.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path));
        } else {
            found.push(path);
        }
    }
    found
}

/// Flips a bit of every copy of the needle below `folder`; tells how many there were.
fn damage(folder: &Path) -> usize {
    let mut count = 0;
    for file in files(folder) {
        let mut bytes = fs::read(&file).unwrap();
        let starts = 0..bytes.len().saturating_sub(NEEDLE.len() - 1);
        let places: Vec<usize> =
            starts.filter(|start| bytes[*start..].starts_with(NEEDLE.as_bytes())).collect();
        for place in &places {
            bytes[place + 3] ^= 1;
        }
        if !places.is_empty() {
            fs::write(&file, bytes).unwrap();
        }
        count += places.len();
    }
    count
}

/// A stopped server with the needle's record among others that were acknowledged.
fn stopped_with_needle(store: &'static str) -> Server {
    let mut server = Server::start(&Options::store(store));
    let dispatcher = server.dispatcher();
    let metadata = graph::metadata(Compression::Off, 9);
    let dataset = dispatcher.register(None, graph::range(0, 9, 1), &metadata).unwrap();
    for name in ["before", NEEDLE, "after", "and after that"] {
        dispatcher.job(&dataset, Some(name), ShardingPolicy::Dynamic).unwrap();
    }
    server.kill();
    server
}

#[test]
fn a_damaged_record_is_named_and_the_server_does_not_start() {
    for store in STORES {
        let mut server = stopped_with_needle(store);
        let copy = server.data().with_file_name("copy");
        let copied = Command::new("cp").arg("-a").args([&server.data(), &copy]).status().unwrap();
        assert!(copied.success());
        for data in [&server.data(), &copy] {
            assert!(damage(data) > 0, "{store}: the record is not in the journal as it is");
        }
        // In another directory, as after another boot of the machine.
        let verified = run(&["journal", "verify", copy.to_str().unwrap()]);
        assert_eq!(verified.status.code(), Some(6), "{store}: {}", verified.log);
        assert!(verified.log.contains("record 4 is damaged"), "{store}: {}", verified.log);
        let started = server.try_again();
        let ended = match started {
            Err(ended) => ended,
            Ok(()) => panic!("{store}: the server started on a damaged journal"),
        };
        assert_eq!(ended.status.code(), Some(6), "{store}: {}", ended.log);
        // Three records stand before it: they raise the ids, register the dataset, create job "before".
        for word in ["record 4", "damaged", "rondo journal"] {
            assert!(ended.log.contains(word), "{store}: {word:?} is not in:\n{}", ended.log);
        }
        assert!(!ended.log.contains("panicked"), "{store}: {}", ended.log);
    }
}

#[test]
fn a_damaged_manifest_is_named_and_the_server_does_not_start() {
    for store in STORES {
        let mut server = stopped_with_needle(store);
        let manifest = server.data().join("MANIFEST");
        let mut bytes = fs::read(&manifest).unwrap();
        bytes[3] ^= 1;
        fs::write(&manifest, bytes).unwrap();
        let Err(ended) = server.try_again() else {
            panic!("{store}: the server started without knowing which snapshot counts");
        };
        assert_eq!(ended.status.code(), Some(6), "{store}: {}", ended.log);
        for word in ["MANIFEST", "damaged", "checksum"] {
            assert!(ended.log.contains(word), "{store}: {word:?} is not in:\n{}", ended.log);
        }
        let data = server.data();
        let verified = run(&["journal", "verify", data.to_str().unwrap()]);
        assert_eq!(verified.status.code(), Some(6), "{store}: {}", verified.log);
    }
}

/// sled lists its pages in a file beside its log, and can do without that file.
#[test]
fn a_damaged_snapshot_of_sleds_own_is_told_with_its_remedy() {
    let mut server = stopped_with_needle("sled");
    // sled writes it when it opens its log.
    server.start_again();
    server.kill();
    let is_snapshot =
        |file: &PathBuf| file.file_name().unwrap().to_string_lossy().starts_with("snap.");
    let snapshots: Vec<PathBuf> = files(&server.data()).into_iter().filter(is_snapshot).collect();
    assert!(!snapshots.is_empty(), "{:?}", files(&server.data()));
    for snapshot in &snapshots {
        let mut bytes = fs::read(snapshot).unwrap();
        bytes[0] ^= 1;
        fs::write(snapshot, bytes).unwrap();
    }
    let Err(ended) = server.try_again() else {
        panic!("the server started over a damaged file");
    };
    let data = server.data();
    let verify = || run(&["journal", "verify", data.to_str().unwrap()]);
    for told in [ended, verify()] {
        assert_eq!(told.status.code(), Some(6), "{}", told.log);
        let remedy = "remove that file from the copy, and try `rondo journal verify` there";
        assert!(told.log.contains(remedy), "{}", told.log);
    }
    for snapshot in &snapshots {
        fs::remove_file(snapshot).unwrap();
    }
    let verified = verify();
    assert_eq!(verified.status.code(), Some(0), "{}", verified.log);
    server.start_again();
    assert!(server.dispatcher().job("", Some(NEEDLE), ShardingPolicy::Dynamic).is_ok());
}

#[test]
fn an_unfinished_write_at_the_end_is_cut() {
    let mut server = stopped_with_needle("segment");
    let newest = files(&server.data())
        .into_iter()
        .filter(|file| {
            fs::read(file).unwrap().windows(NEEDLE.len()).any(|window| window == NEEDLE.as_bytes())
        })
        .max()
        .unwrap();
    let mut bytes = fs::read(&newest).unwrap();
    let end = bytes.iter().rposition(|byte| *byte != 0).unwrap() + 1;
    bytes.splice(end..(end + 40).min(bytes.len()), [0x5a; 40]);
    fs::write(&newest, bytes).unwrap();
    server.start_again();
    let job = server.dispatcher().job("", Some(NEEDLE), ShardingPolicy::Dynamic).unwrap();
    server.terminate();
    server.start_again();
    assert_eq!(server.dispatcher().job("", Some(NEEDLE), ShardingPolicy::Dynamic).unwrap(), job);
}

#[test]
fn a_lost_blob_is_not_passed_over() {
    let mut server = Server::start(&Options::store("segment"));
    let graph = graph::slices(300_000);
    let metadata = graph::metadata(Compression::Off, 9);
    server.dispatcher().register(Some("large"), graph.clone(), &metadata).unwrap();
    server.kill();
    let blob = files(&server.data())
        .into_iter()
        .find(|file| fs::read(file).unwrap().windows(64).any(|window| window == &graph[1000..1064]))
        .unwrap();
    fs::remove_file(&blob).unwrap();
    // Either it does not start and says why, or it starts and refuses what it cannot give.
    match server.try_again() {
        Err(ended) => assert_eq!(ended.status.code(), Some(6), "{}", ended.log),
        Ok(()) => {
            assert!(server.dispatcher().definition("large").is_err(), "it gave something else")
        }
    }
}

#[test]
fn a_full_disk_refuses_changes_and_nothing_else() {
    for store in STORES {
        let normal = Options::store(store).flag("--free-space-reserve=1MiB");
        let mut server = Server::start(&normal);
        let dispatcher = server.dispatcher();
        dispatcher.worker_heartbeat("worker:1", &[]).unwrap();
        let metadata = graph::metadata(Compression::Off, 9);
        let dataset = dispatcher.register(None, graph::range(0, 9, 1), &metadata).unwrap();
        let job = dispatcher.job(&dataset, Some("epoch"), ShardingPolicy::Dynamic).unwrap();
        let client = dispatcher.iteration(job, 0).unwrap();
        let iteration = dispatcher.heartbeat(client).unwrap().task_info[0].iteration_id;
        assert_eq!(dispatcher.split(iteration, 0, 0).unwrap(), Some(0));
        server.terminate();
        // No disk has that much free space, so to the server it is full.
        server.set_options(&Options::store(store).flag("--free-space-reserve=1000000000MiB"));
        server.start_again();
        let taken = fill(&server.dispatcher(), iteration);
        assert_full(&server.dispatcher(), &dataset, client, iteration);
        let pipeline = server.data().with_file_name("range.yaml");
        fs::write(&pipeline, "source: { range: { start: 0, end: 9 } }\n").unwrap();
        let at = format!("--server={}", server.address());
        let refused = run(&["dataset", "register", pipeline.to_str().unwrap(), &at]);
        assert_eq!(refused.status.code(), Some(8), "{store}: {}", refused.log);
        assert!(refused.log.contains("the journal takes no updates"), "{store}: {}", refused.log);
        server.kill();
        server.set_options(&normal);
        server.start_again();
        let dispatcher = server.dispatcher();
        assert!(dispatcher.is_serving().unwrap(), "{store}");
        // What was refused was not handed out either.
        let next = dispatcher.split(iteration, 0, 0).unwrap();
        assert_eq!(next, Some(taken), "{store}");
    }
}

/// Uses up the space that the journal had set aside before; tells how many splits it took.
fn fill(dispatcher: &Dispatcher, iteration: i64) -> i64 {
    let metadata = graph::metadata(Compression::Off, 9);
    let fits = |_: &i32| dispatcher.register(None, graph::slices(60_000), &metadata).is_ok();
    let large = (0..1000).take_while(fits).count();
    assert!(large < 1000, "the disk does not fill");
    let fits = |_: &i64| dispatcher.split(iteration, 0, 0).is_ok();
    let small = (1..100_000).take_while(fits).count();
    i64::try_from(small).unwrap() + 1
}

fn assert_full(dispatcher: &Dispatcher, dataset: &str, client: i64, iteration: i64) {
    let metadata = graph::metadata(Compression::Off, 9);
    for refused in [
        dispatcher.register(None, graph::range(0, 9, 1), &metadata).map(drop),
        dispatcher.register(None, graph::slices(300_000), &metadata).map(drop),
        dispatcher.split(iteration, 0, 0).map(drop),
        dispatcher.job(dataset, Some("another"), ShardingPolicy::Dynamic).map(drop),
    ] {
        let status = refused.unwrap_err();
        assert_eq!(status.code(), Code::Unavailable, "{status}");
        assert!(status.message().contains("space"), "{status}");
    }
    assert_eq!(dispatcher.definition(dataset).unwrap(), graph::range(0, 9, 1));
    assert_eq!(dispatcher.heartbeat(client).unwrap().task_info.len(), 1);
    dispatcher.job(dataset, Some("epoch"), ShardingPolicy::Dynamic).unwrap();
    assert!(!dispatcher.is_serving().unwrap(), "it says that it is well");
    let status = dispatcher.status().unwrap().server.unwrap();
    assert!(!status.healthy && status.reason.contains("space"), "{status:?}");
}

/// A server with a connection.
fn serve(data: &Path, store: &'static str) -> (Process, Dispatcher) {
    let process = Process::start("rondo serve", &mut command(data, 0, &Options::store(store)));
    let line = process.line_with(" ready on ", PATIENCE).unwrap();
    let (_, rest) = line.split_once(" ready on ").unwrap();
    let address = rest.split_whitespace().next().unwrap().trim_end_matches(',');
    let dispatcher = Dispatcher::connect(address);
    dispatcher.status().unwrap();
    (process, dispatcher)
}

/// Lets a running process have so many files open. It keeps those that it has.
fn limit_open_files(process: &Process, files: &str) {
    let (id, files) = (process.id().to_string(), format!("--nofile={files}:"));
    let limited = Command::new("prlimit").args(["--pid", &id, &files]).status().unwrap();
    assert!(limited.success());
}

/// The most files that a process may ever have open.
fn open_files_max(process: &Process) -> String {
    let limits = fs::read_to_string(format!("/proc/{}/limits", process.id())).unwrap();
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files")).unwrap();
    line.split_whitespace().nth(1).unwrap().to_owned()
}

#[test]
fn a_server_that_may_open_no_file_refuses_updates_until_it_may() {
    for store in STORES {
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().join("data");
        let (mut process, dispatcher) = serve(&data, store);
        let metadata = graph::metadata(Compression::Off, 9);
        let register = || dispatcher.register(None, graph::slices(60_000), &metadata);
        let most = open_files_max(&process);
        limit_open_files(&process, "3");
        let mut kept = Vec::new();
        let refused = loop {
            match register() {
                Ok(dataset) => kept.push(dataset),
                Err(status) => break status,
            }
            // A segment has 8 MiB.
            assert!(kept.len() < 400, "{store}: no new segment was needed");
        };
        assert_eq!(refused.code(), Code::Unavailable, "{store}: {refused}");
        let lacking = "the server may open no more files";
        assert!(refused.message().contains(lacking), "{store}: {refused}");
        limit_open_files(&process, &most);
        let began = Instant::now();
        kept.push(loop {
            match register() {
                Ok(dataset) => break dataset,
                Err(status) => assert!(began.elapsed() < PATIENCE, "{store}: {status}"),
            }
        });
        process.kill();
        let (_process, dispatcher) = serve(&data, store);
        for dataset in &kept {
            assert_eq!(dispatcher.definition(dataset).unwrap(), graph::slices(60_000), "{store}");
        }
    }
}
