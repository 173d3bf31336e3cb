//! `rondo demo`: a job over real files is read while its worker and its server are killed, and every
//! record comes exactly once.

#![expect(clippy::expect_used, reason = "a test that cannot go on has failed")]

use std::path::Path;
use std::process::{Command, Output};
use std::time::Duration;

use rondo_tests::binary;
use rondo_tests::process::Process;
use tempfile::TempDir;

fn demo(arguments: &[&str]) -> Output {
    let mut command = Command::new(binary::rondo());
    command.args(["demo", "--plain", "--duration=3s"]).args(arguments);
    command.output().expect("the binary starts")
}

fn told(output: &Output) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    text(&output.stdout) + &text(&output.stderr)
}

/// The two checksums at the end, of the source and of what was read.
fn checksums(text: &str) -> Vec<&str> {
    let lines = text.lines().filter(|line| line.starts_with("checksum of"));
    lines.filter_map(|line| line.split_whitespace().find(|word| word.len() == 32)).collect()
}

#[test]
fn every_record_of_the_shipped_table_comes_exactly_once_over_two_crashes() {
    let output = demo(&[]);
    let text = told(&output);
    assert!(output.status.success(), "{text}");
    assert!(text.contains("every record exactly once: 40908 records read of 40908"), "{text}");
    assert!(text.contains("0 twice, 0 missing"), "{text}");
    for name in ["worker 2", "server"] {
        let killed = text.lines().any(|line| {
            line.contains(&format!("{name} (process")) && line.contains("killed with SIGKILL")
        });
        assert!(killed && text.contains(&format!("{name} is back")), "{text}");
    }
    let sums = checksums(&text);
    assert!(sums.len() == 2 && sums[0] == sums[1], "{text}");
}

#[test]
fn a_file_of_the_users_is_read_as_well() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("numbers.csv");
    let rows: String = (0..700).map(|number| format!("{number},n{number}\n")).collect();
    std::fs::write(&file, format!("number,name\n{rows}")).unwrap();
    let output = demo(&["--data", file.to_str().unwrap()]);
    let text = told(&output);
    assert!(output.status.success(), "{text}");
    // 700 records are read 55 times, so that there is something to see.
    assert!(text.contains("every record exactly once: 38500 records read of 38500"), "{text}");
}

#[test]
fn a_file_that_cannot_be_read_is_named() {
    let folder = TempDir::new().unwrap();
    let torn = folder.path().join("torn.parquet");
    std::fs::write(&torn, b"PAR1 and then nothing that were a footer PAR1").unwrap();
    for (file, status, expected) in [
        (folder.path().join("absent.parquet"), 2, "absent.parquet"),
        (folder.path().join("table.xls"), 2, "table.xls"),
        (torn, 1, "torn.parquet is corrupt at byte"),
    ] {
        if file.extension().is_some_and(|extension| extension == "xls") {
            std::fs::write(&file, "1\t2").unwrap();
        }
        let output = demo(&["--data", path(&file)]);
        let text = told(&output);
        assert_eq!(output.status.code(), Some(status), "{text}");
        assert!(text.contains(expected), "{text}");
    }
}

#[test]
fn ctrl_c_ends_it_with_130() {
    const PATIENCE: Duration = Duration::from_secs(60);
    let mut command = Command::new(binary::rondo());
    let mut demo =
        Process::start("rondo demo", command.args(["demo", "--plain", "--duration=60s"]));
    demo.line_with("rondo status --server", PATIENCE).expect("it begins");
    demo.signal("INT");
    let ended = demo.wait(PATIENCE);
    assert_eq!(ended.status.code(), Some(130), "{}", ended.log);
}

fn path(file: &Path) -> &str {
    file.to_str().expect("temporary paths are text")
}
