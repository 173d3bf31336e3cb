//! What is wrong with a tensor, with its name among the arguments.

use std::fmt;

use pyo3::prelude::*;

use crate::error::invalid;

/// Where a tensor stands in a call, such as `push_tensors[2]`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place<'a> {
    /// The argument.
    pub(crate) argument: &'a str,
    /// The place in it, if it is a list.
    pub(crate) index: Option<usize>,
}

impl Place<'_> {
    /// The refusal of the tensor there.
    pub(super) fn refused(&self, py: Python<'_>, what: impl fmt::Display) -> PyErr {
        invalid(py, format!("{self}: {what}"))
    }
}

impl fmt::Display for Place<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.index {
            Some(index) => write!(out, "{}[{index}]", self.argument),
            None => out.write_str(self.argument),
        }
    }
}
