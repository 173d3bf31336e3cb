//! Real JAX jobs on CPUs.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::thread;
use std::time::Duration;

use crate::process::Process;
use crate::python::{Environment, program};
use crate::relay::Relay;
use crate::server::{Options, Server, run};
use crate::skip::skip;

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
                python_min: 11,
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
                python_min: 11,
                folder: "venv-jax-before",
            };
            (environment, 1)
        }
    };
    environment.said(PYTHONS[place].get_or_init(|| environment.find()))
}

/// The last patch release of each minor release that docs/compatibility.md names.
/// With the minor release of Python 3 that it needs at least.
pub const RELEASES: [(&str, u32); 8] = [
    ("0.5.3", 11),
    ("0.6.2", 11),
    ("0.7.2", 11),
    ("0.8.3", 11),
    ("0.9.2", 11),
    ("0.10.2", 11),
    ("0.11.2", 12),
    ("0.12.0.1", 12),
];

/// A Python with JAX of one of [`RELEASES`], in an environment that is made once below the target directory.
/// `None`, after saying so, unless `RONDO_JAX_RELEASES_REQUIRED` is set.
///
/// # Panics
/// When it is required and cannot be had.
pub fn python_of((release, python_min): (&str, u32)) -> Option<PathBuf> {
    let required_by = "RONDO_JAX_RELEASES_REQUIRED";
    let what = format!("JAX {release}");
    if std::env::var_os(required_by).is_none_or(|set| set.is_empty()) {
        skip(&what, "eight environments take 4 GB", required_by);
        return None;
    }
    let environment = Environment {
        what: &what,
        // Nobody has all of them.
        chosen_by: "",
        required_by,
        requirements: &format!("jax/{release}.txt"),
        is_all: true,
        python_min,
        folder: &format!("venv-jax-{release}"),
    };
    environment.find().map_err(|reason| skip(&what, &reason, required_by)).ok()
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

    /// Waits until every process has been told that all of them live.
    ///
    /// # Panics
    /// When one is told something else, or ends before.
    pub fn all_live(&self) {
        let all = format!("live {:?}", (0..self.0.len()).collect::<Vec<_>>());
        for process in &self.0 {
            let line = process.line_with("live ", PATIENCE);
            assert_eq!(line.as_deref(), Some(&*all), "{}", process.log());
        }
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

/// How many processes a job has that these functions start.
const PROCESSES: usize = 2;
const STEPS: usize = 4;
/// Between two steps, so that the server dies while the job is under way.
const PAUSE_MS: u64 = 500;
/// How long the server stays away.
const AWAY: Duration = Duration::from_secs(2);

/// Two jobs, one after the other, on the same server: both end with the right sums.
///
/// # Panics
/// When one of them does not.
pub fn two_jobs_end_well(python: &Path, options: &Options) {
    let mut server = Server::start(&options.clone().flag(&format!("--tasks={PROCESSES}")));
    for _ in 0..2 {
        let job = Job::start(python, &server.address(), PROCESSES, STEPS, 0);
        for step in 0..STEPS {
            assert_eq!(job.sums_of(step), right_sums(PROCESSES, step), "step {step}");
        }
        job.all_live();
        job.end();
    }
    assert_eq!(lives(&server), 2);
    assert_eq!(server.terminate().status.code(), Some(0));
}

/// A job behind a relay whose server is killed twice and comes back: it ends with the right sums.
///
/// # Panics
/// When it does not.
pub fn a_job_outlives_its_server(python: &Path, options: &Options) {
    let mut server = Server::start(&options.clone().flag(&format!("--tasks={PROCESSES}")));
    let mut relay = Relay::start(&server.address());
    let job = Job::start(python, &relay.address(), PROCESSES, STEPS, PAUSE_MS);
    job.begun();
    // They have registered, and tell one another about their devices next.
    bounce(&mut server);
    for step in 0..STEPS {
        assert_eq!(job.sums_of(step), right_sums(PROCESSES, step), "step {step}");
        if step == 1 {
            bounce(&mut server);
        }
    }
    job.all_live();
    job.end();
    assert_eq!(lives(&server), 1);
    assert_eq!(relay.terminate().status.code(), Some(0));
    assert_eq!(server.terminate().status.code(), Some(0));
}

/// How many lives the server's one namespace has had.
fn lives(server: &Server) -> u64 {
    let status =
        run(&["status", "--server", &server.address(), "--section=namespaces", "--format=json"]);
    let status: serde_json::Value = serde_json::from_str(&status.log).expect("JSON");
    status["coordination"]["namespaces"][0]["life"].as_u64().expect("a number")
}

/// Kills the server, and starts it again after a while.
fn bounce(server: &mut Server) {
    server.kill();
    thread::sleep(AWAY);
    server.start_again();
}
