//! A real PyTorch, and the libtorch out of its wheel.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use crate::binary;
use crate::python::Environment;

const ENVIRONMENT: Environment<'static> = Environment {
    what: "PyTorch 2.11",
    chosen_by: "RONDO_TORCH_PYTHON",
    required_by: "RONDO_TORCH_REQUIRED",
    requirements: "requirements-torch.txt",
    is_all: true,
    python_min: 11,
    folder: "venv-torch",
};

/// A Python with PyTorch and with what the Python module is built and tested with, or `None` after saying why
/// there is none.
///
/// `RONDO_TORCH_PYTHON` names one that has the pinned packages; else an environment is made once, below the
/// target directory. With `RONDO_TORCH_REQUIRED` set, none is a failure.
///
/// # Panics
/// When there is none but it is required.
pub fn python() -> Option<&'static Path> {
    static PYTHON: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    ENVIRONMENT.said(PYTHON.get_or_init(|| ENVIRONMENT.find()))
}

/// The folder of its libtorch, or `None` after saying why there is none; as [`python`].
///
/// # Panics
/// When there is none but it is required.
pub fn libtorch() -> Option<&'static Path> {
    static FOLDER: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    let python = python()?;
    ENVIRONMENT.said(FOLDER.get_or_init(|| folder_in(python)))
}

/// Where that Python has it, without importing it, which takes seconds.
fn folder_in(python: &Path) -> Result<PathBuf, String> {
    let find =
        "import importlib.util as it; print(it.find_spec('torch').submodule_search_locations[0])";
    let output = Command::new(python).args(["-c", find]).output();
    let output = output.map_err(|error| format!("{}: {error}", python.display()))?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().into())
}

/// Cargo with this libtorch on the crate outside the workspace that needs it: what it says, and whether it
/// succeeds.
///
/// # Panics
/// When cargo cannot be run.
pub fn cargo(libtorch: &Path, arguments: &[&str]) -> (bool, String) {
    let mut cargo = binary::cargo();
    let (subcommand, rest) = arguments.split_first().expect("a subcommand of cargo");
    cargo.args([subcommand, "--manifest-path", "runtime/torch/Cargo.toml"]);
    cargo.args(["--target-dir", "target/torch"]).args(rest);
    cargo.env("LIBTORCH", libtorch).env("LD_LIBRARY_PATH", libtorch.join("lib"));
    let output = cargo.output().expect("cargo runs");
    let said =
        [output.stdout, output.stderr].map(|said| String::from_utf8_lossy(&said).into_owned());
    (output.status.success(), said.concat())
}
