//! Real TensorFlow programs in an environment of their own.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

use crate::process::Process;
use crate::python::Environment;
pub use crate::python::program;

/// How long a program may be silent: starting TensorFlow takes seconds on a busy machine.
const PATIENCE: Duration = Duration::from_secs(180);
const ENVIRONMENT: Environment<'static> = Environment {
    what: "TensorFlow",
    chosen_by: "RONDO_TENSORFLOW_PYTHON",
    required_by: "RONDO_TENSORFLOW_REQUIRED",
    requirements: "requirements.txt",
    is_all: false,
    python_min: 11,
    folder: "venv-tensorflow",
};

/// A Python with TensorFlow, or `None` after saying why there is none.
///
/// `RONDO_TENSORFLOW_PYTHON` names one to use; else an environment is made once, below the target
/// directory, from the pinned requirements. With `RONDO_TENSORFLOW_REQUIRED` set, none is a failure.
///
/// # Panics
/// When there is none but it is required.
pub fn python() -> Option<&'static Path> {
    static PYTHON: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    ENVIRONMENT.said(PYTHON.get_or_init(|| ENVIRONMENT.find()))
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
        Self::reading(python, dispatcher, &format!("--elements={elements}"), pause_ms, job)
    }

    /// Starts reading a registered dataset with a column `value`, likewise.
    pub fn of_dataset(
        python: &Path,
        dispatcher: &str,
        dataset: &str,
        pause_ms: u64,
        job: &str,
    ) -> Self {
        Self::reading(python, dispatcher, &format!("--dataset={dataset}"), pause_ms, job)
    }

    fn reading(python: &Path, dispatcher: &str, what: &str, pause_ms: u64, job: &str) -> Self {
        let arguments = [
            format!("--dispatcher={dispatcher}"),
            what.to_owned(),
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
