//! Clusters found: what `rondo/cluster.py` makes classes of, as JSON.

mod detection;
mod looking;
mod resolver;

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

use crate::error::invalid;

/// Adds its functions.
pub(crate) fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(detection::_detect_cluster, module)?)?;
    module.add_class::<resolver::Resolver>()
}

/// What nobody gave, from the cluster that `cluster=` means; nothing is looked for unless it is wanted.
#[derive(Default)]
pub(crate) struct Place<'a, 'py> {
    cluster: Option<&'a Bound<'py, PyAny>>,
    found: Option<Bound<'py, PyAny>>,
}

impl<'a, 'py> Place<'a, 'py> {
    /// Of this cluster, if one was given.
    pub(crate) fn of(cluster: Option<&'a Bound<'py, PyAny>>) -> Self {
        Self { cluster, found: None }
    }

    /// What was given, else what the cluster tells under this name.
    ///
    /// # Errors
    /// When neither tells it, or no cluster is found.
    pub(crate) fn fill<T>(&mut self, py: Python<'py>, what: &str, given: Option<T>) -> PyResult<T>
    where
        T: for<'x> FromPyObject<'x, 'py, Error = PyErr>,
    {
        static OF: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
        if let Some(given) = given {
            return Ok(given);
        }
        let Some(cluster) = self.cluster else {
            let text =
                format!("no {what} is given: give one, or cluster=\"auto\" to have it found");
            return Err(invalid(py, text));
        };
        let found = match self.found.take() {
            Some(found) => found,
            None => OF.import(py, "rondo.cluster", "_of")?.call1((cluster,))?,
        };
        self.found.insert(found).getattr(what)?.extract()
    }
}
