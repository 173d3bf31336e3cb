//! A task's own side of the coordination service.

mod interface;
mod keys;
mod store;
mod tasks;
mod watch;

use pyo3::prelude::*;

/// Adds its classes.
pub(crate) fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<interface::Agent>()?;
    module.add_class::<store::KeyValueStore>()?;
    module.add_class::<tasks::TaskState>()?;
    module.add_class::<tasks::JobState>()?;
    module.add_class::<watch::Watch>()?;
    module.add_class::<watch::Changes>()?;
    module.add_class::<watch::KeyChange>()
}
