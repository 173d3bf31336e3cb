//! The binary as a person meets it: what it says, how it ends, and what it leaves alone.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a failed unwrap is a failed test"
)]

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::time::Duration;

use rondo_proto::tf::data::data_service_metadata::Compression;
use rondo_proto::tf::data::processing_mode_def::ShardingPolicy;
use rondo_proto::{tf, xla};
use rondo_tests::binary;
use rondo_tests::dispatcher::Dispatcher;
use rondo_tests::graph;
use rondo_tests::process::{Ended, Process};
use rondo_tests::relay::Relay;
use rondo_tests::server::{self, Options, Server, run, run_command};
use serde_json::Value;
use tempfile::TempDir;

const PATIENCE: Duration = Duration::from_secs(30);

/// Asserts that it ended with this status and said all of these words.
fn assert_ended(ended: &Ended, status: i32, words: &[&str]) {
    assert_eq!(ended.status.code(), Some(status), "{}", ended.log);
    for word in words {
        assert!(ended.log.contains(word), "{word:?} is not in:\n{}", ended.log);
    }
    assert!(!ended.log.contains("panicked"), "{}", ended.log);
}

/// Runs `rondo serve` on `data` and a free port to its end.
fn serve(data: &std::path::Path) -> Ended {
    run_command(&mut server::command(data, 0, &Options::store("segment")))
}

#[test]
fn a_busy_port_is_named() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let folder = TempDir::new().unwrap();
    let options = Options::store("segment");
    let ended = run_command(&mut server::command(&folder.path().join("data"), port, &options));
    assert_ended(&ended, 3, &["127.0.0.1", &port.to_string(), "in use", "--listen"]);
}

#[test]
fn a_data_directory_that_cannot_be_is_named() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("file");
    fs::write(&file, "precious").unwrap();
    for data in [file.clone(), file.join("below")] {
        assert_ended(&serve(&data), 4, &[data.to_str().unwrap()]);
    }
    assert_eq!(fs::read_to_string(&file).unwrap(), "precious");
}

#[test]
fn a_foreign_directory_is_left_alone() {
    let folder = TempDir::new().unwrap();
    fs::write(folder.path().join("holiday.jpg"), "precious").unwrap();
    assert_ended(&serve(folder.path()), 4, &[folder.path().to_str().unwrap(), "holiday.jpg"]);
    let left: Vec<_> =
        fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["holiday.jpg"]);
}

#[test]
fn a_second_server_on_one_directory_is_refused() {
    for store in ["segment", "sled"] {
        let first = Server::start(&Options::store(store));
        let data = first.data();
        let ended = run_command(&mut server::command(&data, 0, &Options::store(store)));
        assert_ended(&ended, 5, &[data.to_str().unwrap(), "used by another server"]);
        assert!(first.dispatcher().is_serving().unwrap());
    }
}

#[test]
fn another_store_does_not_start_on_the_directory() {
    let mut first = Server::start(&Options::store("segment"));
    first.dispatcher().worker_heartbeat("worker:1", &[]).unwrap();
    first.terminate();
    let ended = run_command(&mut server::command(&first.data(), 0, &Options::store("sled")));
    assert_ended(&ended, 4, &["segment", "sled"]);
    first.start_again();
}

