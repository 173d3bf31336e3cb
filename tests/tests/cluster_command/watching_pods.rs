//! `rondo cluster --watch` over Kubernetes: changes show when the server tells of them.

use std::time::Duration;

use rondo_tests::process::Process;
use serde_json::{Value, json};

use crate::bed::Machine;
use crate::kubernetes::{Kubernetes, PODS, SLICES};

const PATIENCE: Duration = Duration::from_secs(60);
/// So that nothing shows but by a watch.
const NEVER: &str = "3600000";

fn pod(index: u32, address: &str, phase: &str) -> Value {
    json!({
        "metadata": {
            "name": format!("train-{index}"),
            "labels": {
                "job-name": "train",
                "batch.kubernetes.io/job-completion-index": index.to_string(),
            },
        },
        "status": {"phase": phase, "podIP": address},
    })
}

fn settings(server: &Kubernetes) -> String {
    json!({
        "job_to_label_mapping": {"worker": ["job-name=train"]},
        "namespace": "ml",
        "api_server": server.api.url(),
    })
    .to_string()
}

fn start(resolver: &str, settings: &str, interval_ms: &str) -> Process {
    let arguments = ["--resolver", resolver, "--settings", settings, "--watch", "--format", "json"];
    let mut command = Machine::bare().command(&[], &arguments);
    Process::start("rondo cluster", command.args(["--interval-ms", interval_ms]))
}

fn next(process: &Process) -> Value {
    serde_json::from_str(&process.next_line(PATIENCE).unwrap()).unwrap()
}

fn task(index: u32, address: &str) -> Value {
    json!([{"job": "worker", "index": index, "address": address}])
}

/// A server with two pods, a command that watches them, and its first line read.
fn watched() -> (Kubernetes, Process) {
    let server = Kubernetes::start();
    server.put(PODS, pod(0, "10.1.0.1", "Running"));
    server.put(PODS, pod(1, "10.1.0.2", "Running"));
    let process = start("kubernetes", &settings(&server), NEVER);
    assert_eq!(next(&process)["version"], 1);
    server.wait_for_watches(1);
    (server, process)
}

#[test]
fn pods_that_come_go_and_move_show_at_once() {
    let (server, mut process) = watched();
    server.put(PODS, pod(2, "10.1.0.3", "Running"));
    assert_eq!(next(&process)["added"], task(2, "10.1.0.3:8470"));
    server.wait_for_watches(2);
    server.put(PODS, pod(2, "10.1.0.4", "Running"));
    assert_eq!(next(&process)["moved"], task(2, "10.1.0.4:8470"));
    server.wait_for_watches(3);
    server.delete(PODS, "train-2");
    assert_eq!(next(&process)["removed"], task(2, "10.1.0.4:8470"));
    // Others' pods are nobody's business.
    server.wait_for_watches(4);
    let mut other = pod(7, "10.1.0.9", "Running");
    other["metadata"]["labels"]["job-name"] = json!("other");
    server.put(PODS, other);
    let (lists, watches) = server.asked();
    assert_eq!((lists.len(), watches.len()), (4, 4), "a list and a watch each: {watches:?}");
    process.signal("TERM");
    assert_eq!(process.wait(PATIENCE).status.code(), Some(0));
}

#[test]
fn a_pod_that_becomes_ready_shows_at_once() {
    let server = Kubernetes::start();
    server.put(PODS, pod(0, "10.1.0.1", "Pending"));
    let process = start("kubernetes", &settings(&server), NEVER);
    assert_eq!(next(&process)["fault"], "not_ready");
    server.wait_for_watches(1);
    server.put(PODS, pod(0, "10.1.0.1", "Running"));
    assert_eq!(next(&process)["added"], task(0, "10.1.0.1:8470"));
}

#[test]
fn a_connection_that_ends_goes_on_from_the_last_bookmark() {
    let (server, process) = watched();
    let version = server.bookmark();
    server.end_watches();
    server.wait_for_watches(2);
    let (lists, watches) = server.asked();
    assert_eq!(lists.len(), 1, "nothing is listed again: {lists:?}");
    assert!(watches[1].contains(&format!("resourceVersion={version}&")), "{watches:?}");
    assert!(watches.iter().all(|path| path.contains("allowWatchBookmarks=true")), "{watches:?}");
    server.put(PODS, pod(2, "10.1.0.3", "Running"));
    assert_eq!(next(&process)["added"], task(2, "10.1.0.3:8470"));
}

#[test]
fn what_changes_while_a_connection_is_broken_is_not_missed() {
    let (server, process) = watched();
    server.break_watches();
    server.put(PODS, pod(2, "10.1.0.3", "Running"));
    assert_eq!(next(&process)["added"], task(2, "10.1.0.3:8470"));
}

#[test]
fn a_version_that_is_forgotten_is_listed_anew() {
    for tells_by_event in [false, true] {
        let (server, process) = watched();
        server.forget(tells_by_event);
        server.break_watches();
        server.delete(PODS, "train-1");
        assert_eq!(next(&process)["removed"], task(1, "10.1.0.2:8470"));
        // And from that list on changes show again.
        server.wait_for_watches(3);
        server.put(PODS, pod(1, "10.1.0.8", "Running"));
        assert_eq!(next(&process)["added"], task(1, "10.1.0.8:8470"));
    }
}

