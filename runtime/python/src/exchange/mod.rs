//! The exchange of tensors between workers and servers.

mod interface;
mod scheduler;
mod server;
mod settings;
mod trace;
mod unit;
mod used;
mod worker;

use pyo3::prelude::*;

/// Adds its classes.
pub(crate) fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<interface::Exchange>()?;
    module.add_class::<scheduler::ExchangeScheduler>()?;
    module.add_class::<unit::Unit>()?;
    trace::add_to(module)
}
