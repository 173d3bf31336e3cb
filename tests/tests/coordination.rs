//! The coordination service of the real binary: killed, frozen, asked, reset.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a failed unwrap is a failed test"
)]

use std::thread;
use std::time::{Duration, Instant};

use bytes::Bytes;
use prost::Message;
use rondo_proto::{tf, xla};
use rondo_tests::dispatcher::Dispatcher;
use rondo_tests::relay::Relay;
use rondo_tests::server::{Options, Server, run};
use tonic::{Code, Status};

/// How long a test waits for what must happen.
const PATIENCE: Duration = Duration::from_secs(30);

/// A task of dialect X on a connection of its own.
struct Task {
    connection: Dispatcher,
    index: i32,
    life: u64,
}

impl Task {
    fn register(address: &str, index: i32) -> Self {
        let mut task = Self { connection: Dispatcher::connect(address), index, life: 0 };
        let request = xla::RegisterTaskRequest {
            incarnation: 100 + u64::from(index.cast_unsigned()),
            source_task_id: index,
        };
        let answer: xla::RegisterTaskResponse = task.call("RegisterTask", &request).unwrap();
        task.life = answer.service_incarnation;
        task
    }

    fn call<Q: Message, R: Message + Default>(
        &self,
        method: &str,
        request: &Q,
    ) -> Result<R, Status> {
        self.connection.method(&format!("/xla.coordination.CoordinationService/{method}"), request)
    }

    fn says(&self) -> Option<xla::Incarnations> {
        Some(xla::Incarnations { service_incarnation: self.life, ..Default::default() })
    }

    fn beat(&self) -> Result<u64, Status> {
        let request = xla::HeartbeatRequest {
            incarnations: self.says(),
            incarnation: 100 + u64::from(self.index.cast_unsigned()),
            source_task_id: self.index,
        };
        let answer: xla::HeartbeatResponse = self.call("Heartbeat", &request)?;
        Ok(answer.service_incarnation)
    }

    fn insert(&self, key: &str, value: &'static [u8]) -> Result<(), Status> {
        let value = Bytes::from_static(value);
        let kv = Some(xla::KeyValueEntry { key: key.into(), value });
        let request =
            xla::InsertKeyValueRequest { incarnations: self.says(), kv, ..Default::default() };
        self.call::<_, xla::InsertKeyValueResponse>("InsertKeyValue", &request).map(|_| ())
    }

    fn find(&self, key: &str) -> Result<Bytes, Status> {
        let request = xla::TryGetKeyValueRequest { incarnations: self.says(), key: key.into() };
        let answer: xla::TryGetKeyValueResponse = self.call("TryGetKeyValue", &request)?;
        Ok(answer.kv.unwrap().value)
    }

    fn barrier(&self, id: &str) -> Result<i64, Status> {
        let request = xla::BarrierRequest {
            incarnations: self.says(),
            barrier_id: id.into(),
            barrier_timeout_in_ms: 60_000,
            source_task_id: self.index,
            ..Default::default()
        };
        self.call::<_, xla::BarrierResponse>("Barrier", &request).map(|answer| answer.counter)
    }
}

/// Both tasks of a job of two.
fn pair(address: &str) -> [Task; 2] {
    let other = address.to_owned();
    let other = thread::spawn(move || Task::register(&other, 1));
    [Task::register(address, 0), other.join().unwrap()]
}

/// After `kill -9` the same life goes on, with its tasks and keys.
#[test]
fn a_killed_server_comes_back_as_the_same_service() {
    for store in ["segment", "sled"] {
        let mut server = Server::start(&Options::store(store).flag("--tasks=2"));
        let tasks = pair(&server.address());
        tasks[0].insert("cpu:local_topology/cpu/0", b"bytes").unwrap();
        server.kill();
        server.start_again();
        for task in &tasks {
            assert_eq!(eventually(|| task.beat()), task.life, "{store}");
        }
        assert_eq!(tasks[1].find("cpu:local_topology/cpu/0").unwrap(), &b"bytes"[..]);
        let again = tasks[0].insert("cpu:local_topology/cpu/0", b"other").unwrap_err();
        assert_eq!(again.code(), Code::AlreadyExists, "{again}");
    }
}

/// Until the broken connection is made anew; what the service itself refuses bears its mark.
fn eventually<T>(what: impl Fn() -> Result<T, Status>) -> T {
    let began = Instant::now();
    loop {
        match what() {
            Err(status) if status.details().is_empty() && began.elapsed() < PATIENCE => {
                thread::sleep(Duration::from_millis(20));
            }
            other => return other.unwrap(),
        }
    }
}

/// JAX's own service kills all its clients after a freeze of 8 s at a timeout of 10 s.
#[test]
fn a_frozen_server_blames_nobody_for_beats_it_could_not_hear() {
    let options = Options::store("segment").flag("--tasks=2").flag("--heartbeat-timeout=3s");
    let server = Server::start(&options);
    let tasks = pair(&server.address());
    for task in &tasks {
        task.beat().unwrap();
    }
    server.signal("STOP");
    thread::sleep(Duration::from_secs(8));
    server.signal("CONT");
    // Their next beats may come as late after the freeze as after any other beat.
    thread::sleep(Duration::from_millis(1500));
    for task in &tasks {
        assert_eq!(task.beat().unwrap(), task.life);
    }
}

