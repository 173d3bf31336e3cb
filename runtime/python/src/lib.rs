//! The Python module `rondo`: a thin layer over the library. What it is for its users is told by
//! `docs/python.md`, and by the docstrings and stubs beside it in `rondo/`.

#![warn(missing_docs)]
#![warn(clippy::undocumented_unsafe_blocks)]

mod agent;
mod cluster;
mod error;
mod exchange;
mod reader;
mod tensor;
mod variables;
mod waiting;

use pyo3::prelude::*;

/// What `rondo/__init__.py` shows of the library.
#[pymodule(name = "_rondo")]
fn extension(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    agent::add_to(module)?;
    cluster::add_to(module)?;
    exchange::add_to(module)?;
    reader::add_to(module)?;
    tensor::add_to(module)?;
    variables::add_to(module)
}
