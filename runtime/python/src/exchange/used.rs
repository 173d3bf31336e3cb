//! What a call does with a tensor.

use pyo3::prelude::*;
use rondo::tensor::TensorBuffer;
use rondo::tensor::cuda::Cuda;

use crate::tensor::{Place, TensorView};

/// What a call does with a tensor.
#[derive(Clone, Copy, Debug)]
pub(super) enum Use {
    /// It is sent; from a GPU, after what is on the current stream if that is to be waited for.
    Sent {
        /// Whether it is.
        ordered: bool,
    },
    /// It is written to.
    Filled,
}

impl Use {
    /// The tensor's memory.
    ///
    /// # Errors
    /// InvalidArgument when it cannot be used so.
    pub(super) fn buffer(
        self,
        py: Python<'_>,
        view: &TensorView,
        place: Place<'_>,
        cuda: Option<&Cuda>,
    ) -> PyResult<TensorBuffer> {
        let ordered = match self {
            Self::Sent { ordered } => ordered,
            Self::Filled => {
                view.check_writable(py, place)?;
                true
            }
        };
        view.buffer(py, place, cuda, ordered)
    }
}
