//! Records as Python sees them: by column, by row, or as Arrow.

use arrow::datatypes::Field;
use arrow::error::ArrowError;
use arrow::record_batch::RecordBatch;
use pyo3::exceptions::PyKeyError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyList};
use rondo::reader::{Content, Delivery, Origin};
use rondo_core::status::{Code, Status};
use rondo_data::{DataError, elements, to_ipc};

use super::content::{array, field, single};
use crate::error::raised;
use crate::tensor::HostTensor;

/// Records that were delivered together, and where they come from.
#[pyclass(frozen, module = "rondo")]
pub(crate) struct Records {
    records: RecordBatch,
    origins: Vec<Origin>,
}

impl Records {
    pub(super) const fn of(records: RecordBatch, origins: Vec<Origin>) -> Self {
        Self { records, origins }
    }

    /// The delivery of the first so many of them.
    pub(super) fn delivery(&self, first: u64) -> Delivery {
        let content = Content::Records(self.records.clone());
        Delivery { content, identity: self.origins.clone() }.first(first)
    }

    fn place(&self, name: &str) -> PyResult<usize> {
        let schema = self.records.schema_ref();
        schema.index_of(name).map_err(|_| {
            let names: Vec<&str> =
                schema.fields().iter().map(|field| field.name().as_str()).collect();
            PyKeyError::new_err(format!("no column {name:?}: there are {}", names.join(", ")))
        })
    }

    /// One column's values.
    fn values<'py>(&self, py: Python<'py>, place: usize) -> PyResult<Bound<'py, PyAny>> {
        let column = self.records.project(&[place]).map_err(|error| internal(py, &error))?;
        let element = elements(&column, true).map_err(|error| unfit(py, &error))?.pop();
        let mut tensors = element.unwrap_or_default().components.into_iter();
        field(py, column.schema_ref().field(0), &mut tensors, array)
    }
}

#[pymethods]
impl Records {
    fn __len__(&self) -> usize {
        self.records.num_rows()
    }

    /// The columns' names, in order.
    #[getter]
    fn columns(&self) -> Vec<String> {
        self.fields().map(|field| field.name().clone()).collect()
    }

    /// Each column's type, in Arrow's words.
    #[getter]
    fn schema<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let schema = PyDict::new(py);
        for field in self.fields() {
            schema.set_item(field.name(), field.data_type().to_string())?;
        }
        Ok(schema)
    }

    /// Where the records come from, in order: (the split's place, the first record, how many). What is
    /// delivered again after a crash has the same.
    #[getter]
    fn origins(&self) -> Vec<(u64, u64, u64)> {
        self.origins.iter().map(|origin| (origin.place, origin.first, origin.count)).collect()
    }

    /// A column as a NumPy array, where the values lie: read-only. Texts and bytes are an array of
    /// objects; a struct is a dict of arrays. A column with nulls, or lists of different lengths, is
    /// refused: rows() and to_arrow() have them.
    fn __getitem__<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyAny>> {
        self.values(py, self.place(name)?)
    }

    fn __contains__(&self, name: &str) -> bool {
        self.records.schema_ref().index_of(name).is_ok()
    }

    /// All columns, by name, as record["name"] gives each.
    fn numpy<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let columns = PyDict::new(py);
        for (place, field) in self.fields().enumerate() {
            columns.set_item(field.name(), self.values(py, place)?)?;
        }
        Ok(columns)
    }

    /// Each record as a dict: numbers, texts and bytes as Python's own, lists as NumPy arrays.
    fn rows<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let rows = PyList::empty(py);
        for row in elements(&self.records, false).map_err(|error| unfit(py, &error))? {
            // An element's components are in the order of the columns' names.
            let mut tensors = row.components.into_iter();
            let record = PyDict::new(py);
            let mut sorted: Vec<&Field> = self.fields().collect();
            sorted.sort_by_key(|field| field.name());
            for one in sorted {
                record.set_item(one.name(), field(py, one, &mut tensors, single)?)?;
            }
            rows.append(record)?;
        }
        Ok(rows)
    }

    /// As a pyarrow.RecordBatch, by one copy.
    fn to_arrow<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        static OPEN: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
        let stream = Bound::new(py, self.to_ipc(py)?)?;
        OPEN.import(py, "rondo._arrow", "batch_of")?.call1((stream,))
    }

    /// As an Arrow IPC stream, which any implementation of Arrow reads.
    fn to_ipc(&self, py: Python<'_>) -> PyResult<HostTensor> {
        let stream = to_ipc(&self.records).map_err(|error| unfit(py, &error))?;
        HostTensor::of_bytes(py, stream)
    }

    fn __repr__(&self) -> String {
        format!("<rondo.Records: {} of {}>", self.records.num_rows(), self.columns().join(", "))
    }
}

impl Records {
    fn fields(&self) -> impl Iterator<Item = &Field> {
        self.records.schema_ref().fields().iter().map(AsRef::as_ref)
    }
}

fn unfit(py: Python<'_>, error: &DataError) -> PyErr {
    raised(py, &error.status())
}

fn internal(py: Python<'_>, error: &ArrowError) -> PyErr {
    raised(py, &Status::new(Code::Internal, error.to_string()))
}
