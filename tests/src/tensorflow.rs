//! Real TensorFlow programs in an environment of their own.

use std::env;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::Duration;

use crate::binary;
use crate::process::Process;

/// How long a program may be silent: starting TensorFlow takes seconds on a busy machine.
const PATIENCE: Duration = Duration::from_secs(180);
/// Python releases that the pinned packages are made for.
const PYTHONS: [&str; 4] = ["python3", "python3.13", "python3.12", "python3.11"];

/// A Python with TensorFlow, or `None` after saying why there is none.
///
/// `RONDO_TENSORFLOW_PYTHON` names one to use; else an environment is made once, below the target
/// directory, from the pinned requirements. With `RONDO_TENSORFLOW_REQUIRED` set, none is a failure.
///
/// # Panics
/// When there is none but it is required.
pub fn python() -> Option<&'static Path> {
    static PYTHON: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    match PYTHON.get_or_init(find) {
        Ok(python) => Some(python),
        Err(reason) => {
            let required =
                env::var_os("RONDO_TENSORFLOW_REQUIRED").is_some_and(|value| !value.is_empty());
            assert!(!required, "TensorFlow is required here and cannot be had: {reason}");
            println!("skipped: TensorFlow cannot be had: {reason}");
            None
        }
    }
}

fn find() -> Result<PathBuf, String> {
    if let Some(python) = env::var_os("RONDO_TENSORFLOW_PYTHON") {
        return Ok(python.into());
    }
    let requirements = folder().join("requirements.txt");
    let wanted = fs::read_to_string(&requirements).map_err(|error| error.to_string())?;
    let venv = binary::root().join("target/venv-tensorflow");
    fs::create_dir_all(&venv).map_err(|error| format!("{}: {error}", venv.display()))?;
    // One test process makes it, the others wait.
    let lock = File::create(venv.join("lock")).map_err(|error| error.to_string())?;
    lock.lock().map_err(|error| error.to_string())?;
    let (stamp, python) = (venv.join("stamp"), venv.join("bin/python"));
    if fs::read_to_string(&stamp).is_ok_and(|made| made == wanted) {
        return Ok(python);
    }
    run(Command::new(base()?).args(["-m", "venv"]).arg(&venv))?;
    run(Command::new(&python)
        .args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--requirement"])
        .arg(&requirements))?;
    fs::write(&stamp, wanted).map_err(|error| error.to_string())?;
    Ok(python)
}

/// A Python of a release that TensorFlow 2.21 and NumPy 2.4 are made for.
fn base() -> Result<&'static str, String> {
    let check = "import sys, venv; sys.exit(not (3, 11) <= sys.version_info < (3, 14))";
    let fits = |python: &&str| run(Command::new(python).args(["-c", check])).is_ok();
    PYTHONS.into_iter().find(fits).ok_or_else(|| "no Python 3.11, 3.12 or 3.13 on PATH".into())
}

fn run(command: &mut Command) -> Result<(), String> {
    let output = command.output().map_err(|error| format!("{command:?}: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("{command:?}: {}", String::from_utf8_lossy(&output.stderr)))
}

/// Where the programs lie.
fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("python")
}

/// Starts one of the programs, such as `worker.py`.
pub fn program(python: &Path, name: &str, arguments: &[String]) -> Process {
    let mut command = Command::new(python);
    command.arg(folder().join(name)).args(arguments);
    command.env("PYTHONDONTWRITEBYTECODE", "1").env("PYTHONUNBUFFERED", "1");
    Process::start(name, &mut command)
}

/// A tf.data service worker in a process of its own.
#[derive(Debug)]
pub struct Worker {
    process: Process,
    port: u16,
    dispatcher: String,
}

impl Worker {
    /// Starts workers of the dispatcher at `dispatcher`, and waits until all of them serve.
    pub fn start(python: &Path, dispatcher: &str, count: usize) -> Vec<Self> {
        let processes: Vec<Process> = (0..count).map(|_| launch(python, dispatcher, 0)).collect();
        let ready = |process| {
            let port = ready_port(&process);
            Self { process, port, dispatcher: dispatcher.into() }
        };
        processes.into_iter().map(ready).collect()
    }

    /// Its address as the dispatcher knows it.
    pub fn address(&self) -> String {
        format!("localhost:{}", self.port)
    }

    /// Kills it as `kill -9` does.
    pub fn kill(&mut self) {
        self.process.kill();
    }

    /// Starts it again after its end, at the same address.
    pub fn start_again(&mut self, python: &Path) {
        self.process = launch(python, &self.dispatcher, self.port);
        assert_eq!(ready_port(&self.process), self.port);
    }
}

fn launch(python: &Path, dispatcher: &str, port: u16) -> Process {
    program(python, "worker.py", &[format!("--dispatcher={dispatcher}"), format!("--port={port}")])
}

fn ready_port(process: &Process) -> u16 {
    let line = process.line_with("ready on ", PATIENCE);
    let port = line.as_deref().and_then(|line| line.rsplit(' ').next()?.parse().ok());
    port.unwrap_or_else(|| panic!("the worker ended:\n{}", process.log()))
}

/// A program that reads one epoch of a range and tells each element.
#[derive(Debug)]
pub struct Reader {
    process: Process,
    /// What it has read so far.
    pub elements: Vec<u64>,
}

impl Reader {
    /// Starts reading `0..elements` with a pause after each element; readers of one job share it.
    pub fn start(python: &Path, dispatcher: &str, elements: u64, pause_ms: u64, job: &str) -> Self {
        let arguments = [
            format!("--dispatcher={dispatcher}"),
            format!("--elements={elements}"),
            format!("--pause-ms={pause_ms}"),
            format!("--job={job}"),
        ];
        Self { process: program(python, "read_elements.py", &arguments), elements: Vec::new() }
    }

    /// Takes what it reads until it has `count` elements in all or is at its end; true at the end.
    ///
    /// # Panics
    /// When it ends otherwise than by the dataset's end, or says nothing for minutes.
    pub fn read_upto(&mut self, count: usize) -> bool {
        while self.elements.len() < count {
            let line = self.process.next_line(PATIENCE);
            let line = line.unwrap_or_else(|| panic!("the reader ended:\n{}", self.process.log()));
            match line.strip_prefix("element ") {
                Some(element) => self.elements.push(element.parse().expect("a number")),
                None if line == "end" => return true,
                None => {}
            }
        }
        false
    }
}

/// Runs a program to its end and fails with all it said if it fails.
///
/// # Panics
/// When it fails, or takes longer than ten minutes.
pub fn run_to_success(python: &Path, name: &str, arguments: &[String]) -> String {
    let ended = program(python, name, arguments).wait(Duration::from_secs(600));
    assert!(ended.status.success(), "{name} failed, {}:\n{}", ended.status, ended.log);
    ended.log
}
