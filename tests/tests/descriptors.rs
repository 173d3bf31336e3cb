//! A server may have as many files open as the system allows, whatever it was started with.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a failed unwrap is a failed test"
)]

use std::process::{Command, Stdio};
use std::time::Duration;
use std::{fs, thread};

use rondo_tests::binary;

/// `Max open files`, soft and hard.
fn open_files(process: u32) -> Vec<String> {
    let limits = fs::read_to_string(format!("/proc/{process}/limits")).unwrap();
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files")).unwrap();
    line.split_whitespace().take(2).map(str::to_owned).collect()
}

#[test]
fn a_process_raises_its_limit_of_open_files() {
    let data = tempfile::tempdir().unwrap();
    // The shell lowers the limit and becomes the server.
    let mut server = Command::new("sh")
        .args(["-c", "ulimit -Sn 64 && exec \"$0\" serve --listen=127.0.0.1:0 --data \"$1\""])
        .arg(binary::rondo())
        .arg(data.path().join("data"))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let is_raised = (0..1000).any(|_| {
        thread::sleep(Duration::from_millis(10));
        let limits = open_files(server.id());
        limits[0] != "64" && limits[0] == limits[1]
    });
    let limits = open_files(server.id());
    server.kill().unwrap();
    server.wait().unwrap();
    assert!(is_raised, "{limits:?}");
}
