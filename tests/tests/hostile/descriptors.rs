//! A process may have as many files open as the system allows, whatever it was started with.

use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};

use rondo_proto::tf;
use rondo_tests::binary;
use rondo_tests::dispatcher::Dispatcher;
use rondo_tests::process::Process;
use rondo_tests::stranger::Stranger;

/// How long a server may take to be ready.
const PATIENCE: Duration = Duration::from_secs(60);

#[test]
fn a_process_raises_its_limit_of_open_files() {
    let data = tempfile::tempdir().unwrap();
    let mut command = Command::new("sh");
    // The shell lowers the limit and becomes the server.
    command
        .args(["-c", "ulimit -Sn 64 && exec \"$0\" serve --listen=127.0.0.1:0 --data \"$1\""])
        .arg(binary::rondo())
        .arg(data.path().join("data"));
    let server = Process::start("rondo serve with few files", &mut command);
    assert!(server.line_with(" ready on ", PATIENCE).is_some(), "{}", server.log());
    let limits = fs::read_to_string(format!("/proc/{}/limits", server.id())).unwrap();
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files")).unwrap();
    let [soft, hard] = [0, 1].map(|place| line.split_whitespace().nth(place).unwrap());
    assert_eq!(soft, hard);
}

#[test]
fn the_slots_of_a_worker_share_the_files_of_its_process() {
    let mut command = Command::new("sh");
    command
        .args(["-c", "ulimit -n 1024 && exec \"$0\" worker --server=127.0.0.1:1 --slots=4 2>&1"])
        .arg(binary::rondo());
    let worker = Process::start("rondo worker with few files", &mut command);
    let told = worker.line_with("(ulimit -n)", PATIENCE);
    let told = told.unwrap_or_else(|| panic!("{}", worker.log()));
    // Connections may have 896 files. Of its quarter, each slot keeps 16 for clients that it turns away.
    assert!(told.contains(" connections=208 "), "{told}");
}

/// Idle connections as many as the system allows, and updates that need new files: connections are refused,
/// the journal has its files.
#[test]
fn connections_leave_files_for_the_journal() {
    const FILES: usize = 160;
    for store in ["segment", "sled"] {
        let data = tempfile::tempdir().unwrap();
        let mut command = Command::new("sh");
        command
            .args([
                "-c",
                "ulimit -n \"$2\" && exec \"$0\" serve --listen=127.0.0.1:0 --data \"$1\" $3",
            ])
            .arg(binary::rondo())
            .arg(data.path().join("data"))
            .arg(FILES.to_string())
            .arg(format!("--store={store} --segment-size-max=1MiB --tasks=1"));
        let server = Process::start("rondo serve with few files", &mut command);
        let ready =
            server.line_with(" ready on ", PATIENCE).unwrap_or_else(|| panic!("{}", server.log()));
        let place = ready.split(" ready on ").nth(1).unwrap();
        let address = place.split_whitespace().next().unwrap().trim_end_matches(',').to_owned();
        let honest = Dispatcher::connect(&address);
        honest.is_serving().unwrap();
        // Each makes a call: a connection without any would be closed after a minute.
        let idle: Vec<_> = (0..2 * FILES)
            .map(|_| {
                let mut stranger = Stranger::connect(&address, 65_535);
                stranger.call("/grpc.health.v1.Health/Check", false, &[]);
                stranger
            })
            .collect();
        // A few connections at a time are told so; the others are closed.
        let begun = Instant::now();
        let is_told = || {
            let refused = Dispatcher::connect(&address).is_serving().unwrap_err();
            refused.message().contains("--connections-max")
        };
        while !is_told() {
            assert!(begun.elapsed() < PATIENCE, "nobody is told why:\n{}", server.log());
        }
        for number in 0..64 {
            let kv = Some(tf::KeyValueEntry {
                key: format!("k{number}"),
                value: vec![7; 60_000].into(),
            });
            let request = tf::InsertKeyValueRequest { kv, allow_overwrite: true };
            let path = "/tensorflow.CoordinationService/InsertKeyValue";
            let _there: tf::InsertKeyValueResponse = honest.method(path, &request).unwrap();
        }
        drop(idle);
        assert!(honest.is_serving().unwrap(), "{}", server.log());
    }
}
