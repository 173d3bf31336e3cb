//! A consumer of a dataset.

mod content;
mod element;
mod interface;
mod positions;
mod progress;
mod records;
mod settings;

use pyo3::prelude::*;

/// Adds its classes and functions.
pub(crate) fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<interface::Reader>()?;
    module.add_class::<records::Records>()?;
    module.add_class::<element::Element>()?;
    module.add_class::<progress::Progress>()?;
    module.add_function(wrap_pyfunction!(positions::save_position, module)?)?;
    module.add_function(wrap_pyfunction!(positions::restore_position, module)?)?;
    module.add_function(wrap_pyfunction!(positions::delete_position, module)?)
}
