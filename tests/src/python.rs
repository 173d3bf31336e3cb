//! Real Python programs in environments of their own.

use std::env;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::binary;
use crate::process::Process;
use crate::skip::skip;

/// Python releases that the pinned packages are made for.
const PYTHONS: [&str; 4] = ["python3", "python3.13", "python3.12", "python3.11"];

/// Packages that programs run under.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Environment<'a> {
    /// What it is called in messages.
    pub(crate) what: &'a str,
    /// Names another Python to use.
    pub(crate) chosen_by: &'static str,
    /// Set to anything, it makes a failure of what is skipped else.
    pub(crate) required_by: &'static str,
    /// The pinned packages' file.
    pub(crate) requirements: &'a str,
    /// Whether they name all that is needed: what they say they need is left out.
    pub(crate) is_all: bool,
    /// The minor release of Python 3 that they need at least.
    pub(crate) python_min: u32,
    /// The folder below the target directory.
    pub(crate) folder: &'a str,
}

impl Environment<'_> {
    /// Its Python, or `None` after saying why there is none.
    pub(crate) fn said(&self, found: &'static Result<PathBuf, String>) -> Option<&'static Path> {
        match found {
            Ok(python) => Some(python),
            Err(reason) => {
                skip(self.what, reason, self.required_by);
                None
            }
        }
    }

    /// The Python that was chosen, else one in an environment that is made once.
    pub(crate) fn find(&self) -> Result<PathBuf, String> {
        if let Some(python) = env::var_os(self.chosen_by) {
            return Ok(python.into());
        }
        let requirements = programs().join(self.requirements);
        let wanted = fs::read_to_string(&requirements).map_err(|error| error.to_string())?;
        let venv = binary::root().join("target").join(self.folder);
        fs::create_dir_all(&venv).map_err(|error| format!("{}: {error}", venv.display()))?;
        // One test process makes it, the others wait.
        let lock = File::create(venv.join("lock")).map_err(|error| error.to_string())?;
        lock.lock().map_err(|error| error.to_string())?;
        let (stamp, python) = (venv.join("stamp"), venv.join("bin/python"));
        if fs::read_to_string(&stamp).is_ok_and(|made| made == wanted) {
            return Ok(python);
        }
        run(Command::new(base(self.python_min)?).args(["-m", "venv"]).arg(&venv))?;
        run(Command::new(&python)
            .args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"])
            .args(self.is_all.then_some("--no-deps"))
            .arg("--requirement")
            .arg(&requirements))?;
        fs::write(&stamp, wanted).map_err(|error| error.to_string())?;
        Ok(python)
    }
}

/// A Python of a release that the pinned packages are made for, of this minor release at least.
fn base(minor: u32) -> Result<&'static str, String> {
    let check =
        format!("import sys, venv; sys.exit(not (3, {minor}) <= sys.version_info < (3, 14))");
    let fits = |python: &&str| run(Command::new(python).args(["-c", &check])).is_ok();
    let none = || format!("no Python 3.{minor} to 3.13 on PATH");
    PYTHONS.into_iter().find(fits).ok_or_else(none)
}

fn run(command: &mut Command) -> Result<(), String> {
    let output = command.output().map_err(|error| format!("{command:?}: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("{command:?}: {}", String::from_utf8_lossy(&output.stderr)))
}

/// Where the programs lie.
fn programs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("python")
}

/// Starts one of the programs, such as `worker.py`.
pub fn program(python: &Path, name: &str, arguments: &[String]) -> Process {
    let mut command = Command::new(python);
    command.arg(programs().join(name)).args(arguments);
    command.env("PYTHONDONTWRITEBYTECODE", "1").env("PYTHONUNBUFFERED", "1");
    Process::start(name, &mut command)
}