#[test]
fn wrong_flags_are_named_with_what_would_be_right() {
    for (arguments, words) in [
        (&["serve", "--store=tape"][..], &["--store", "tape", "sled", "segment"][..]),
        (&["serve", "--port=70000"], &["--port", "70000"]),
        (&["serve", "--listen=nowhere"], &["--listen", "nowhere", "host:port"]),
        (&["serve", "--job-gc-timeout=soon"], &["--job-gc-timeout", "soon", "500ms"]),
        (&["serve", "--deployment-mode=9"], &["--deployment-mode", "9", "colocated"]),
        (&["serve", "--fault-tolerant=perhaps"], &["--fault-tolerant", "perhaps", "true"]),
        (&["serve", "--tasks=0"], &["--tasks", "0", "65536"]),
        (&["serve", "--heartbeat-timeout=soon"], &["--heartbeat-timeout", "soon", "500ms"]),
        (&["serve", "--heartbeat-timeout=0"], &["--heartbeat-timeout", "0"]),
        (&["serve", "--namespace=a:1"], &["--namespace", "a:1", "NAME=PORT"]),
        (&["serve", "--namespace=default=0"], &["--namespace", "default"]),
        (&["serve", "--namespace=a=0,a=0"], &["--namespace", "\"a\""]),
        (&["serve", "--value-size-max=1GiB"], &["--value-size-max", "--message-size-max"]),
        (&["serve", "--segment-size-max=8mb"], &["--segment-size-max", "8mb", "16MiB"]),
        (&["serve", "--dta=x"], &["--dta", "--data"]),
        (
            &["relay", "--upstream=127.0.0.1:1", "--upstream-patience=2h"],
            &["--upstream-patience", "7200000 ms", "3600000 ms"],
        ),
        (&["srve"], &["srve", "serve"]),
        (&["serve", "stray"], &["stray"]),
    ] {
        assert_ended(&run(arguments), 2, words);
    }
}

#[test]
fn a_listener_for_all_machines_wants_a_word() {
    let folder = TempDir::new().unwrap();
    let mut command = Command::new(binary::rondo());
    command.args(["serve", "--listen=0.0.0.0:0", "--data"]).arg(folder.path().join("data"));
    let ended = run_command(&mut command);
    assert!(!ended.status.success());
    assert!(ended.log.contains("--insecure"), "{}", ended.log);
}

#[test]
fn sigterm_ends_in_order_and_loses_nothing() {
    for store in ["segment", "sled"] {
        let mut server = Server::start(&Options::store(store));
        let metadata = graph::metadata(Compression::Off, 9);
        let dataset = server.dispatcher().register(None, graph::range(0, 9, 1), &metadata).unwrap();
        assert_ended(&server.terminate(), 0, &[]);
        server.start_again();
        assert_eq!(server.dispatcher().definition(&dataset).unwrap(), graph::range(0, 9, 1));
    }
}

#[test]
fn a_parked_call_does_not_hold_up_the_end() {
    let mut server = Server::start(&Options::store("segment"));
    let address = server.address();
    let parked = std::thread::spawn(move || park(&address));
    std::thread::sleep(Duration::from_millis(300));
    let began = std::time::Instant::now();
    assert_ended(&server.terminate(), 0, &[]);
    assert!(began.elapsed() < Duration::from_secs(8), "it took {:?}", began.elapsed());
    let status = parked.join().unwrap();
    assert!(rondo_tests::dispatcher::is_retried(&status), "{status}");
}

#[test]
fn a_second_signal_ends_a_server_at_once_with_128_and_its_number() {
    for (name, status) in [("TERM", 143), ("INT", 130)] {
        // Longer than a test waits for a process to end.
        let options = Options::store("segment").flag("--shutdown-grace=600000ms");
        let mut server = Server::start(&options);
        let dispatcher = server.dispatcher();
        let waiting = std::thread::spawn(move || {
            let request = tf::GetKeyValueRequest { key: "never".into() };
            let path = "/tensorflow.CoordinationService/GetKeyValue";
            dispatcher.method::<_, tf::GetKeyValueResponse>(path, &request)
        });
        until_waiting(&server);
        assert_ended(&server.signal_twice(name), status, &["asked to stop", "stopping at once"]);
        assert!(waiting.join().unwrap().is_err());
    }
}

#[test]
fn a_second_signal_ends_a_relay_at_once_too() {
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let mut relay = Relay::start(&nobody.to_string());
    let address = relay.address();
    // An insertion waits for the server, and for two seconds when the relay is to end.
    let inserting = std::thread::spawn(move || {
        let kv = xla::KeyValueEntry { key: "k".into(), value: "v".into() };
        let request = xla::InsertKeyValueRequest { kv: Some(kv), ..Default::default() };
        let path = "/xla.coordination.CoordinationService/InsertKeyValue";
        Dispatcher::connect(&address).method::<_, xla::InsertKeyValueResponse>(path, &request)
    });
    std::thread::sleep(Duration::from_millis(500));
    let ended = relay.signal_twice("TERM");
    assert_ended(&ended, 143, &["asked to stop", "stopping at once"]);
    assert!(inserting.join().unwrap().is_err());
}