#[test]
fn who_may_not_watch_looks_every_interval() {
    let server = Kubernetes::start();
    server.put(PODS, pod(0, "10.1.0.1", "Running"));
    server.refuse_watches(Some(403));
    let process = start("kubernetes", &settings(&server), "50");
    assert_eq!(next(&process)["version"], 1);
    let told = next(&process);
    assert_eq!(told["fault"], "forbidden", "{told}");
    assert!(told["error"].as_str().unwrap().contains("watch=1"), "{told}");
    server.put(PODS, pod(1, "10.1.0.2", "Running"));
    // The refusal was told once.
    assert_eq!(next(&process)["added"], task(1, "10.1.0.2:8470"));
    server.refuse_watches(None);
    server.wait_for_watches(1);
    server.put(PODS, pod(2, "10.1.0.3", "Running"));
    assert_eq!(next(&process)["added"], task(2, "10.1.0.3:8470"));
}

#[test]
fn a_watch_that_is_not_answered_is_given_up_and_one_that_ends_at_once_is_not_hurried() {
    let server = Kubernetes::start();
    server.put(PODS, pod(0, "10.1.0.1", "Running"));
    server.delay_watches(Duration::from_secs(60));
    let settings = settings(&server);
    let arguments =
        ["--resolver", "kubernetes", "--settings", &settings, "--watch", "--format", "json"];
    let mut command = Machine::bare().command(&[], &arguments);
    command.args(["--interval", "50ms", "--request-timeout", "300ms"]);
    let process = Process::start("rondo cluster", &mut command);
    assert_eq!(next(&process)["version"], 1);
    let told = next(&process);
    assert_eq!(told["fault"], "unreachable", "{told}");
    assert!(told["error"].as_str().unwrap().contains("no answer within 300 ms"), "{told}");
    server.put(PODS, pod(1, "10.1.0.2", "Running"));
    assert_eq!(next(&process)["added"], task(1, "10.1.0.2:8470"));
    drop(process);
    let server = Kubernetes::start();
    server.put(PODS, pod(0, "10.1.0.1", "Running"));
    server.be_hasty();
    let process = start("kubernetes", &self::settings(&server), NEVER);
    assert_eq!(next(&process)["version"], 1);
    std::thread::sleep(Duration::from_millis(2500));
    let (lists, watches) = server.asked();
    assert_eq!(lists.len(), 1, "{lists:?}");
    assert!((1..=4).contains(&watches.len()), "one a second: {}", watches.len());
    // What comes between two connections is not missed.
    server.put(PODS, pod(1, "10.1.0.2", "Running"));
    assert_eq!(next(&process)["added"], task(1, "10.1.0.2:8470"));
}

#[test]
fn what_is_no_event_is_told_and_does_not_end_it() {
    let server = Kubernetes::start();
    server.put(PODS, pod(0, "10.1.0.1", "Running"));
    let process = start("kubernetes", &settings(&server), "50");
    assert_eq!(next(&process)["version"], 1);
    server.wait_for_watches(1);
    server.say("<html>a gateway</html>\n");
    let told = next(&process);
    assert_eq!(told["fault"], "malformed", "{told}");
    server.wait_for_watches(2);
    server.say(&"x".repeat(5 << 20));
    let told = next(&process);
    assert_eq!(told["fault"], "too_large", "{told}");
    assert!(told["error"].as_str().unwrap().contains("4194304"), "{told}");
    server.wait_for_watches(3);
    server.put(PODS, pod(1, "10.1.0.2", "Running"));
    assert_eq!(next(&process)["added"], task(1, "10.1.0.2:8470"));
}

#[test]
fn a_list_of_many_pages_is_watched_from_its_version() {
    let server = Kubernetes::start();
    for index in 0..1201 {
        server.put(PODS, pod(index, "10.1.0.1", "Running"));
    }
    let process = start("kubernetes", &settings(&server), NEVER);
    assert_eq!(next(&process)["added"].as_array().unwrap().len(), 1201);
    server.wait_for_watches(1);
    let (lists, watches) = server.asked();
    assert_eq!(lists.len(), 3, "{lists:?}");
    assert!(watches[0].contains("resourceVersion=1301&"), "{watches:?}");
    server.delete(PODS, "train-1200");
    assert_eq!(next(&process)["removed"], task(1200, "10.1.0.1:8470"));
}

#[test]
fn endpoints_of_a_service_are_watched() {
    let server = Kubernetes::start();
    let slice = |addresses: &[&str]| {
        let endpoint = |(index, address): (usize, &&str)| {
            let name = format!("ps-{index}");
            json!({"addresses": [address], "hostname": name})
        };
        let endpoints: Vec<Value> = addresses.iter().enumerate().map(endpoint).collect();
        json!({
            "metadata": {"name": "ps-x", "labels": {"kubernetes.io/service-name": "ps"}},
            "endpoints": endpoints,
            "ports": [{"port": 2222}],
        })
    };
    server.put(SLICES, slice(&["10.1.0.1"]));
    let settings =
        json!({"service": "ps", "namespace": "ml", "api_server": server.api.url()}).to_string();
    let process = start("kubernetes_service", &settings, NEVER);
    assert_eq!(next(&process)["added"], task(0, "10.1.0.1:2222"));
    server.wait_for_watches(1);
    server.put(SLICES, slice(&["10.1.0.1", "10.1.0.2"]));
    assert_eq!(next(&process)["added"], task(1, "10.1.0.2:2222"));
}
