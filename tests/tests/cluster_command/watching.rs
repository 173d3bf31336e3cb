//! `rondo cluster --watch`: changes as they come.

use std::time::Duration;

use rondo_tests::process::Process;
use serde_json::{Value, json};

use crate::bed::Machine;

const PATIENCE: Duration = Duration::from_secs(60);
const PATH: &str = "/cluster.json";
const SETTINGS: &str = r#"{"path": "/cluster.json"}"#;

fn next(process: &Process) -> Value {
    serde_json::from_str(&process.next_line(PATIENCE).unwrap()).unwrap()
}

#[test]
fn tasks_that_come_go_and_move_are_told_a_line_each() {
    let machine = Machine::bare().file(PATH, r#"{"worker": ["a:1", "b:2"]}"#);
    let arguments = ["--resolver", "file", "--settings", SETTINGS, "--watch", "--format", "json"];
    let mut command = machine.command(&[], &arguments);
    let mut process = Process::start("rondo cluster", command.args(["--interval", "50ms"]));
    let first = next(&process);
    assert_eq!(first["version"], 1);
    let task =
        |index: u32, address: &str| json!({"job": "worker", "index": index, "address": address});
    assert_eq!(first["added"], json!([task(0, "a:1"), task(1, "b:2")]));
    machine.write(PATH, r#"{"worker": ["c:3"]}"#);
    let second = next(&process);
    assert_eq!(second["version"], 2);
    assert_eq!(second["moved"], json!([task(0, "c:3")]));
    assert_eq!(second["removed"], json!([task(1, "b:2")]));
    // What makes no sense for a while is told once, and does not end it.
    machine.write(PATH, "{");
    assert_eq!(next(&process)["fault"], "malformed");
    machine.write(PATH, r#"{"worker": ["c:3", "d:4"]}"#);
    let third = next(&process);
    assert_eq!((&third["version"], &third["added"]), (&json!(3), &json!([task(1, "d:4")])));
    process.signal("TERM");
    assert_eq!(process.wait(PATIENCE).status.code(), Some(0));
}

#[test]
fn what_cannot_be_watched_is_said_at_once() {
    let machine = Machine::bare();
    machine.run(&[], &["--watch"]).assert(1, &["nothing tells of a cluster"]);
    let rank = [("RANK", "0"), ("WORLD_SIZE", "1"), ("MASTER_ADDR", "a"), ("MASTER_PORT", "1")];
    machine.run(&rank, &["--watch"]).assert(1, &["cluster_spec", "torch"]);
}
