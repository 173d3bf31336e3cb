//! The Python module: installed as its users do, it is what its stubs say, and does what its tests say
//! against the real binary.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a failed unwrap is a failed test"
)]

use std::path::Path;
use std::sync::{Mutex, Once, PoisonError};

use rondo_tests::python_module::{install, python, run};
use rondo_tests::torch;

/// Tests that start many processes, one after the other: they wait for each other on few cores.
static ALONE: Mutex<()> = Mutex::new(());

/// A Python that has the module of this checkout.
fn installed() -> Option<&'static Path> {
    static INSTALLED: Once = Once::new();
    let python = python()?;
    INSTALLED.call_once(|| install(python));
    Some(python)
}

#[test]
fn its_tests_pass() {
    let Some(python) = installed() else {
        return;
    };
    pass(python, &["tests/python/module"]);
}

#[test]
fn its_tests_pass_beside_a_real_torch() {
    let Some(python) = torch::python() else {
        return;
    };
    install(python);
    let files =
        ["test_torch.py", "test_torchrun.py", "test_flags.py", "test_exchange.py", "test_gpu.py"];
    let files = files.map(|name| format!("tests/python/module/{name}"));
    let said = pass(python, &files.each_ref().map(String::as_str));
    let is_used = !["cannot be imported", "is not there"].iter().any(|why| said.contains(why));
    assert!(is_used, "torch is there and was not used:\n{said}");
}

/// Tests of these files or folders pass; what they said.
fn pass(python: &Path, tests: &[&str]) -> String {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let arguments = [&["pytest", "-q", "-rs", "-p", "no:cacheprovider"][..], tests];
    let (passed, said) = run(python, &arguments.concat());
    println!("{said}");
    assert!(passed, "the tests of the Python module fail:\n{said}");
    assert!(said.contains(" passed"), "not run:\n{said}");
    said
}

#[test]
fn it_is_what_its_stubs_say() {
    let Some(python) = installed() else {
        return;
    };
    let config = "tests/python/module/mypy.ini";
    let left_out =
        ["--allowlist", "tests/python/module/unchecked.txt", "--ignore-unused-allowlist"];
    let arguments = [
        &["mypy.stubtest", "--mypy-config-file", config][..],
        &left_out,
        &["rondo", "fserver_lib"],
    ];
    let (same, said) = run(python, &arguments.concat());
    assert!(same, "the stubs say otherwise:\n{said}");
}