/// Waits until a call waits in a namespace.
fn until_waiting(server: &Server) {
    let began = std::time::Instant::now();
    let waiting = || {
        let coordination = server.dispatcher().status().unwrap().coordination.unwrap_or_default();
        coordination.namespaces.iter().any(|namespace| namespace.waiting_calls > 0)
    };
    while !waiting() {
        assert!(began.elapsed() < PATIENCE, "nobody waits");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Waits, as one of two consumers, for the other to give up a task too.
fn park(address: &str) -> tonic::Status {
    use rondo_proto::tf::data::{
        GetOrCreateJobRequest, GetOrCreateJobResponse, MaybeRemoveTaskRequest,
        MaybeRemoveTaskResponse,
    };
    use rondo_tests::dispatcher::job;
    let dispatcher = Dispatcher::connect(address);
    dispatcher.worker_heartbeat("worker:1", &[]).unwrap();
    let metadata = graph::metadata(Compression::Off, -1);
    let dataset = dispatcher.register(None, graph::range(0, 9, 1), &metadata).unwrap();
    let request = GetOrCreateJobRequest {
        num_consumers: Some(2),
        ..job(&dataset, None, ShardingPolicy::Off)
    };
    let job: GetOrCreateJobResponse = dispatcher.call("GetOrCreateJob", &request).unwrap();
    let client = dispatcher.iteration(job.job_id, 0).unwrap();
    let task_id = dispatcher.heartbeat(client).unwrap().task_info[0].task_id;
    let request = MaybeRemoveTaskRequest { task_id, consumer_index: 0, round: 1 };
    dispatcher.call::<_, MaybeRemoveTaskResponse>("MaybeRemoveTask", &request).unwrap_err()
}

#[test]
fn help_names_every_setting_with_its_variable() {
    assert_ended(&run(&["--help"]), 0, &["serve", "status", "Exit status"]);
    let flags = [
        "--listen",
        "--port",
        "--data",
        "--store",
        "--fault-tolerant",
        "--job-gc-check-interval",
        "--job-gc-timeout",
        "--client-timeout",
        "--worker-timeout",
        "--gc-dynamic-sharding-jobs",
        "--worker-addresses",
        "--deployment-mode",
        "--log",
        "--free-space-reserve",
        "--config",
    ];
    let help = run(&["serve", "--help"]);
    assert_ended(&help, 0, &flags);
    for flag in flags {
        let variable =
            format!("RONDO_{}", flag.trim_start_matches('-').replace('-', "_").to_uppercase());
        assert!(help.log.contains(&variable), "{variable} is not in:\n{}", help.log);
    }
}

#[test]
fn status_of_nothing_says_what_to_do() {
    let ended = run(&["status", "--server=127.0.0.1:1"]);
    assert_ended(&ended, 7, &["cannot reach 127.0.0.1:1"]);
}

#[test]
fn status_shows_the_same_to_people_and_scripts() {
    let server = Server::start(&Options::store("sled"));
    let dispatcher = server.dispatcher();
    dispatcher.worker_heartbeat("worker:1", &[]).unwrap();
    let metadata = graph::metadata(Compression::Off, 9);
    let dataset = dispatcher.register(Some("digits"), graph::range(0, 9, 1), &metadata).unwrap();
    let job = dispatcher.job(&dataset, Some("counting"), ShardingPolicy::Dynamic).unwrap();
    dispatcher.iteration(job, 0).unwrap();
    let server = format!("--server={}", server.address());
    let people = run(&["status", &server]);
    assert_ended(&people, 0, &["counting", "worker:1", "digits", "sled"]);
    let scripts = run(&["status", &server, "--format", "json"]);
    assert_ended(&scripts, 0, &[]);
    let picture: Value = serde_json::from_str(&scripts.log).unwrap();
    let text = picture.to_string();
    for word in ["counting", "worker:1", "digits", "sled", "DYNAMIC"] {
        assert!(text.contains(word), "{word} is not in {text}");
    }
}

#[test]
fn the_log_is_json_on_request_and_the_ready_line_is_not() {
    let folder = TempDir::new().unwrap();
    let options = Options::store("segment").flag("--log=json");
    let mut process =
        Process::start("rondo", &mut server::command(&folder.path().join("data"), 0, &options));
    let ready = process.line_with(" ready on ", PATIENCE).unwrap();
    assert!(ready.starts_with("rondo "), "{ready}");
    process.signal("TERM");
    let ended = process.wait(PATIENCE);
    let lines = ended.log.lines().filter(|line| *line != ready);
    let mut count = 0;
    for line in lines {
        let parsed: Result<Value, _> = serde_json::from_str(line);
        assert!(parsed.is_ok(), "{line}");
        count += 1;
    }
    assert!(count > 0, "nothing was logged");
}

/// Programs that read the log find each fact by its name, and no text as Rust prints its own types.
#[test]
fn the_log_as_json_has_a_field_for_each_fact() {
    let options = Options::store("segment").flag("--log=json");
    let options = options.flag("--client-timeout=500ms").flag("--job-gc-check-interval=100ms");
    let mut server = Server::start(&options);
    let dispatcher = server.dispatcher();
    dispatcher.worker_heartbeat("worker:1", &[]).unwrap();
    let metadata = graph::metadata(Compression::Off, 9);
    let dataset = dispatcher.register(Some("digits"), graph::range(0, 9, 1), &metadata).unwrap();
    let job = dispatcher.job(&dataset, Some("counting"), ShardingPolicy::Dynamic).unwrap();
    let client = dispatcher.iteration(job, 0).unwrap();
    dispatcher.heartbeat(client).unwrap();
    let began = std::time::Instant::now();
    while !server.log().contains("silent client released") {
        assert!(began.elapsed() < PATIENCE, "{}", server.log());
        std::thread::sleep(Duration::from_millis(20));
    }
    let log = server.terminate().log;
    let lines: Vec<Value> =
        log.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let fields = |message: &str| {
        let line = lines.iter().find(|line| line["fields"]["message"] == message);
        line.map(|line| &line["fields"]).unwrap_or_else(|| panic!("{message:?} is not in:\n{log}"))
    };
    assert_eq!(fields("worker registered")["worker"], "worker:1");
    assert_eq!(fields("silent client released")["client"], client.to_string());
    for debug in ["Some(", "None", "WorkerRegistered", "ClientExpired", " { "] {
        assert!(!log.contains(debug), "{debug:?} in {log}");
    }
}

#[test]
fn serve_needs_no_flag_at_all() {
    let folder = TempDir::new().unwrap();
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    // A new user's home has none of these folders.
    let state = folder.path().join("home/.local/state");
    let mut command = Command::new(binary::rondo());
    // The port by its variable: the default one may be taken on this machine.
    command.arg("serve").env("XDG_STATE_HOME", &state).env("RONDO_PORT", port.to_string());
    let mut process = Process::start("rondo", &mut command);
    process.line_with(&format!(" ready on 127.0.0.1:{port}"), PATIENCE).unwrap();
    process.signal("TERM");
    assert_ended(&process.wait(PATIENCE), 0, &[]);
    assert!(state.join("rondo").is_dir());
    // Where that is, the settings show.
    let mut command = Command::new(binary::rondo());
    command.args(["serve", "--print-config"]).env("XDG_STATE_HOME", &state);
    let data = format!("data: {:?}  # default", state.join("rondo"));
    assert_ended(&run_command(&mut command), 0, &[&data]);
    // What holds a journal is its owner's.
    assert_eq!(fs::metadata(&state).unwrap().permissions().mode() & 0o777, 0o700);
}
