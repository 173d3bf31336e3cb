//! The Python module: installed as its users do, it is what its stubs say, and does what its tests say
//! against the real binary.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a failed unwrap is a failed test"
)]

use std::path::Path;
use std::sync::Once;

use rondo_tests::python_module::{install, python, run};

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
    let arguments = ["pytest", "-q", "-rs", "-p", "no:cacheprovider", "tests/python/module"];
    let (passed, said) = run(python, &arguments);
    println!("{said}");
    assert!(passed, "the tests of the Python module fail:\n{said}");
    assert!(said.contains(" passed"), "not run:\n{said}");
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
