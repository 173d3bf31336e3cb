//! Kubernetes' own Python client.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use crate::process::Process;
use crate::python::{Environment, program};

/// A Python with Kubernetes' client, or `None` after saying why there is none.
///
/// `RONDO_KUBERNETES_PYTHON` names one to use; else an environment is made once, below the target directory,
/// from the pinned requirements. With `RONDO_KUBERNETES_REQUIRED` set, none is a failure.
///
/// # Panics
/// When there is none but it is required.
pub fn python() -> Option<&'static Path> {
    static PYTHON: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    let environment = Environment {
        what: "Kubernetes' Python client",
        chosen_by: "RONDO_KUBERNETES_PYTHON",
        required_by: "RONDO_KUBERNETES_REQUIRED",
        requirements: "requirements-kubernetes.txt",
        is_all: true,
        python_min: 11,
        folder: "venv-kubernetes",
    };
    environment.said(PYTHON.get_or_init(|| environment.find()))
}

/// Starts listing and watching pods behind a selector.
pub fn watch_pods(python: &Path, server: &str, namespace: &str, selector: &str) -> Process {
    program(python, "watch_pods.py", &[server, namespace, selector].map(str::to_owned))
}
