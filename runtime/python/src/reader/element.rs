//! An element as Python sees it.

use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyList, PyTuple};
use rondo_core::element::{Element as Read, Spec};

use super::content::array;

/// What a job yields when it is read by element: tensors in a structure.
#[pyclass(frozen, module = "rondo")]
pub(crate) struct Element {
    element: Read,
    spec: Option<Arc<Spec>>,
}

impl Element {
    pub(super) const fn of(element: Read, spec: Option<Arc<Spec>>) -> Self {
        Self { element, spec }
    }
}

#[pymethods]
impl Element {
    fn __len__(&self) -> usize {
        self.element.components.len()
    }

    /// The tensors as NumPy arrays, in the order of the structure; strings are arrays of bytes, and
    /// ragged or sparse tensors the bytes of their protobuf message.
    #[getter]
    fn tensors<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let arrays = self.element.components.iter().map(|tensor| array(py, tensor, false));
        PyList::new(py, arrays.collect::<PyResult<Vec<_>>>()?)
    }

    /// The tensors in the dataset's structure: dicts, tuples, lists, named tuples. A tuple of all
    /// where the structure was not registered.
    #[getter]
    fn value<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let tensors = self.tensors(py)?;
        match &self.spec {
            Some(spec) => structured(py, spec, &mut tensors.iter()),
            None => Ok(tensors.to_tuple().into_any()),
        }
    }

    fn __repr__(&self) -> String {
        format!("<rondo.Element: {} tensors>", self.element.components.len())
    }
}

type Arrays<'py> = pyo3::types::list::BoundListIterator<'py>;

fn structured<'py>(
    py: Python<'py>,
    spec: &Spec,
    arrays: &mut Arrays<'py>,
) -> PyResult<Bound<'py, PyAny>> {
    static NAMED: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let mut all = |members: &[Spec]| -> PyResult<Vec<_>> {
        members.iter().map(|member| structured(py, member, arrays)).collect()
    };
    Ok(match spec {
        Spec::List(members) => PyList::new(py, all(members)?)?.into_any(),
        Spec::Tuple(members) => PyTuple::new(py, all(members)?)?.into_any(),
        Spec::Dict(members) => {
            let dict = PyDict::new(py);
            for (key, member) in members {
                dict.set_item(key, structured(py, member, arrays)?)?;
            }
            dict.into_any()
        }
        Spec::NamedTuple { class, fields } => {
            let names: Vec<&String> = fields.iter().map(|(name, _)| name).collect();
            let members = fields.iter().map(|(_, member)| structured(py, member, arrays));
            let members = PyTuple::new(py, members.collect::<PyResult<Vec<_>>>()?)?;
            NAMED.import(py, "collections", "namedtuple")?.call1((class, names))?.call1(members)?
        }
        // One component each.
        Spec::Tensor { .. } | Spec::Ragged { .. } | Spec::Sparse(_) => {
            arrays.next().unwrap_or_else(|| py.None().into_bound(py))
        }
    })
}
