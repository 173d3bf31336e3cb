//! The Python module `rondo`, built from this checkout and installed as its users do.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use crate::binary;
use crate::python::Environment;

const ENVIRONMENT: Environment<'static> = Environment {
    what: "the Python module",
    chosen_by: "RONDO_MODULE_PYTHON",
    required_by: "RONDO_PYTHON_REQUIRED",
    requirements: "requirements-python.txt",
    is_all: false,
    python_min: 11,
    folder: "venv-python",
};

/// A Python with what the module is built and tested with, or `None` after saying why there is none.
///
/// `RONDO_MODULE_PYTHON` names one to use, such as one with torch; else an environment is made once, below
/// the target directory, from the pinned requirements. With `RONDO_PYTHON_REQUIRED` set, none is a failure.
///
/// # Panics
/// When there is none but it is required.
pub fn python() -> Option<&'static Path> {
    static PYTHON: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    ENVIRONMENT.said(PYTHON.get_or_init(|| ENVIRONMENT.find()))
}

/// Installs the module there: the one command of the README, but in the profile and the target directory that
/// the tests themselves were built in, and with the pinned maturin.
///
/// # Panics
/// When it cannot be built.
pub fn install(python: &Path) {
    let test = env::current_exe().expect("a test knows its own executable");
    let is_release = test.components().any(|part| part.as_os_str() == "release");
    let mut built = format!("build-args=--profile {}", if is_release { "release" } else { "dev" });
    if let Some(folder) = binary::foreign_target(&test) {
        built.push_str(&format!(" --target-dir {}", folder.display()));
    }
    let mut pip = Command::new(python);
    pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]);
    pip.args(["--no-build-isolation", "--no-deps", "--force-reinstall"]);
    pip.arg(format!("--config-settings={built}")).arg(binary::root().join("runtime/python"));
    let (succeeded, said) = carried_out(&mut pip, python);
    assert!(succeeded, "the module cannot be installed:\n{said}");
}

/// Runs a module of Python, such as `pytest`, beside the binary; all it said, and whether it succeeded.
///
/// # Panics
/// When Python cannot be run.
pub fn run(python: &Path, arguments: &[&str]) -> (bool, String) {
    let mut command = Command::new(python);
    command.arg("-m").args(arguments).current_dir(binary::root());
    command.env("RONDO_BIN", binary::rondo()).env("PYTHONDONTWRITEBYTECODE", "1");
    carried_out(&mut command, python)
}

/// Carries out a command that finds the programs beside this Python, such as maturin.
fn carried_out(command: &mut Command, python: &Path) -> (bool, String) {
    let beside = python.parent().map(Path::to_path_buf);
    let path = env::var_os("PATH").unwrap_or_default();
    let path = env::join_paths(beside.into_iter().chain(env::split_paths(&path))).expect("a path");
    binary::without_package(command);
    let output = command.env("PATH", path).output().expect("Python runs");
    let said = [output.stdout, output.stderr].map(|it| String::from_utf8_lossy(&it).into_owned());
    (output.status.success(), said.concat())
}
