//! The real binary: precedence of settings, exit statuses, signals.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
#![cfg(not(madsim))]

use std::net::TcpListener;
use std::process::{Command, Output};

fn rondo(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rondo"));
    let inherited = std::env::vars_os().map(|(name, _)| name);
    for name in inherited.filter(|name| name.to_string_lossy().starts_with("RONDO_")) {
        command.env_remove(name);
    }
    command.args(arguments);
    command
}

fn stdout(output: &Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn refused(command: &mut Command, status: i32, named: &str) {
    let output = command.output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(status), "{stderr}");
    assert!(stderr.contains(named), "{named:?} in {stderr}");
}

#[test]
fn flag_before_environment_before_file_before_default() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("rondo.yaml");
    std::fs::write(&file, "client_timeout_ms: 1\nworker_timeout_ms: 1\nremoval_timeout_ms: 1\n")
        .unwrap();
    let output = rondo(&["serve", "--print-config", "--client-timeout-ms=3"])
        .env("RONDO_CONFIG", &file)
        .env("RONDO_CLIENT_TIMEOUT_MS", "2")
        .env("RONDO_WORKER_TIMEOUT_MS", "2")
        .output()
        .unwrap();
    let text = stdout(&output);
    for line in [
        "client_timeout_ms: 3  # flag",
        "worker_timeout_ms: 2  # environment",
        "removal_timeout_ms: 1  # file",
        "protocol_version: 9  # default",
    ] {
        assert!(text.lines().any(|found| found == line), "{line} in {text}");
    }
}

#[test]
fn what_print_config_prints_is_a_file_that_says_the_same() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("rondo.yaml");
    let given = ["serve", "--print-config", "--data=", "--worker-addresses=a:1,b", "--insecure"];
    let given = given.iter().chain(&["--job-gc-timeout-ms=-1", "--fault-tolerant=false"]);
    let first = stdout(&rondo(&given.copied().collect::<Vec<_>>()).output().unwrap());
    std::fs::write(&file, &first).unwrap();
    let again = ["serve", "--print-config", "--config", file.to_str().unwrap()];
    let again = stdout(&rondo(&again).output().unwrap());
    let values = |text: &str| {
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        lines.map(|line| line.split("  #").next().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert!(values(&first).len() > 20);
    assert_eq!(values(&first), values(&again));
}

#[test]
fn empty_values_in_the_environment_are_values() {
    let output = rondo(&["serve", "--print-config", "--fault-tolerant=false"])
        .env("RONDO_DATA", "")
        .env("RONDO_WORKER_ADDRESSES", "")
        .output()
        .unwrap();
    assert!(stdout(&output).contains("data: \"\"  # environment"));
}

#[test]
fn usage_errors_exit_with_2() {
    refused(&mut rondo(&[]), 2, "Usage");
    refused(&mut rondo(&["serve", "--prot=1"]), 2, "--port");
    refused(
        &mut rondo(&["serve", "--listen=0.0.0.0:0", "--fault-tolerant=false"]),
        2,
        "--insecure",
    );
    refused(rondo(&["serve"]).env("RONDO_PORT", "70000"), 2, "70000");
    refused(&mut rondo(&["serve", "--log-filter=a=b=c"]), 2, "a=b=c");
    refused(&mut rondo(&["status", "--server=nowhere"]), 2, "host:port");
}

#[test]
fn a_busy_port_exits_with_3_and_says_how_to_find_its_owner() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let mut serve = rondo(&["serve", "--fault-tolerant=false", "--port", &port]);
    refused(&mut serve, 3, &format!("sport = :{port}"));
}

#[test]
fn an_unreachable_server_exits_with_7() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = free.local_addr().unwrap().to_string();
    drop(free);
    refused(&mut rondo(&["status", "--server", &address]), 7, &address);
}

#[test]
fn help_names_environment_defaults_and_exit_statuses() {
    let help = stdout(&rondo(&["serve", "--help"]).output().unwrap());
    for word in ["RONDO_JOB_GC_TIMEOUT_MS", "[default: 127.0.0.1:5050]", "Storage:", "Network:"] {
        assert!(help.contains(word), "{word} in {help}");
    }
    assert!(stdout(&rondo(&["--help"]).output().unwrap()).contains("Exit status"));
    assert!(stdout(&rondo(&["--version"]).output().unwrap()).starts_with("rondo 0."));
}
