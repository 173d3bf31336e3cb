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
    std::fs::write(&file, "client_timeout: 1s\nworker_timeout: 1s\nremoval_timeout: 1s\n").unwrap();
    let output = rondo(&["serve", "--print-config", "--client-timeout=3s"])
        .env("RONDO_CONFIG", &file)
        .env("RONDO_CLIENT_TIMEOUT", "2s")
        .env("RONDO_WORKER_TIMEOUT", "2s")
        .output()
        .unwrap();
    let text = stdout(&output);
    for line in [
        "client_timeout: \"3s\"  # flag",
        "worker_timeout: \"2s\"  # environment",
        "removal_timeout: \"1s\"  # file",
        "protocol_version: 9  # default",
    ] {
        assert!(text.lines().any(|found| found == line), "{line} in {text}");
    }
}

#[test]
fn former_names_are_accepted_as_flags_variables_and_keys() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("rondo.yaml");
    std::fs::write(&file, "client_timeout_ms: 1\nremoval_timeout_ms: 1\n").unwrap();
    let output = rondo(&["serve", "--print-config", "--free-space-reserve-mb", "8"])
        .env("RONDO_CONFIG", &file)
        .env("RONDO_CLIENT_TIMEOUT_MS", "2")
        .env("RONDO_READER_TIMEOUT_MS", "2")
        .env("RONDO_READER_TIMEOUT", "3s")
        .output()
        .unwrap();
    let text = stdout(&output);
    for line in [
        "free_space_reserve: \"8MiB\"  # flag",
        "client_timeout: \"2ms\"  # environment",
        "reader_timeout: \"3s\"  # environment",
        "removal_timeout: \"1ms\"  # file",
    ] {
        assert!(text.lines().any(|found| found == line), "{line} in {text}");
    }
    refused(rondo(&["serve"]).env("RONDO_CLIENT_TIMEOUT_MS", "soon"), 2, "RONDO_CLIENT_TIMEOUT_MS");
}

#[test]
fn a_mistyped_variable_is_told() {
    let mut list = rondo(&["job", "list", "--server=127.0.0.1:1"]);
    let told = "RONDO_ASK_TIMEOU (\"1s\") is no setting; is RONDO_ASK_TIMEOUT meant?";
    refused(list.env("RONDO_ASK_TIMEOU", "1s"), 7, told);
    let mut serve = rondo(&["serve", "--listen=127.0.0.1:0", "--data=/dev/null"]);
    refused(serve.env("RONDO_TASK", "4"), 4, "is RONDO_TASKS meant?");
    let mut shown = rondo(&["serve", "--print-config"]);
    let shown = shown.env("RONDO_TASK", "4").output().unwrap();
    assert!(String::from_utf8_lossy(&shown.stderr).contains("is RONDO_TASKS meant?"));
    assert!(shown.status.success());
    let mut workers = rondo(&["worker", "list", "--server=127.0.0.1:1"]);
    refused(workers.env("RONDO_ASK_TIMEOU", "1s"), 7, told);
}

/// The mistyped variable may be why something is missing.
#[test]
fn a_mistyped_variable_is_told_although_the_command_line_is_wrong() {
    let told = "is RONDO_SERVER meant?";
    refused(rondo(&["worker"]).env("RONDO_SERVR", "h:1"), 2, told);
    refused(rondo(&["relay"]).env("RONDO_SERVR", "h:1"), 2, told);
    refused(rondo(&["job", "delete"]).env("RONDO_SERVR", "h:1"), 2, told);
    refused(rondo(&["serve", "--tasks=none"]).env("RONDO_TASK", "4"), 2, "is RONDO_TASKS meant?");
}

#[test]
fn what_print_config_prints_is_a_file_that_says_the_same() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("rondo.yaml");
    let given = ["serve", "--print-config", "--data=", "--worker-addresses=a:1,b", "--insecure"];
    let given = given.iter().chain(&["--job-gc-timeout=-1", "--fault-tolerant=false"]);
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
    for command in [
        &["status"][..],
        &["why"],
        &["job", "list"],
        &["dataset", "list"],
        &["worker", "list"],
        &["position", "list"],
        &["namespace", "list"],
        &["read", "--job=j"],
    ] {
        refused(&mut rondo(&[command, &["--server=nowhere"]].concat()), 2, "host:port");
    }
    refused(rondo(&["status"]).env("RONDO_SERVER", "nowhere"), 2, "RONDO_SERVER");
    refused(rondo(&["worker"]).env("RONDO_WORKER_SLOTS", "0"), 2, "RONDO_WORKER_SLOTS");
    refused(rondo(&["serve"]).env("RONDO_TASKS", "two"), 2, "RONDO_TASKS is \"two\"");
}

#[test]
fn a_wrong_pipeline_exits_with_2_and_its_error_is_said_once() {
    let directory = tempfile::tempdir().unwrap();
    let pipeline = directory.path().join("pipeline.yaml");
    let register = |text: &str| {
        std::fs::write(&pipeline, text).unwrap();
        rondo(&["dataset", "register", pipeline.to_str().unwrap(), "--server=127.0.0.1:1"])
    };
    let files = "source:\n  csv: { files: [/nowhere/a.csv] }\n";
    refused(&mut register(files), 1, "/nowhere/a.csv does not exist");
    refused(&mut register("source:\n  csv: { files: [] }\n"), 2, "names no files");
    let output = register(&format!("{files}operation: []\n")).output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    assert_eq!(stderr.matches("unknown field").count(), 1, "{stderr}");
    assert!(stderr.contains(&format!("{}:3:1", pipeline.display())), "{stderr}");
}

#[test]
fn a_server_that_does_not_answer_is_told_while_it_is_tried() {
    // The system takes connections for it, and nobody reads them.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = silent.local_addr().unwrap();
    let server = format!("--server={address}");
    for command in [
        &["status", "--timeout=2500ms"][..],
        &["why", "--timeout=2500ms"],
        &["job", "list", "--timeout=2500ms"],
    ] {
        let told = format!("waiting for {address}: 2.5s in all");
        refused(&mut rondo(&[command, &[&server]].concat()), 7, &told);
    }
    let refusal = rondo(&["job", "list", "--timeout=100ms", &server]).output().unwrap();
    let stderr = String::from_utf8_lossy(&refusal.stderr).into_owned();
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
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
    for word in ["RONDO_JOB_GC_TIMEOUT", "[default: 127.0.0.1:5050]", "Storage:", "Network:"] {
        assert!(help.contains(word), "{word} in {help}");
    }
    assert!(stdout(&rondo(&["--help"]).output().unwrap()).contains("Exit status"));
    assert!(stdout(&rondo(&["--version"]).output().unwrap()).starts_with("rondo 0."));
}
