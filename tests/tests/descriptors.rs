//! A server may have as many files open as the system allows, whatever it was started with.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a failed unwrap is a failed test"
)]

use std::fs;
use std::process::Command;
use std::time::Duration;

use rondo_tests::binary;
use rondo_tests::process::Process;

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
