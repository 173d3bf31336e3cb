//! Variables of the environment that nearly have the name of a setting.

use pyo3::prelude::*;

/// Adds its function.
pub(crate) fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(_mistyped_variables, module)?)
}

/// A sentence for each variable of the environment that looks mistyped, by the rule of the command line.
#[pyfunction]
fn _mistyped_variables() -> Vec<String> {
    rondo::cli::mistyped_variables()
}