#[test]
fn why_names_who_is_missing_and_where() {
    let server = Server::start(&Options::store("segment").flag("--tasks=2"));
    let address = server.address();
    let why = || run(&["why", "--server", &address]).log;
    assert!(why().contains("no task has called, and no job reads a dataset"), "{}", why());
    let [first, second] = pair(&address);
    let waiting = thread::spawn(move || first.barrier("checkpoint"));
    let began = Instant::now();
    while !why().contains("barrier checkpoint") {
        assert!(began.elapsed() < PATIENCE, "{}", why());
    }
    let text = why();
    for part in ["2 of 2 tasks connected", "tasks 0 wait for tasks 1", "task 1: at 127.0.0.1:"] {
        assert!(text.contains(part), "{part} in {text}");
    }
    assert_eq!(second.barrier("checkpoint").unwrap(), 0);
    waiting.join().unwrap().unwrap();
    assert!(why().contains("nobody waits"), "{}", why());
}

/// A task whose process died counts as connected until its time-out. Until then its silence is what tells.
#[test]
fn why_says_when_tasks_were_last_heard_that_died_behind_a_relay() {
    let options = Options::store("segment").flag("--tasks=2").flag("--heartbeat-timeout=10s");
    let server = Server::start(&options);
    let address = server.address();
    let relay = Relay::start(&address);
    drop(pair(&relay.address()));
    drop(relay);
    let why = || run(&["why", "--server", &address]).log;
    let until = |words: &[&str]| {
        let began = Instant::now();
        loop {
            let text = why();
            if words.iter().all(|word| text.contains(word)) {
                return text;
            }
            assert!(began.elapsed() < PATIENCE, "{words:?}: {text}");
            thread::sleep(Duration::from_millis(50));
        }
    };
    let text = until(&["2 of 2 tasks connected, life", "last heard: task ", " s ago"]);
    assert!(text.contains("A dead task counts as connected until its time-out, 10 s"), "{text}");
    let text = until(&["2 of 2 tasks connected (2 of them silent)"]);
    assert!(text.contains("task 1 at 127.0.0.1:") && text.contains("has not been heard"), "{text}");
    assert!(!text.contains("last heard"), "{text}");
}

#[test]
fn namespaces_have_ports_of_their_own_and_are_reset_by_name() {
    let options = Options::store("segment").flag("--tasks=2").flag("--namespace=eval=0:1");
    let server = Server::start(&options);
    let line = server.log();
    let place = line.split("namespace eval on ").nth(1).unwrap();
    let address = place.split(')').next().unwrap().to_owned();
    let task = Task::register(&address, 0);
    task.insert("k", b"v").unwrap();
    let stranger = Dispatcher::connect(&server.address());
    let request = xla::TryGetKeyValueRequest { incarnations: task.says(), key: "k".into() };
    let path = "/xla.coordination.CoordinationService/TryGetKeyValue";
    let refused = stranger.method::<_, xla::TryGetKeyValueResponse>(path, &request).unwrap_err();
    assert_eq!(refused.code(), Code::Internal, "another life: {refused}");
    let unknown = run(&["namespace", "reset", "nope", "--server", &server.address()]);
    assert!(!unknown.status.success() && unknown.log.contains("\"nope\""), "{}", unknown.log);
    let reset = run(&["namespace", "reset", "eval", "--server", &server.address()]);
    assert!(reset.status.success(), "{}", reset.log);
    assert_eq!(task.find("k").unwrap_err().code(), Code::Internal);
    let fresh = Task::register(&address, 0);
    assert_ne!(fresh.life, task.life);
    assert_eq!(fresh.find("k").unwrap_err().code(), Code::NotFound);
    let list = run(&["namespace", "list", "--server", &server.address()]).log;
    assert!(list.contains("eval") && list.contains("1/1"), "{list}");
}

/// What the bench reports as made is what the service was asked: counted there by increments.
#[test]
fn the_bench_reports_what_it_did_in_both_dialects() {
    let flags = ["--tasks=3", "--namespace=beside=0:3"];
    let options = flags.into_iter().fold(Options::store("segment"), Options::flag);
    let server = Server::start(&options);
    let line = server.log();
    let place = line.split("namespace beside on ").nth(1).unwrap();
    let (address, beside) = (server.address(), place.split(')').next().unwrap());
    let mut increments = [0, 0];
    for dialect in ["x", "t"] {
        let run = run(&[
            "bench",
            "coordination",
            "--server",
            &address,
            "--beside",
            beside,
            "--tasks=3",
            "--round-duration=50ms",
            "--rounds=2",
            "--period=50ms",
            "--format=json",
            "--dialect",
            dialect,
            "--workload=heartbeat,try-get,insert,insert-one,increment,directory,barrier,timeout,\
             connected",
        ]);
        assert!(run.status.success(), "{}", run.log);
        let found: serde_json::Value = serde_json::from_str(&run.log).expect(&run.log);
        let measured = found["measured"].as_array().unwrap();
        assert_eq!(measured.len(), 18, "{}", run.log);
        for workload in measured {
            let rounds = workload["rounds"].as_array().unwrap();
            let calls: u64 = rounds.iter().map(|round| round["calls"].as_u64().unwrap()).sum();
            assert!(calls > 0, "{workload}");
            if workload["workload"] == "increment" {
                increments[usize::from(workload["server"] != *address)] += calls;
            }
        }
        assert_eq!(found["connected"][0]["connections"], 3, "{}", run.log);
        assert_eq!(found["ratios"].as_array().unwrap().len(), 9, "{}", run.log);
    }
    assert_eq!(increments, [sum_of_counts(&address), sum_of_counts(beside)]);
}

fn sum_of_counts(address: &str) -> u64 {
    let request = tf::GetKeyValueDirRequest { directory_key: "bench/count".into() };
    let path = "/tensorflow.CoordinationService/GetKeyValueDir";
    let answer: tf::GetKeyValueDirResponse =
        Dispatcher::connect(address).method(path, &request).unwrap();
    let count = |value: &Bytes| std::str::from_utf8(value).unwrap().parse::<u64>().unwrap();
    answer.kv.iter().map(|entry| count(&entry.value)).sum()
}
