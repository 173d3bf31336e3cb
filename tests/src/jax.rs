//! Real JAX jobs on CPUs.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

use crate::process::Process;
use crate::python::{Environment, program};

/// How long a process may be silent: starting JAX takes many seconds on a busy machine.
const PATIENCE: Duration = Duration::from_secs(240);

/// A release of JAX.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Release {
    /// 0.10: speaks `xla.coordination.CoordinationService`.
    DialectX,
    /// 0.9: speaks `tensorflow.CoordinationService`.
    DialectT,
}

/// A Python with JAX of this release, or `None` after saying why there is none.
///
/// `RONDO_JAX_PYTHON` and `RONDO_JAX_BEFORE_PYTHON` name ones to use; else environments are made
/// once, below the target directory, from the pinned requirements. With `RONDO_JAX_REQUIRED` set,
/// none is a failure.
///
/// # Panics
/// When there is none but it is required.
pub fn python(release: Release) -> Option<&'static Path> {
    static PYTHONS: [OnceLock<Result<PathBuf, String>>; 2] = [OnceLock::new(), OnceLock::new()];
    let (environment, place) = match release {
        Release::DialectX => {
            let environment = Environment {
                what: "JAX 0.10",
                chosen_by: "RONDO_JAX_PYTHON",
                required_by: "RONDO_JAX_REQUIRED",
                requirements: "requirements-jax.txt",
                is_all: false,
                folder: "venv-jax",
            };
            (environment, 0)
        }
        Release::DialectT => {
            let environment = Environment {
                what: "JAX 0.9",
                chosen_by: "RONDO_JAX_BEFORE_PYTHON",
                required_by: "RONDO_JAX_REQUIRED",
                requirements: "requirements-jax-before.txt",
                is_all: false,
                folder: "venv-jax-before",
            };
            (environment, 1)
        }
    };
    environment.said(PYTHONS[place].get_or_init(|| environment.find()))
}

/// The processes of a job.
#[derive(Debug)]
pub struct Job(Vec<Process>);

impl Job {
    /// Starts a job of so many processes, each for so many steps.
    pub fn start(
        python: &Path,
        coordinator: &str,
        processes: usize,
        steps: usize,
        pause_ms: u64,
    ) -> Self {
        let start = |process| {
            let arguments = [
                format!("--coordinator={coordinator}"),
                format!("--processes={processes}"),
                format!("--process={process}"),
                format!("--steps={steps}"),
                format!("--pause-ms={pause_ms}"),
            ];
            program(python, "jax_process.py", &arguments)
        };
        Self((0..processes).map(start).collect())
    }

    /// Waits until every process has registered.
    ///
    /// # Panics
    /// When one of them ends before.
    pub fn begun(&self) {
        for process in &self.0 {
            let line = process.line_with("ready", PATIENCE);
            assert!(line.is_some(), "a process ended:\n{}", process.log());
        }
    }

    /// Waits until every process has done this step, and gives what each says is its sum.
    ///
    /// # Panics
    /// When one of them ends before.
    pub fn sums_of(&self, step: usize) -> Vec<u64> {
        let wanted = format!("step {step} sum ");
        let sum = |process: &Process| {
            let line = process.line_with(&wanted, PATIENCE);
            let line = line.unwrap_or_else(|| panic!("a process ended:\n{}", process.log()));
            line.rsplit(' ').next().unwrap().parse().unwrap()
        };
        self.0.iter().map(sum).collect()
    }

    /// Waits until every process has ended in order.
    ///
    /// # Panics
    /// When one of them fails.
    pub fn end(mut self) {
        for process in &mut self.0 {
            let ended = process.wait(PATIENCE);
            assert!(ended.status.success(), "a process failed, {}:\n{}", ended.status, ended.log);
            assert!(ended.log.lines().any(|line| line == "end"), "{}", ended.log);
        }
    }
}

/// What all the processes of a job must say after a step: each adds its number, counted from 1, and
/// the step's.
pub fn right_sums(processes: usize, step: usize) -> Vec<u64> {
    let sum: usize = (1..=processes).map(|number| number + step).sum();
    vec![sum as u64; processes]
}
